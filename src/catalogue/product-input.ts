import { Type } from 'typebox'
import { AppError } from '../errors.ts'
import { type ImportedProduct, InvalidLine, readProduct } from './imported-product.ts'

const Stock = Type.Union([Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }), Type.Null()], {
  description: 'Pieces that can be sold; null: not tracked.',
})
const strict = { additionalProperties: false }
const properties = {
  sku: Type.String({ minLength: 1, maxLength: 64 }),
  name: Type.String({ minLength: 1, maxLength: 300 }),
  description: Type.String({ maxLength: 10_000 }),
  category: Type.String({ minLength: 1, maxLength: 100 }),
  image_url: Type.Union([Type.String({ maxLength: 2_000 }), Type.Null()]),
  group: Type.Union([Type.String({ minLength: 1, maxLength: 64 }), Type.Null()]),
  options: Type.Record(Type.String(), Type.String({ minLength: 1, maxLength: 100 })),
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
  strict,
)
export const ProductPatchBody = Type.Partial(Type.Object(properties), { ...strict, minProperties: 1 })
export const StockBody = Type.Object({ stock: Stock }, strict)

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
