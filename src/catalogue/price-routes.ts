import { Type } from 'typebox'
import { defineList } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { listPrices, ProductPricePageSchema } from './list-prices.ts'
import { Currency, readCurrency } from './offered-prices.ts'
import { ProductParams } from './products.ts'
import type { CatalogueContext } from './serve-catalogue.ts'

const Filters = Type.Object({
  currency: Type.Optional({
    ...Currency,
    description: "The currency of the prices (ISO 4217). By default the currency of the product's own price.",
  }),
})

/** Operators' route for products' prices over time. */
export function priceRoutes(server: HttpServer, { pool }: CatalogueContext): void {
  defineList(
    server,
    'GET /admin/products/:id/prices',
    {
      access: 'stock:read',
      operationId: 'listProductPrices',
      summary: 'The prices that a product has had in a currency, newest first, in pages',
      description:
        'The prices in one currency, as they were recorded. They are kept for `CATALOGUE_EVENT_DAYS` days. The newest price in each currency is kept permanently.',
      params: ProductParams,
      filters: Filters,
      page: ProductPricePageSchema,
      answer: 'A page of the prices.',
    },
    (request) => listPrices(pool, request.params.id.toLowerCase(), { ...request.query, currency: readCurrency(request.query.currency) }),
  )
}
