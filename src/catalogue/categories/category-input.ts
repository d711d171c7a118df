import { type Static, Type } from 'typebox'
import { EXAMPLE_CATEGORY_CHANGE, EXAMPLE_NEW_CATEGORY } from '../examples.ts'
import { trim } from '../normalize-product.ts'
import { label, slugInput } from '../product-input.ts'

const strict = { additionalProperties: false }
const properties = {
  name: label('category'),
  slug: slugInput,
  parent_id: Type.Union([Type.String({ format: 'uuid' }), Type.Null()], { description: 'Null for a top-level category.' }),
  position: Type.Integer({
    minimum: 0,
    maximum: Number.MAX_SAFE_INTEGER,
    description:
      'Its place among its siblings, counted from 0. Later siblings move down by one. A number above the last place means the end.',
  }),
}

export const NewCategoryBody = Type.Object(
  {
    name: properties.name,
    ...Type.Partial(Type.Object({ slug: properties.slug, parent_id: properties.parent_id, position: properties.position })).properties,
  },
  { title: 'NewCategory', examples: [EXAMPLE_NEW_CATEGORY], ...strict },
)
export const CategoryPatchBody = Type.Partial(Type.Object(properties), {
  title: 'CategoryChange',
  examples: [EXAMPLE_CATEGORY_CHANGE],
  ...strict,
  minProperties: 1,
})
export type NewCategory = Static<typeof NewCategoryBody>
export type CategoryPatch = Static<typeof CategoryPatchBody>

export function normalizeCategory<T extends CategoryPatch>(input: T): T {
  return input.name === undefined ? input : { ...input, name: trim(input.name) }
}
