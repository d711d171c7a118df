import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { doingOf } from '../../activity/record-activity.ts'
import type { HttpServer } from '../../http/http-server.ts'
import { JSON_BODY, OPERATOR_ONLY, problemResponses } from '../../http/problem.ts'
import { readSentCompressed, requireIfMatch } from '../require-if-match.ts'
import type { CatalogueContext } from '../serve-catalogue.ts'
import { type Category, CategorySchema, categoryETag, getCategory } from './category.ts'
import { CategoryPatchBody, NewCategoryBody, normalizeCategory } from './category-input.ts'
import { changeCategory, createCategory, deleteCategory } from './change-tree.ts'

const IfMatchHeader = Type.Object({ 'if-match': Type.Optional(Type.String({ description: "The category's ETag." })) })
const CategoryParams = Type.Object({ id: Type.String({ format: 'uuid', description: 'The id of the category.' }) })

/** Changes of the tree by operators. */
export function categoryAdminRoutes(server: HttpServer, context: CatalogueContext): void {
  const { pool, baseUrl, version } = context
  const shared = { tags: ['catalogue'] }
  const send = (reply: FastifyReply, category: Category) => reply.headers({ etag: `"${categoryETag(category)}"` }).send(category)

  server.get(
    '/admin/categories/:id',
    {
      config: { access: 'products:write' },
      schema: {
        operationId: 'getCategory',
        description: 'The `ETag` is the `If-Match` of a change. `GET /categories` has all of them.',
        ...shared,
        summary: 'One category, to change it',
        params: CategoryParams,
        response: { 200: { ...CategorySchema, description: 'The category.' }, ...problemResponses(...OPERATOR_ONLY, 'not_found') },
      },
    },
    async (request, reply) => send(reply, await getCategory(pool, request.params.id)),
  )

  server.post(
    '/admin/categories',
    {
      config: { access: 'products:write' },
      schema: {
        operationId: 'createCategory',
        description: 'Without `slug` it gets one that is free, of its name. Without `position` it follows those that have one, by name.',
        ...shared,
        summary: 'Adds a category',
        body: NewCategoryBody,
        response: {
          201: { ...CategorySchema, description: 'The category; `Location` leads to it.' },
          ...problemResponses(
            ...OPERATOR_ONLY,
            ...JSON_BODY,
            'slug_taken',
            'category_name_taken',
            'category_misplaced',
            'too_many_categories',
          ),
        },
      },
    },
    async (request, reply) => {
      const category = await createCategory(pool, normalizeCategory(request.body), doingOf(request))
      await version.refresh()
      return send(reply.code(201).header('location', `${baseUrl}/admin/categories/${category.id}`), category)
    },
  )

  server.patch(
    '/admin/categories/:id',
    {
      config: { access: 'products:write' },
      schema: {
        operationId: 'updateCategory',
        ...shared,
        summary: 'Renames, moves or reorders a category',
        description:
          'What the body names is replaced, the rest stays. With another `parent_id` all below it move along. `category` of its products follows a new name within ' +
          'seconds, of a hundred thousand products within minutes. A former slug leads nowhere.',
        params: CategoryParams,
        headers: IfMatchHeader,
        body: CategoryPatchBody,
        response: {
          200: { ...CategorySchema, description: 'The category as it is now.' },
          ...problemResponses(
            ...OPERATOR_ONLY,
            ...JSON_BODY,
            'not_found',
            'invalid_header',
            'slug_taken',
            'category_name_taken',
            'category_misplaced',
            'precondition_failed',
            'if_match_required',
          ),
        },
      },
    },
    async (request, reply) => {
      const ifMatch = requireIfMatch(request.headers['if-match'], 'category')
      const category = await changeCategory(pool, request.params.id, ifMatch, normalizeCategory(request.body), doingOf(request))
      await version.refresh()
      return send(reply, category)
    },
  )

  server.delete(
    '/admin/categories/:id',
    {
      config: { access: 'products:write' },
      schema: {
        operationId: 'deleteCategory',
        description: 'With `If-Match` only if it is unchanged. Archived products do not count.',
        ...shared,
        summary: 'Deletes a category without products and without others below it',
        params: CategoryParams,
        headers: IfMatchHeader,
        response: {
          204: Type.Null({ description: 'The category is deleted.' }),
          ...problemResponses(...OPERATOR_ONLY, 'not_found', 'invalid_header', 'precondition_failed', 'category_not_empty', ...JSON_BODY),
        },
      },
    },
    async (request, reply) => {
      await deleteCategory(pool, request.params.id, readSentCompressed(request.headers['if-match']), doingOf(request))
      await version.refresh()
      return reply.code(204).send(null)
    },
  )
}
