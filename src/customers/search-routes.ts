import { type Static, Type } from 'typebox'
import { EXAMPLE_PRODUCT } from '../catalogue/examples.ts'
import { findProducts } from '../catalogue/find-products.ts'
import { ProductSchema } from '../catalogue/products.ts'
import type { Pool } from '../db/pool.ts'
import { mayUse } from '../http/caller.ts'
import { defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { pagingOf } from '../http/pagination.ts'
import { EXAMPLE_ADMIN_ORDER } from '../orders/examples.ts'
import { OrderPosition } from '../orders/order-page.ts'
import { AdminOrderSchema, type OrderFinders, type OrderSearch, permittedFinders, searchOrders } from '../orders/search-orders.ts'
import { readSearchText, SearchQuery } from '../orders/search-text.ts'
import { CustomerSchema } from './customers.ts'
import { EXAMPLE_CUSTOMER } from './examples.ts'
import { CustomerPosition, searchCustomers } from './search-customers.ts'

/** Largest number of results of each kind. The lists have the others. */
const LIMIT = 5

export function searchRoutes(server: HttpServer, { pool, finders }: { pool: Pool; finders: OrderFinders }): void {
  defineRoute(
    server,
    'GET /admin/search',
    {
      access: 'orders:read',
      operationId: 'searchEverything',
      summary: 'The orders, customers and products that best match a search',
      description:
        `Up to ${LIMIT} of each: the order with this number and the first orders of \`GET /admin/orders?q=\`, the first customers of \`GET /admin/customers?q=\`, and the first products of ` +
        '`GET /products?q=`, without products whose words only resemble the search. Without the scope `customers:read` the list of customers is empty.',
      query: Type.Object({ q: SearchQuery('The text to search for.') }, { additionalProperties: false }),
      answers: {
        200: [
          Type.Object(
            { orders: Type.Array(AdminOrderSchema), customers: Type.Array(CustomerSchema), products: Type.Array(ProductSchema) },
            {
              title: 'SearchResult',
              examples: [{ orders: [EXAMPLE_ADMIN_ORDER], customers: [EXAMPLE_CUSTOMER], products: [EXAMPLE_PRODUCT] }],
            },
          ),
          'The matches.',
        ],
      },
    },
    async (request) => {
      const { q } = request.query
      const first = { limit: LIMIT }
      const search = (filters: Static<typeof OrderSearch>) =>
        searchOrders(pool, permittedFinders(finders, request), filters, pagingOf([], first, OrderPosition))
      const { number } = await readSearchText(pool, q)
      // Phones and codes of newer orders may contain the same digits.
      const exact = number === null ? [] : (await search({ number })).orders
      const { orders } = await search({ q })
      const customers = mayUse(request, 'customers:read')
        ? await searchCustomers(pool, { q }, pagingOf([], first, CustomerPosition), { mayReadOrders: true })
        : { data: [] }
      const byId = new Map([...exact, ...orders].map((text) => JSON.parse(text)).map((order) => [order.id, order]))
      return {
        orders: [...byId.values()].slice(0, LIMIT),
        customers: customers.data,
        products: q.startsWith('#') ? [] : await findProducts(pool, q, LIMIT),
      }
    },
  )
}
