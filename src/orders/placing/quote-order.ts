import { type Static, Type } from 'typebox'
import { tryDueChanges } from '../../catalogue/apply-due-changes.ts'
import { readPrices } from '../../catalogue/products.ts'
import { readStock } from '../../catalogue/stock.ts'
import type { Pool } from '../../db/pool.ts'
import { defineRoute, type Route } from '../../http/define-route.ts'
import type { HttpServer } from '../../http/http-server.ts'
import { type Basket, mergeLines, priceBasket } from '../basket.ts'
import { EXAMPLE_NEW_ORDER, EXAMPLE_QUOTE } from '../examples.ts'
import { BASKET_LIMIT_BYTES, Items, OrderCurrency } from '../new-order.ts'
import { OrderSchema } from '../order.ts'
import { INPUT_PROPERTIES } from '../order-columns.ts'
import { assertDeliverable } from '../postal-address.ts'

const QuoteSchema = Type.Object(
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
async function quoteOrder(pool: Pool, basket: Basket, currency: string | null): Promise<Static<typeof QuoteSchema>> {
  const productIds = basket.lines.map((line) => line.product_id)
  // The queries are sequential, so a request holds at most one connection.
  await tryDueChanges(pool, productIds)
  const { products } = await readPrices(pool, productIds)
  const stock = await readStock(pool, productIds)
  const shortages = stock.shortagesOf(basket.lines, 'rounded')
  return { ...priceBasket(basket, currency, { products, stock }), is_available: shortages.length === 0, shortages }
}

/** The quote of a caller, or of an operator for a customer. */
export function defineQuote(
  server: HttpServer,
  path: `POST /${string}`,
  { pool, ...route }: Pick<Route, 'access' | 'cost' | 'operationId'> & { pool: Pool },
): void {
  defineRoute(
    server,
    path,
    {
      ...route,
      bodyLimit: BASKET_LIMIT_BYTES,
      summary: 'What an order would cost and whether there is enough stock, without reserving anything',
      description: 'Uses the current prices and stock. `billing_address` and `vat_number` are checked, but do not affect the answer.',
      body: Type.Object(
        {
          items: Items,
          currency: Type.Optional(OrderCurrency),
          billing_address: INPUT_PROPERTIES.billing_address,
          vat_number: INPUT_PROPERTIES.vat_number,
        },
        { title: 'QuoteRequest', additionalProperties: false, examples: [{ items: EXAMPLE_NEW_ORDER.items }] },
      ),
      answers: { 200: [QuoteSchema, 'The order as it would be placed now.'] },
      refuses: ['unknown_product', 'currency_not_available', 'mixed_currencies', 'total_too_large'],
    },
    ({ body: { items, currency = null, billing_address } }) => {
      assertDeliverable(billing_address, '#/billing_address')
      return quoteOrder(pool, mergeLines(items), currency)
    },
  )
}
