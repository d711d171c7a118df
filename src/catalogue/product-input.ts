import { Type } from 'typebox'
import { AppError } from '../errors.ts'
import { EXAMPLE_NEW_PRODUCT, EXAMPLE_PRODUCT_CHANGE } from './examples.ts'
import { type ImportedProduct, InvalidLine, MAX_STOCK, readProduct } from './import/imported-product.ts'

export const Stock = Type.Union([Type.Integer({ minimum: 0, maximum: MAX_STOCK }), Type.Null()], {
  description: 'Pieces that can be sold; null: not tracked.',
})
const strict = { additionalProperties: false }
// Blanks around it are taken off, and something must be left. `readProduct` refuses more.
const VISIBLE = 'No control characters, and at least one visible character.'
const label = (maxLength: number, description = VISIBLE) => Type.String({ minLength: 1, maxLength, pattern: '\\S', description })
const properties = {
  sku: label(64, 'No control characters and no invisible ones.'),
  name: label(300),
  description: Type.String({ maxLength: 10_000 }),
  category: label(100),
  image_url: Type.Union([Type.String({ maxLength: 2_000 }), Type.Null()]),
  group: Type.Union([label(64), Type.Null()]),
  options: Type.Record(Type.String(), label(100)),
  price: Type.Object({ amount: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }), currency: Type.String() }, strict),
}
const { description, image_url, group, options, ...required } = properties

export const NewProductBody = Type.Object(
  {
    ...required,
    description: Type.Optional(description),
    image_url: Type.Optional(image_url),
    group: Type.Optional(group),
    options: Type.Optional(options),
    stock: Type.Optional(Stock),
  },
  { title: 'NewProduct', examples: [EXAMPLE_NEW_PRODUCT], ...strict },
)
export const ProductPatchBody = Type.Partial(Type.Object(properties), {
  title: 'ProductChange',
  examples: [EXAMPLE_PRODUCT_CHANGE],
  ...strict,
  minProperties: 1,
})

/** A product from a body, by the rules of an import. Throws `invalid_body`. */
export function readProductBody(body: object): ImportedProduct {
  try {
    return readProduct(body)
  } catch (error) {
    if (!(error instanceof InvalidLine)) throw error
    // The reasons begin with the property that they are about, such as `price.currency`.
    const [, first = '', second] = /^([a-z_]+)(?:\.([a-z_]+))? /.exec(error.message) ?? []
    const pointer = Object.hasOwn(properties, first) ? `#/${first}${second === undefined ? '' : `/${second}`}` : '#'
    throw new AppError('invalid_body', 'The body is not acceptable.', { errors: [{ pointer, detail: error.message }] })
  }
}
