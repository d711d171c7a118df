import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { auditContextOf } from '../activity/record-activity.ts'
import { AppError } from '../errors.ts'
import { defineList, defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { readIfMatch } from '../http/if-match.ts'
import { PageOf } from '../http/pagination.ts'
import { adjustStock, setStock } from './change-stock.ts'
import { EXAMPLE_NEW_STOCK_ADJUSTMENT, EXAMPLE_STOCK, EXAMPLE_STOCK_COUNT } from './examples.ts'
import { INVISIBLE, Stock } from './product-input.ts'
import { ProductIds } from './product-query.ts'
import { MAX_STOCK } from './product-rules.ts'
import { ProductParams } from './products.ts'
import type { CatalogueContext } from './serve-catalogue.ts'
import {
  AdjustmentPosition,
  getStockLevel,
  listAdjustments,
  listStockLevels,
  StockAdjustmentSchema,
  type StockLevel,
} from './stock-adjustments.ts'

const IfMatchHeader = Type.Object({
  'if-match': Type.Optional(Type.String({ description: 'The stock\'s ETag, which is its version, such as `"3"`.' })),
})
const strict = { additionalProperties: false }
const Reference = (description: string) =>
  Type.String({
    minLength: 1,
    maxLength: 100,
    pattern: `^(?=\\S)[^\\p{Cc}${INVISIBLE}]*(?<=\\S)$`,
    'x-must': 'have visible characters only',
    description: `${description} It must not contain control characters or invisible characters.`,
  })
const Reason = Type.Union([Type.String({ minLength: 1, maxLength: 500 }), Type.Null()])

const CountBody = Type.Object(
  {
    stock: Stock,
    expected: Type.Optional(
      Type.Union([Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }), Type.Null()], {
        description: 'The value of `available` that the caller has read. For clients that cannot send `If-Match`.',
      }),
    ),
    reference: Type.Optional(Type.Union([Reference("The caller's name for the count."), Type.Null()])),
    reason: Type.Optional(Reason),
  },
  { title: 'StockCount', examples: [EXAMPLE_STOCK_COUNT], ...strict },
)
const AdjustmentBody = Type.Object(
  {
    delta: Type.Integer({
      minimum: -MAX_STOCK,
      maximum: MAX_STOCK,
      not: { const: 0 },
      description: 'Units added (positive) or removed (negative).',
    }),
    reference: Reference(
      "The caller's name for the movement, such as a delivery note's number. A movement with the same reference is booked only once for each product.",
    ),
    reason: Type.Optional(Reason),
  },
  { title: 'NewStockAdjustment', examples: [EXAMPLE_NEW_STOCK_ADJUSTMENT], ...strict },
)
const StockSchema = Type.Object(
  {
    product_id: Type.String({ format: 'uuid' }),
    available: Stock,
    version: Type.Integer({ description: 'Grows with every change of `available`, also by orders.' }),
  },
  { title: 'Stock', examples: [EXAMPLE_STOCK] },
)
const StockListSchema = Type.Object({ data: Type.Array(StockSchema) }, { title: 'StockList', examples: [{ data: [EXAMPLE_STOCK] }] })

/** Routes for other systems to read and write stock: docs/shop/stock.md. */
export function stockRoutes(server: HttpServer, catalogue: CatalogueContext): void {
  const { pool } = catalogue
  const sendLevel = (reply: FastifyReply, productId: string, level: StockLevel) =>
    reply.headers({ etag: `"${level.version}"` }).send({ product_id: productId, ...level })

  defineRoute(
    server,
    'GET /admin/stock',
    {
      access: 'stock:read',
      operationId: 'listStock',
      summary: 'The stock of up to 100 products',
      description: 'Reads the stock of a whole page of products in one call. Leaves out products that do not exist or are archived.',
      query: Type.Object({ ids: ProductIds }, strict),
      answers: { 200: [StockListSchema, 'The stock of each, by id.'] },
    },
    async (request) => ({ data: await listStockLevels(pool, request.query.ids.split(',')) }),
  )

  defineRoute(
    server,
    'GET /admin/products/:id/stock',
    {
      access: 'stock:read',
      operationId: 'getStock',
      summary: 'The stock of a product',
      description: 'The `ETag` is the version of the stock, for the `If-Match` of a count.',
      params: ProductParams,
      answers: { 200: [StockSchema, 'The stock.'] },
    },
    async (request, reply) => {
      const id = request.params.id.toLowerCase()
      return sendLevel(reply, id, await getStockLevel(pool, id))
    },
  )

  defineRoute(
    server,
    'PUT /admin/products/:id/stock',
    {
      access: 'stock:write',
      operationId: 'setStock',
      summary: 'Sets the stock of a product, if it has not changed since it was counted',
      description: 'Needs `If-Match` or `expected`, so that sales since the count are not overwritten.',
      params: ProductParams,
      headers: IfMatchHeader,
      body: CountBody,
      answers: { 200: [StockSchema, 'The current stock.'] },
      refuses: ['if_match_required'],
    },
    async (request, reply) => {
      const { stock, expected, reference = null, reason = null } = request.body
      const header = request.headers['if-match']
      if (header === undefined && expected === undefined) {
        const message = "Send the stock's ETag as If-Match, or `expected`, so that no sale since the count is lost."
        throw new AppError('if_match_required', message)
      }
      const count = { stock, versions: readIfMatch(header), expected, reference, reason, auditContext: auditContextOf(request) }
      const id = request.params.id.toLowerCase()
      return sendLevel(reply, id, await setStock(catalogue, id, count))
    },
  )

  defineRoute(
    server,
    'POST /admin/products/:id/stock/adjustments',
    {
      access: 'stock:write',
      operationId: 'adjustStock',
      summary: 'Adds or removes units, once per reference',
      description: 'A repeated `reference` changes nothing and is answered with 200 and the first adjustment.',
      params: ProductParams,
      body: AdjustmentBody,
      answers: {
        200: [StockAdjustmentSchema, 'The adjustment that was made under this reference before.'],
        201: [StockAdjustmentSchema, 'The adjustment.'],
      },
      refuses: ['insufficient_stock', 'stock_not_tracked', 'adjustment_reference_taken'],
    },
    async (request, reply) => {
      const { delta, reference, reason = null } = request.body
      const change = { delta, reference, reason, auditContext: auditContextOf(request) }
      const { adjustment, isReplay } = await adjustStock(catalogue, request.params.id.toLowerCase(), change)
      return reply.code(isReplay ? 200 : 201).send(adjustment)
    },
  )

  defineList(
    server,
    'GET /admin/products/:id/stock/adjustments',
    {
      access: 'stock:read',
      operationId: 'listStockAdjustments',
      summary: 'The stock changes other than orders, newest first, in pages',
      description: 'Lists counts, deliveries and imports, and who made them. Sales are in the orders.',
      params: ProductParams,
      page: PageOf(StockAdjustmentSchema),
      answer: 'A page of the changes.',
      position: AdjustmentPosition,
    },
    (request, paging) => listAdjustments(pool, request.params.id, paging),
  )
}
