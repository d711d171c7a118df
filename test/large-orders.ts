import assert from 'node:assert/strict'
import type { TestStore } from './store.ts'

/** The limit of lines of an order, and a name slightly shorter than the longest. */
const MAX_LINES = 1_000
const NAME_CHARACTERS = 280

/** The ids of products with long names, enough for the largest order. Their stock is not tracked. */
export async function addProductsForLargeOrders(store: TestStore): Promise<string[]> {
  const { rows } = await store.pool.query<{ id: string }>(
    `with added as (
      insert into products (id, sku, name, category, price_amount, price_currency, in_stock)
      select gen_random_uuid(), 'LARGE-' || gen_random_uuid(), repeat('x', $2), 'large', 100, 'EUR', true from generate_series(1, $1)
      returning id
    )
    insert into inventory (product_id, available) select id, null from added
    returning product_id as id`,
    [MAX_LINES, NAME_CHARACTERS],
  )
  return rows.map(({ id }) => id)
}

/** Places an order of the first `lines` of the products, and returns its id. */
export async function placeLargeOrder(store: TestStore, token: string, products: readonly string[], lines: number): Promise<string> {
  const items = products.slice(0, lines).map((id) => ({ product_id: id, quantity: 1 }))
  const { status, json, text } = await store.call('POST', '/orders', { token, body: { items } })
  assert.equal(status, 201, text)
  return json.id
}
