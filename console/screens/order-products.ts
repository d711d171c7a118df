import { api, read } from '../kit/api.ts'
import { t } from '../kit/language.ts'
import type { Order } from './order-parts.ts'

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
/** Largest number of ids in one request. */
const AT_ONCE = 100

/** The product id for a SKU. People know the SKU, and the API finds orders by id. */
export async function findProductId(entered: string): Promise<string> {
  if (UUID.test(entered)) return entered.toLowerCase()
  const { data } = await read(api.GET('/products', { params: { query: { q: entered, limit: 20 } } }))
  const found = data.find(({ sku }) => sku.toLowerCase() === entered.toLowerCase())
  if (found === undefined) throw new Error(t`No product has the SKU ${entered}. An archived one is found by its id.`)
  return found.id
}

/** The SKU of a product, or undefined for an archived product. */
export async function findSku(productId: string): Promise<string | undefined> {
  if (!UUID.test(productId)) return undefined
  const { data } = await read(api.GET('/products', { params: { query: { ids: productId } } }))
  return data[0]?.sku
}

/** The images of an order's products by product id. Archived products have none. */
export async function findPictures({ items }: Order): Promise<ReadonlyMap<string, string | null>> {
  const ids = [...new Set(items.map(({ product_id }) => product_id))].slice(0, AT_ONCE)
  const { data } = await read(api.GET('/products', { params: { query: { ids: ids.join(','), limit: AT_ONCE } } }))
  return new Map(data.map(({ id, image_url }) => [id, image_url]))
}
