import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { auditContextOf } from '../../activity/record-activity.ts'
import { defineRoute } from '../../http/define-route.ts'
import type { HttpServer } from '../../http/http-server.ts'
import { readSentCompressed, requireIfMatch } from '../require-if-match.ts'
import type { CatalogueContext } from '../serve-catalogue.ts'
import { type Category, CategorySchema, categoryETag, getCategory } from './category.ts'
import { CategoryPatchBody, NewCategoryBody, normalizeCategory } from './category-input.ts'
import { changeCategory, createCategory, deleteCategory } from './change-tree.ts'
import { listPlacedProducts, type PlacedProducts, PlacedProductsBody, PlacedProductsSchema, placeProducts } from './place-products.ts'

const IfMatchHeader = Type.Object({ 'if-match': Type.Optional(Type.String({ description: "The category's ETag." })) })
const CategoryParams = Type.Object({ id: Type.String({ format: 'uuid', description: 'The id of the category.' }) })

/** Operators' routes to change the category tree. */
export function categoryAdminRoutes(server: HttpServer, context: CatalogueContext): void {
  const { pool, baseUrl } = context
  const send = (reply: FastifyReply, category: Category) => reply.headers({ etag: `"${categoryETag(category)}"` }).send(category)

  defineRoute(
    server,
    'GET /admin/categories/:id',
    {
      access: 'products:write',
      operationId: 'getCategory',
      summary: 'One category, to change it',
      description: 'Send the `ETag` as the `If-Match` of a change. `GET /categories` lists all categories.',
      params: CategoryParams,
      answers: { 200: [CategorySchema, 'The category.'] },
    },
    async (request, reply) => send(reply, await getCategory(pool, request.params.id)),
  )

  defineRoute(
    server,
    'POST /admin/categories',
    {
      access: 'products:write',
      operationId: 'createCategory',
      summary: 'Adds a category',
      description:
        'Without `slug` the store makes a free one from the name. Without `position` the category follows its siblings that have one, sorted by name.',
      body: NewCategoryBody,
      answers: { 201: [CategorySchema, 'The category. `Location` leads to it.'] },
      refuses: ['slug_taken', 'category_name_taken', 'category_misplaced', 'too_many_categories'],
    },
    async (request, reply) => {
      const category = await createCategory(context, normalizeCategory(request.body), auditContextOf(request))
      return send(reply.code(201).header('location', `${baseUrl}/admin/categories/${category.id}`), category)
    },
  )

  defineRoute(
    server,
    'PATCH /admin/categories/:id',
    {
      access: 'products:write',
      operationId: 'updateCategory',
      summary: 'Renames, moves or reorders a category',
      description:
        'Replaces the properties in the body and keeps the others. With another `parent_id`, all categories below move with it. The `category` of its products follows a new name within ' +
        'seconds, or within minutes for a hundred thousand products. A former slug does not redirect.',
      params: CategoryParams,
      headers: IfMatchHeader,
      body: CategoryPatchBody,
      answers: { 200: [CategorySchema, 'The changed category.'] },
      refuses: ['slug_taken', 'category_name_taken', 'category_misplaced', 'if_match_required'],
    },
    async (request, reply) => {
      const ifMatch = requireIfMatch(request.headers['if-match'], 'category')
      const category = await changeCategory(context, request.params.id, ifMatch, normalizeCategory(request.body), auditContextOf(request))
      return send(reply, category)
    },
  )

  defineRoute(
    server,
    'DELETE /admin/categories/:id',
    {
      access: 'products:write',
      operationId: 'deleteCategory',
      summary: 'Deletes a category without products and without others below it',
      description: 'With `If-Match` it is deleted only if it is unchanged. Archived products do not count.',
      params: CategoryParams,
      headers: IfMatchHeader,
      answers: { 204: 'The category is deleted.' },
      refuses: ['category_not_empty'],
    },
    (request) => deleteCategory(context, request.params.id, readSentCompressed(request.headers['if-match']), auditContextOf(request)),
  )

  const sendPlaced = (reply: FastifyReply, { products, etag }: PlacedProducts) =>
    reply.headers({ etag: `"${etag}"` }).send({ data: products })

  defineRoute(
    server,
    'GET /admin/categories/:id/products',
    {
      access: 'products:write',
      operationId: 'listPlacedProducts',
      summary: 'The products that operators have placed in a category',
      description: 'These products come first with `sort=position`. Send the `ETag` as the `If-Match` of a change.',
      params: CategoryParams,
      answers: { 200: [PlacedProductsSchema, 'The placed products.'] },
    },
    async (request, reply) => sendPlaced(reply, await listPlacedProducts(pool, request.params.id)),
  )

  defineRoute(
    server,
    'PUT /admin/categories/:id/products',
    {
      access: 'products:write',
      operationId: 'placeProducts',
      summary: 'Sets by hand which products come first in a category, and in which order',
      description:
        'Replaces the order of `sort=position` in this category. Every other category has its own order, also those below this one. A product that was archived or moved to another category is left out of lists and of the answer, and keeps its place for its return.',
      params: CategoryParams,
      headers: IfMatchHeader,
      body: PlacedProductsBody,
      answers: { 200: [PlacedProductsSchema, 'The placed products.'] },
      refuses: ['if_match_required'],
    },
    async (request, reply) => {
      const ifMatch = requireIfMatch(request.headers['if-match'], 'order')
      const { product_ids } = request.body
      return sendPlaced(reply, await placeProducts(context, request.params.id, ifMatch, product_ids, auditContextOf(request)))
    },
  )
}
