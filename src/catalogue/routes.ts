import { Type } from 'typebox'
import type { Pool } from '../db/pool.ts'
import { sendCacheable } from '../http/cacheable.ts'
import { nextLink, PageOf } from '../http/pagination.ts'
import { problemResponses } from '../http/problem.ts'
import type { HttpServer } from '../http/server.ts'
import { listProducts, ProductQuery } from './list-products.ts'
import { getProduct, ProductSchema } from './products.ts'

const ALL_PRODUCTS = 'products'

/** The catalogue as shoppers see it. No token is looked at, so that any cache in front may keep the answers. */
export function catalogueRoutes(server: HttpServer, pool: Pool, baseUrl: string): void {
  const tags = ['catalogue']

  server.get(
    '/products',
    {
      schema: {
        tags,
        summary: 'Products, in pages',
        querystring: ProductQuery,
        response: { 200: PageOf(ProductSchema), ...problemResponses('invalid_query', 'invalid_cursor') },
      },
    },
    async (request, reply) => {
      const page = await listProducts(pool, request.query)
      const link = nextLink(baseUrl, '/products', request.query, page.next_cursor)
      if (link !== undefined) reply.header('link', link)
      return sendCacheable(request, reply, page, [ALL_PRODUCTS, ...page.data.map((product) => productTag(product.id))])
    },
  )

  server.get(
    '/products/:id',
    {
      schema: {
        tags,
        summary: 'One product',
        params: Type.Object({ id: Type.String({ format: 'uuid' }) }),
        response: { 200: ProductSchema, ...problemResponses('not_found') },
      },
    },
    async (request, reply) => {
      const product = await getProduct(pool, request.params.id)
      return sendCacheable(request, reply, product, [productTag(product.id)])
    },
  )
}

function productTag(id: string): string {
  return `product-${id}`
}
