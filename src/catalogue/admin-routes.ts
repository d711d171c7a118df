import type { IncomingMessage } from 'node:http'
import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { auditContextOf } from '../activity/record-activity.ts'
import { isEncoding } from '../encoding.ts'
import { AppError } from '../errors.ts'
import { defineList, defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { NO_BODY_LIMIT } from '../http/limit-chunks.ts'
import { IdPosition } from '../http/pagination.ts'
import { isBrokenOff } from '../http/problem.ts'
import { archiveProduct, changeProduct, createProduct, restoreProduct } from './change-product.ts'
import type { ImportFormat } from './import/import-lines.ts'
import { importStream } from './import/import-stream.ts'
import { AdminProductFilters, AdminProductPageSchema, listAdminProducts } from './list-admin-products.ts'
import { normalizeProduct } from './normalize-product.ts'
import { EditedProductSchema, getProductInAnyState, productETag, type StoredProduct } from './product-details.ts'
import { NewProductBody, ProductPatchBody } from './product-input.ts'
import { ProductParams } from './products.ts'
import { readSentCompressed, requireIfMatch } from './require-if-match.ts'
import type { CatalogueContext } from './serve-catalogue.ts'

const IfMatchHeader = Type.Object({
  'if-match': Type.Optional(Type.String({ description: "The product's ETag, or `*`. Without it the answer is 428." })),
})
/** This is shorter than the server's request timeout, so the answer can still report how far the import came. */
const IMPORT_TIMEOUT_MS = 25_000
const IMPORT_TYPES = ['application/x-ndjson', 'text/csv']
/** The longest import line: all translations and a full description with every character escaped, and 20 images. */
const PRODUCT_LIMIT_BYTES = 1_048_576

/**
 * Operators' routes to change the catalogue. This process shows a change at once, others within a second. `currency` is
 * an ISO 4217 code.
 */
export function catalogueAdminRoutes(server: HttpServer, context: CatalogueContext, currency: string): void {
  const { pool, baseUrl, version } = context
  const sendProduct = (reply: FastifyReply, product: StoredProduct) => reply.headers({ etag: `"${productETag(product)}"` }).send(product)

  defineList(
    server,
    'GET /admin/products',
    {
      access: 'products:write',
      operationId: 'listEditedProducts',
      summary: 'The products that are not in the shop, or the variants of a group, newest first, in pages',
      description:
        'Without filters it lists drafts, products before `published_at` and products after `unpublished_at`. With `state=archived` it lists archived products. `GET /products` lists the products in the shop.',
      filters: AdminProductFilters,
      page: AdminProductPageSchema,
      answer: 'A page of the products.',
      position: IdPosition,
    },
    (request, paging) => listAdminProducts(pool, request.query, paging),
  )

  defineRoute(
    server,
    'POST /admin/products',
    {
      access: 'products:write',
      bodyLimit: PRODUCT_LIMIT_BYTES,
      operationId: 'createProduct',
      summary: 'Adds a product',
      description:
        'The product is in every list at once, unless it is a draft or has a later `published_at`. Without `stock` its stock is not tracked. Without `slug` the store makes a free one from the name.',
      body: NewProductBody,
      answers: { 201: [EditedProductSchema, 'The product. `Location` leads to it.'] },
      refuses: ['sku_taken', 'slug_taken'],
    },
    async (request, reply) => {
      const product = await createProduct(context, normalizeProduct(request.body), auditContextOf(request))
      return sendProduct(reply.code(201).header('location', `${baseUrl}/products/${product.id}`), product)
    },
  )

  defineRoute(
    server,
    'PATCH /admin/products/:id',
    {
      access: 'products:write',
      bodyLimit: PRODUCT_LIMIT_BYTES,
      operationId: 'updateProduct',
      summary: 'Changes a product',
      description:
        'Replaces each property in the body as a whole, and keeps the others. `null` is a value, not an omission: this is not a JSON Merge Patch. ' +
        '`image_url` without `images` replaces the first image, or removes all images if it is null. `price` without `compare_at_price` removes a `compare_at_price` that is no longer above it. A former slug still leads to the product.',
      params: ProductParams,
      headers: IfMatchHeader,
      body: ProductPatchBody,
      answers: { 200: [EditedProductSchema, 'The changed product.'] },
      refuses: ['sku_taken', 'slug_taken', 'if_match_required'],
    },
    async (request, reply) => {
      const ifMatch = requireIfMatch(request.headers['if-match'], 'product')
      const product = await changeProduct(context, request.params.id, ifMatch, request.body, auditContextOf(request))
      return sendProduct(reply, product)
    },
  )

  defineRoute(
    server,
    'GET /admin/products/:id',
    {
      access: 'products:write',
      operationId: 'getEditedProduct',
      summary: 'A product with all that operators edit',
      description:
        'The product with its own texts and all translations, also if it is archived or not in the shop. Send the `ETag` as the `If-Match` of a change.',
      params: ProductParams,
      answers: { 200: [EditedProductSchema, 'The product.'] },
    },
    async (request, reply) => sendProduct(reply, await getProductInAnyState(pool, request.params.id)),
  )

  defineRoute(
    server,
    'DELETE /admin/products/:id',
    {
      access: 'products:write',
      operationId: 'archiveProduct',
      summary: 'Archives a product: it leaves every list and cannot be ordered, but orders keep it',
      description: 'With `If-Match` the product is archived only if it is unchanged.',
      params: ProductParams,
      headers: IfMatchHeader,
      answers: { 204: 'The product is archived.' },
    },
    (request) => archiveProduct(context, request.params.id, readSentCompressed(request.headers['if-match']), auditContextOf(request)),
  )

  defineRoute(
    server,
    'POST /admin/products/:id/restore',
    {
      access: 'products:write',
      operationId: 'restoreProduct',
      summary: 'Restores an archived product',
      description:
        'The product returns to its former place: the shop, or the drafts, planned and ended products. An `unpublished_at` that passed while it was archived is removed. A product that is not archived does not change. With `If-Match` the product is restored only if it is unchanged.',
      params: ProductParams,
      headers: IfMatchHeader,
      answers: { 200: [EditedProductSchema, 'The product.'] },
    },
    async (request, reply) => {
      const ifMatch = readSentCompressed(request.headers['if-match'])
      return sendProduct(reply, await restoreProduct(context, request.params.id, ifMatch, auditContextOf(request)))
    },
  )

  // A separate scope, because bodies are line streams only here.
  server.register(async (scope: HttpServer) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser(IMPORT_TYPES, (_request, payload, done) => done(null, payload))
    defineRoute(
      scope,
      'POST /admin/products/import',
      {
        access: 'products:write',
        bodyLimit: NO_BODY_LIMIT,
        operationId: 'importProducts',
        summary: 'Adds and changes products, one per line (NDJSON or CSV), and returns the outcome of each line (NDJSON)',
        description:
          'Each line is a whole product as in `POST /admin/products`, or has `stock_delta` and `reference` instead of `stock`. Without `slug` an existing slug stays. In `text/csv` the first line names the columns. Properties without a column stay, and an empty cell clears its property. `price` is in major units. `charset` names an encoding that is neither UTF-8 nor UTF-16, such as windows-1252. The last line of the answer has the counts. If the import was cut short, it has `error`, `code` and the last `line` with a result. `code` is `import_too_slow` after 25 seconds, `unavailable` or `internal`.',
        consumes: IMPORT_TYPES,
        answers: { 200: [{ content: { 'application/x-ndjson': { schema: Type.String() } } }, 'One JSON object per line.'] },
      },
      async (request, reply) => {
        if (request.body === undefined) throw new AppError('unsupported_media_type', `Send the products as ${IMPORT_TYPES.join(' or ')}.`)
        const onEnd = async () => void (await version.refresh())
        const results = importStream(pool, request.body as IncomingMessage, {
          ...readFormat(request.headers['content-type']),
          currency,
          remainingMs: IMPORT_TIMEOUT_MS - reply.elapsedTime,
          logger: request.log,
          isBrokenOff: (error) => isBrokenOff(error, request),
          onEnd,
          auditContext: auditContextOf(request),
        })
        return reply.headers({ 'content-type': 'application/x-ndjson' }).send(results as never)
      },
    )
  })
}

/**
 * Reads a media type that Fastify has accepted. Names are case-insensitive (RFC 9110, 8.3.1). JSON is UTF-8; CSV has
 * its charset's encoding.
 */
function readFormat(contentType = ''): { format: ImportFormat; encoding: string | undefined } {
  const [type = '', ...parameters] = contentType
    .toLowerCase()
    .split(';')
    .map((part) => part.trim())
  const charset = parameters.find((parameter) => parameter.startsWith('charset='))?.slice('charset='.length)
  const label = charset?.replace(/^"(.*)"$/, '$1')
  // US-ASCII is a part of UTF-8.
  const encoding = label === undefined || /^(?:utf-?8|us-ascii)$/.test(label) ? undefined : label
  if (type === 'text/csv' && (encoding === undefined || isEncoding(encoding))) return { format: 'csv', encoding }
  if (encoding !== undefined) throw new AppError('unsupported_media_type', 'Send the products as UTF-8.')
  return { format: 'ndjson', encoding }
}
