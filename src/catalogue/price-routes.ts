import { Type } from 'typebox'
import { defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { Cursor, DEFAULT_LIMIT, Limit, nextLink } from '../http/pagination.ts'
import { listPrices, ProductPricePageSchema } from './list-prices.ts'
import { Currency, readCurrency } from './offered-prices.ts'
import { ProductParams } from './products.ts'
import type { CatalogueContext } from './serve-catalogue.ts'

const PricesQuery = Type.Object(
  {
    currency: Type.Optional({ ...Currency, description: "Of the prices (ISO 4217), by default that of the product's own price." }),
    limit: Type.Optional(Limit),
    cursor: Type.Optional(Cursor),
  },
  { additionalProperties: false },
)

/** The prices of products over time, for operators. */
export function priceRoutes(server: HttpServer, { pool, baseUrl }: CatalogueContext): void {
  defineRoute(
    server,
    'GET /admin/products/:id/prices',
    {
      access: 'stock:read',
      operationId: 'listProductPrices',
      summary: 'The prices that a product has had in a currency, newest first, in pages',
      description: 'In one currency, as they were recorded. Kept for `CATALOGUE_EVENT_DAYS`, the newest one in each currency always.',
      params: ProductParams,
      query: PricesQuery,
      answers: { 200: [ProductPricePageSchema, 'A page of the prices.'] },
    },
    async (request, reply) => {
      const id = request.params.id.toLowerCase()
      const { limit = DEFAULT_LIMIT, cursor, currency } = request.query
      const page = await listPrices(pool, id, { limit, cursor, currency: readCurrency(currency) })
      const link = nextLink(baseUrl, `/admin/products/${id}/prices`, request.query, page.next_cursor)
      if (link !== undefined) reply.header('link', link)
      return page
    },
  )
}
