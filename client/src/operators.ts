import type { Client } from 'openapi-fetch'
import type { Storefront } from './index.ts'
import type { paths } from './schema.ts'

export type { components, operations, paths } from './schema.ts'

/** The same `api` with the types of every operation, those of operators included. They take the compiler seconds, so a shop's pages do without. */
export function operatorApi(shop: Storefront): Client<paths> {
  return shop.api as never
}
