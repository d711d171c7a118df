import { type Static, Type } from 'typebox'
import { tryDueChanges } from '../../catalogue/apply-due-changes.ts'
import { readPrices } from '../../catalogue/products.ts'
import { readStock } from '../../catalogue/stock.ts'
import type { Pool } from '../../db/pool.ts'
import { type Basket, priceBasket } from '../basket.ts'
import { EXAMPLE_QUOTE } from '../examples.ts'
import { OrderSchema } from '../order.ts'

export const QuoteSchema = Type.Object(
  {
    items: OrderSchema.properties.items,
    total: OrderSchema.properties.total,
    is_available: Type.Boolean({
      description:
        'Whether there is enough stock for every line at this moment. Stock above 20 units is rounded up to 50, 100, 200, 500 and so on, so only an order gives the exact answer.',
    }),
    shortages: Type.Array(
      Type.Object({
        product_id: Type.String({ format: 'uuid' }),
        requested: Type.Integer(),
        available: Type.Integer({ description: 'The units that are available. At most 20, even if there are more.' }),
      }),
    ),
  },
  { title: 'Quote', examples: [EXAMPLE_QUOTE] },
)

/**
 * Reserves nothing. First applies starts and ends of sales that are due. Throws `unknown_product`,
 * `currency_not_available`, `mixed_currencies` or `total_too_large`.
 */
export async function quoteOrder(pool: Pool, basket: Basket, currency: string | null): Promise<Static<typeof QuoteSchema>> {
  const productIds = basket.lines.map((line) => line.product_id)
  // The queries are sequential, so a request holds at most one connection.
  await tryDueChanges(pool, productIds)
  const { products } = await readPrices(pool, productIds)
  const stock = await readStock(pool, productIds)
  const shortages = stock.shortagesOf(basket.lines, 'rounded')
  return { ...priceBasket(basket, currency, { products, stock }), is_available: shortages.length === 0, shortages }
}
