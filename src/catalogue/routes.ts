import { type Static, Type } from 'typebox'
import type { Transaction } from '../db/pool.ts'
import type { AnswerLanguage } from '../http/cacheable.ts'
import { defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { PageOf, pageLinks } from '../http/pagination.ts'
import { groupTag, LISTS_TAG, productTag } from './events.ts'
import { EXAMPLE_MOVED_PRODUCT, EXAMPLE_PRODUCT_PAGE } from './examples.ts'
import { listProducts } from './list-products.ts'
import { Currency, readCurrency } from './offered-prices.ts'
import { listPageVariants } from './page-variants.ts'
import { getProduct, getProductBySlug, ProductDetailsSchema, pageETag, presentPage, type StoredProduct } from './product-details.ts'
import { FacetsQuery, isRankedSort, Lang, ProductQuery, readFilters, readListing, toParameters } from './product-query.ts'
import { MAX_SLUG_LENGTH } from './product-rules.ts'
import { ProductParams, ProductSchema } from './products.ts'
import { countFacets, FacetsSchema } from './search/facets.ts'
import { type CatalogueContent, type CatalogueContext, serveCatalogue, type Texts } from './serve-catalogue.ts'

const ProductPageSchema = Type.Object(
  {
    ...PageOf(ProductSchema).properties,
    count: Type.Optional(
      Type.Object(
        { value: Type.Integer(), exact: Type.Boolean() },
        { description: 'The number of products, or an estimate if `exact` is false. Present only with `include=count`.' },
      ),
    ),
  },
  { title: 'ProductPage', examples: [EXAMPLE_PRODUCT_PAGE] },
)

// Ignores other parameters, such as those that mails add to links.
const PageQuery = Type.Object({
  lang: Type.Optional(Lang),
  currency: Type.Optional(Currency),
  include: Type.Optional(Type.Enum(['variants'], { description: 'Adds `variants`, all variants of the group, for a selector.' })),
})
const SlugParams = Type.Object({
  slug: Type.String({ minLength: 1, maxLength: MAX_SLUG_LENGTH, description: 'The slug, percent-encoded.' }),
})
const MovedSchema = Type.Object(
  { moved_to: Type.String({ description: 'The current slug of the product.' }) },
  { title: 'MovedProduct', examples: [EXAMPLE_MOVED_PRODUCT] },
)

/** The catalogue for shoppers. These routes read no token, so any cache in front may store the answers. */
export function catalogueRoutes(server: HttpServer, context: CatalogueContext): void {
  defineRoute(
    server,
    'GET /products',
    {
      access: 'public',
      isReadableByAnyOrigin: true,
      cost: ({ q, include, attr, collapse, sort }) =>
        (q ?? include ?? attr ?? collapse) === undefined && !isRankedSort(sort) ? 'page' : 'search',
      operationId: 'listProducts',
      summary: 'The products in the shop, in pages',
      description:
        'Every page costs the same, because pages are read by key. The call ignores tokens, so caches may keep the answer. Send the `ETag` as `If-None-Match` to revalidate it.',
      query: ProductQuery,
      answers: { 200: [ProductPageSchema, 'A page of the products.'] },
    },
    async (request, reply) => {
      const listing = readListing(request.query)
      const parameters = toParameters(listing)
      const key = `list ${JSON.stringify(parameters)}`
      const { search, attributes, hasCount, isCollapsed, sort } = listing
      // No index has a list's order together with its attributes or groups, so a page may have to read all matching
      // products. A page by a ranking may read all variants of its groups.
      const cost = search === null && attributes === null && !hasCount && !isCollapsed && !isRankedSort(sort) ? 'page' : 'search'
      return serveCatalogue(context, request, reply, { key, cost, lang: request.query.lang }, async (tx, { language, translations }) => {
        const { page, previousCursor, rankingTag } = await listProducts(tx, { ...listing, languages: translations })
        const { cursor: _, ...rest } = parameters
        const link = pageLinks(
          `${context.baseUrl}/products`,
          { ...rest, ...langParameter(language) },
          { prev: previousCursor, next: page.next_cursor },
        )
        return { body: page, tags: rankingTag === null ? [LISTS_TAG] : [LISTS_TAG, rankingTag], link }
      })
    },
  )

  defineRoute(
    server,
    'GET /products/facets',
    {
      access: 'public',
      cost: 'search',
      isReadableByAnyOrigin: true,
      operationId: 'listFacets',
      summary: 'How many products there are by category, brand, price and attribute',
      description: 'Takes the filters of the list. Counts are exact for small results and estimated from a sample for large ones.',
      query: FacetsQuery,
      answers: { 200: [FacetsSchema, 'The numbers of products.'] },
    },
    async (request, reply) => {
      const filters = readFilters(request.query)
      const hasAttributes = request.query.include !== undefined
      const key = JSON.stringify(
        toParameters({ ...filters, sort: '-created_at', limit: 1, cursor: null, isCollapsed: false, hasCount: false }),
      )
      return serveCatalogue(context, request, reply, { key: `facets ${hasAttributes} ${key}`, cost: 'search', lang: null }, async (tx) => ({
        body: await countFacets(tx, filters, { hasAttributes }),
        tags: [LISTS_TAG],
      }))
    },
  )

  defineRoute(
    server,
    'GET /products/:id',
    {
      access: 'public',
      cost: 'page',
      isReadableByAnyOrigin: true,
      operationId: 'getProduct',
      summary: 'One product',
      description:
        'The answer for an archived product is 404. The `ETag` can be sent as the `If-Match` of a change. `include=variants` adds the variants of its group.',
      params: ProductParams,
      query: PageQuery,
      answers: { 200: [ProductDetailsSchema, 'The product.'] },
      refuses: ['currency_not_available'],
    },
    async (request, reply) => {
      const id = request.params.id.toLowerCase()
      const page = readPage(request.query)
      return serveCatalogue(
        context,
        request,
        reply,
        { key: `product ${JSON.stringify(page)} ${id}`, cost: 'page', lang: request.query.lang },
        async (tx, texts) => ofProduct(tx, await getProduct(tx, id), texts, page),
      )
    },
  )

  defineRoute(
    server,
    'GET /products/by-slug/:slug',
    {
      access: 'public',
      cost: 'page',
      isReadableByAnyOrigin: true,
      operationId: 'getProductBySlug',
      summary: 'One product, by its slug',
      description: 'Answers like `GET /products/{id}`. A former slug, or another spelling of a slug, redirects to the current slug.',
      params: SlugParams,
      query: PageQuery,
      answers: { 200: [ProductDetailsSchema, 'The product.'], 301: [MovedSchema, 'The product has another slug. `Location` leads to it.'] },
      refuses: ['currency_not_available'],
    },
    async (request, reply) => {
      const { slug } = request.params
      const page = readPage(request.query)
      return serveCatalogue(
        context,
        request,
        reply,
        { key: `slug ${JSON.stringify(page)} ${slug}`, cost: 'page', lang: request.query.lang },
        async (tx, texts) => {
          const product = await getProductBySlug(tx, slug)
          if (product.slug === slug) return ofProduct(tx, product, texts, page)
          const query = new URLSearchParams({ ...langParameter(texts.language), ...page }).toString()
          const location = `${context.baseUrl}/products/by-slug/${encodeURIComponent(product.slug)}${query && `?${query}`}`
          return { body: { moved_to: product.slug }, tags: [productTag(product.id)], location }
        },
      )
    },
  )
}

/** The parameters of a page besides its language. */
type PageParameters = Pick<Static<typeof PageQuery>, 'currency' | 'include'>

/** Throws `invalid_query`. */
function readPage({ currency, include }: PageParameters): PageParameters {
  readCurrency(currency)
  return { ...(currency === undefined ? {} : { currency }), ...(include === undefined ? {} : { include }) }
}

/** The page's entity tag contains the product's own tag, so it can be the If-Match of a change. */
async function ofProduct(
  tx: Transaction,
  product: StoredProduct,
  { language, translations }: Texts,
  { currency, include }: PageParameters,
): Promise<CatalogueContent> {
  const { id, group, updated_at } = product
  const view = { languages: translations, currency: currency ?? null }
  const parts = [...(language === null || translations.length === 0 ? [] : [language.tag]), ...(currency === undefined ? [] : [currency])]
  const body = presentPage(product, view)
  const tags = [productTag(id)]
  if (include === undefined || group === null) return { body, tags, etag: pageETag(product, parts), lastModified: new Date(updated_at) }
  const variants = await listPageVariants(tx, group, view)
  const etag = pageETag(product, [...parts, JSON.stringify(variants)])
  return { body: { ...body, variants }, tags: [...tags, groupTag(group)], etag }
}

/** The parameter that keeps a link in the query's language. */
function langParameter(language: AnswerLanguage | null): { lang?: string } {
  return language === null || language.isNegotiated ? {} : { lang: language.tag }
}
