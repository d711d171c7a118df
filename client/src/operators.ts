import type { Client } from 'openapi-fetch'
import type { Storefront } from './index.ts'
import type { paths } from './schema.ts'

export type { components, operations, paths } from './schema.ts'

/**
 * The same `api` with the types of every operation, including those of operators. These types cost the compiler
 * seconds.
 */
export function operatorApi(shop: Storefront): Client<paths> {
  return shop.api as never
}
