import { Type } from 'typebox'
import { defineRoute } from '../../http/define-route.ts'
import type { HttpServer } from '../../http/http-server.ts'
import { LISTS_TAG } from '../events.ts'
import { EXAMPLE_CATEGORIES } from '../examples.ts'
import { type CatalogueContext, serveCatalogue } from '../serve-catalogue.ts'
import { CategorySchema, MAX_CATEGORIES, readTree } from './category.ts'

const TreeSchema = Type.Object(
  {
    data: Type.Array(CategorySchema, { description: 'Each category precedes those below it.' }),
    is_complete: Type.Boolean({
      description: `False if the store has more categories than the first ${MAX_CATEGORIES}, which are listed.`,
    }),
  },
  { title: 'Categories', examples: [EXAMPLE_CATEGORIES] },
)

/** The category tree for shoppers. */
export function categoryRoutes(server: HttpServer, context: CatalogueContext): void {
  defineRoute(
    server,
    'GET /categories',
    {
      access: 'public',
      cost: 'page',
      isReadableByAnyOrigin: true,
      operationId: 'listCategories',
      summary: 'All categories, as a tree',
      description: 'Caches may keep the answer, like a list of products. `GET /products/facets` counts the products in each category.',
      query: Type.Object({}, { additionalProperties: false }),
      answers: { 200: [TreeSchema, 'The tree, from the top.'] },
    },
    async (request, reply) =>
      serveCatalogue(context, request, reply, { key: 'categories', cost: 'page', lang: null }, async (tx) => {
        const { categories, isComplete } = await readTree(tx)
        return { body: { data: categories, is_complete: isComplete }, tags: [LISTS_TAG] }
      }),
  )
}
