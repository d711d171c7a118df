import { Type } from 'typebox'
import type { HttpServer } from '../http/http-server.ts'
import { PageOf, pageLinks } from '../http/pagination.ts'
import { okResponses } from '../http/problem.ts'
import { LISTS_TAG, productTag } from './events.ts'
import { EXAMPLE_MOVED_PRODUCT, EXAMPLE_PRODUCT_PAGE } from './examples.ts'
import { listProducts } from './list-products.ts'
import { getProduct, getProductBySlug, type ProductDetails, ProductDetailsSchema, productETag } from './product-details.ts'
import { FacetsQuery, ProductQuery, readFilters, readListing, toParameters } from './product-query.ts'
import { ProductParams, ProductSchema } from './products.ts'
import { countFacets, FacetsSchema } from './search/facets.ts'
import { type CatalogueContent, type CatalogueContext, serveCatalogue } from './serve-catalogue.ts'
import { MAX_SLUG_LENGTH } from './slugs.ts'

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

const SlugParams = Type.Object({
  slug: Type.String({ minLength: 1, maxLength: MAX_SLUG_LENGTH, description: 'The slug, percent-encoded.' }),
})
const MovedSchema = Type.Object(
  { moved_to: Type.String({ description: 'The slug of now.' }) },
  { title: 'MovedProduct', examples: [EXAMPLE_MOVED_PRODUCT] },
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
        summary: 'How many products there are by category, price and attribute',
        querystring: FacetsQuery,
        response: okResponses(FacetsSchema, 'The numbers of products.', 'invalid_query'),
      },
    },
    async (request, reply) => {
      const filters = readFilters(request.query)
      const hasAttributes = request.query.include !== undefined
      const key = JSON.stringify(
        toParameters({ ...filters, sort: '-created_at', limit: 1, cursor: null, isCollapsed: false, hasCount: false }),
      )
      return serveCatalogue(context, request, reply, { key: `facets ${hasAttributes} ${key}`, cost: 'search' }, async (tx) => ({
        body: await countFacets(tx, filters, { hasAttributes }),
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
        response: okResponses(ProductDetailsSchema, 'The product.', 'not_found'),
      },
    },
    async (request, reply) => {
      const id = request.params.id.toLowerCase()
      return serveCatalogue(context, request, reply, { key: `product ${id}`, cost: 'page' }, async (tx) => {
        return ofProduct(await getProduct(tx, id))
      })
    },
  )

  server.get(
    '/products/by-slug/:slug',
    {
      config: { access: 'public', isReadableByAnyOrigin: true },
      schema: {
        operationId: 'getProductBySlug',
        description:
          'The same as `GET /products/{id}`, by the `slug` of the product. A former slug, or another spelling of one, redirects to the slug of now.',
        tags,
        summary: 'One product, by its slug',
        params: SlugParams,
        response: {
          ...okResponses(ProductDetailsSchema, 'The product.', 'not_found'),
          301: { ...MovedSchema, description: 'The product has another slug; `Location` leads to it.' },
        },
      },
    },
    async (request, reply) => {
      const { slug } = request.params
      return serveCatalogue(context, request, reply, { key: `slug ${slug}`, cost: 'page' }, async (tx) => {
        const product = await getProductBySlug(tx, slug)
        if (product.slug === slug) return ofProduct(product)
        const location = `${context.baseUrl}/products/by-slug/${encodeURIComponent(product.slug)}`
        return { body: { moved_to: product.slug }, tags: [productTag(product.id)], location }
      })
    },
  )
}

/** With an entity tag of the product alone, so that it can be the If-Match of a change. */
function ofProduct(product: ProductDetails): CatalogueContent {
  return { body: product, tags: [productTag(product.id)], etag: productETag(product), lastModified: new Date(product.updated_at) }
}
