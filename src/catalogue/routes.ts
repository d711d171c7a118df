import { Type } from 'typebox'
import type { HttpServer } from '../http/http-server.ts'
import { PageOf, pageLinks } from '../http/pagination.ts'
import { okResponses } from '../http/problem.ts'
import { LISTS_TAG, productTag } from './events.ts'
import { EXAMPLE_PRODUCT_PAGE } from './examples.ts'
import { listProducts } from './list-products.ts'
import { FacetsQuery, ProductQuery, readFilters, readListing, toParameters } from './product-query.ts'
import { getProduct, ProductParams, ProductSchema, productETag } from './products.ts'
import { countFacets, FacetsSchema } from './search/facets.ts'
import { type CatalogueContext, serveCatalogue } from './serve-catalogue.ts'

const ProductPageSchema = Type.Object(
  {
    ...PageOf(ProductSchema).properties,
    count: Type.Optional(
      Type.Object(
        { value: Type.Integer(), exact: Type.Boolean() },
        { description: 'Only with `include=count`; an estimate where it is not exact.' },
      ),
    ),
  },
  { title: 'ProductPage', examples: [EXAMPLE_PRODUCT_PAGE] },
)

/** The catalogue for shoppers. No token is read, so any cache in front may store the answers. */
export function catalogueRoutes(server: HttpServer, context: CatalogueContext): void {
  const tags = ['catalogue']

  server.get(
    '/products',
    {
      config: {
        access: 'public',
        isReadableByAnyOrigin: true,
        loadClass: ({ q, include }) => ((q ?? include) === undefined ? 'lists' : 'search'),
      },
      schema: {
        operationId: 'listProducts',
        description:
          'Keyset pages: every page costs the same. No token is read, so caches may keep the answer; send the `ETag` as `If-None-Match` to revalidate it.',
        tags,
        summary: 'Products, in pages',
        querystring: ProductQuery,
        response: okResponses(ProductPageSchema, 'A page of the products.', 'invalid_query', 'invalid_cursor'),
      },
    },
    async (request, reply) => {
      const listing = readListing(request.query)
      const parameters = toParameters(listing)
      const key = `list ${JSON.stringify(parameters)}`
      const cost = listing.search === null && !listing.hasCount ? 'page' : 'search'
      return serveCatalogue(context, request, reply, { key, cost }, async (tx) => {
        const { page, previousCursor } = await listProducts(tx, listing)
        const { cursor: _, ...rest } = parameters
        const link = pageLinks(`${context.baseUrl}/products`, rest, { prev: previousCursor, next: page.next_cursor })
        return { body: page, tags: [LISTS_TAG, ...page.data.map(({ id }) => productTag(id))], link }
      })
    },
  )

  server.get(
    '/products/facets',
    {
      config: { access: 'public', isReadableByAnyOrigin: true, loadClass: 'search' },
      schema: {
        operationId: 'listFacets',
        description: 'Takes the filters of the list. Counts are exact for small results and estimated from a sample for large ones.',
        tags,
        summary: 'How many products there are by category and price',
        querystring: FacetsQuery,
        response: okResponses(FacetsSchema, 'The numbers of products.', 'invalid_query'),
      },
    },
    async (request, reply) => {
      const filters = readFilters(request.query)
      const key = JSON.stringify(
        toParameters({ ...filters, sort: '-created_at', limit: 1, cursor: null, isCollapsed: false, hasCount: false }),
      )
      return serveCatalogue(context, request, reply, { key: `facets ${key}`, cost: 'search' }, async (tx) => ({
        body: await countFacets(tx, filters),
        tags: [LISTS_TAG],
      }))
    },
  )

  server.get(
    '/products/:id',
    {
      config: { access: 'public', isReadableByAnyOrigin: true },
      schema: {
        operationId: 'getProduct',
        description: 'An archived product is 404. The `ETag` can be the `If-Match` of a change.',
        tags,
        summary: 'One product',
        params: ProductParams,
        response: okResponses(ProductSchema, 'The product.', 'not_found'),
      },
    },
    async (request, reply) => {
      const id = request.params.id.toLowerCase()
      return serveCatalogue(context, request, reply, { key: `product ${id}`, cost: 'page' }, async (tx) => {
        const product = await getProduct(tx, id)
        // An entity tag of the product alone, so that it can be the If-Match of a change.
        return { body: product, tags: [productTag(id)], etag: productETag(product), lastModified: new Date(product.updated_at) }
      })
    },
  )
}
