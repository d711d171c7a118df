import { type Static, type TSchema, Type } from 'typebox'
import { isCurrency } from '../../client/src/currency.ts'
import { ProductAttributesInput, ProductAttributesPatch } from '../attributes.ts'
import { EXAMPLE_GROUP_CHANGE, EXAMPLE_NEW_PRODUCT, EXAMPLE_PRODUCT_CHANGE } from './examples.ts'
import type { OfferedPrice, SalePrice } from './offered-prices.ts'
import type { ProductDetails } from './product-details.ts'
import {
  describeLength,
  MAX_DESCRIPTION_BYTES,
  MAX_IMAGES,
  MAX_LENGTHS,
  MAX_LEVELS,
  MAX_OPTIONS,
  MAX_PRICES,
  MAX_PRODUCT_CATEGORIES,
  MAX_SALE_PRICES,
  MAX_SLUG_LENGTH,
  MAX_STOCK,
  MUST,
  OPTION_NAME,
  type TextName,
} from './product-rules.ts'
import { findFaultInTranslations, type Translations } from './translations.ts'

export const Stock = Type.Union([Type.Integer({ minimum: 0, maximum: MAX_STOCK }), Type.Null()], {
  description: 'Units that can be sold. Null if the stock is not tracked.',
  'x-must': MUST.stock,
})

/** Characters that make equal-looking identifiers differ: direction marks, joiners, zero-width blanks, fillers. */
export const INVISIBLE = String.raw`\p{Cf}\p{Default_Ignorable_Code_Point}`
const HAS_INVISIBLE = new RegExp(`[${INVISIBLE}]`, 'u')
/** The Braille blank is invisible too. */
const HAS_VISIBLE = new RegExp(String.raw`[^\s\p{Z}\p{Cc}\u2800${INVISIBLE}]`, 'u')

const MAX_PIXELS = 100_000

/** Adds a rule that JSON Schema cannot express. `findFault` returns the text of the refusal, or null. */
export function withRule<T extends TSchema>(schema: T, findFault: (value: Static<T>) => string | null) {
  return Type.Refine(
    schema,
    (value) => findFault(value) === null,
    (value) => findFault(value) ?? '',
  )
}

function findFaultInText(name: TextName, text: string): string | null {
  if (!text.isWellFormed()) return `${name} has half of a surrogate pair, which is no character`
  return text.includes('\0') ? `${name} has a NUL character` : null
}

/** Checks a one-line text without surrounding blanks. A line break usually comes from an unclosed quote. */
function findFaultInLabel(name: TextName, text: string): string | null {
  const trimmed = text.trim()
  const fault = findFaultInText(name, trimmed)
  if (fault !== null) return fault
  if (/\p{Cc}/u.test(trimmed)) return `${name} must have no control characters and no line breaks`
  return HAS_VISIBLE.test(trimmed) ? null : `${name} must have a visible character`
}

function findFaultInIdentifier(name: TextName, text: string): string | null {
  return findFaultInLabel(name, text) ?? (HAS_INVISIBLE.test(text.trim()) ? `${name} must have no invisible characters` : null)
}

function findFaultInOptions(options: Record<string, string>): string | null {
  const names = Object.keys(options).map((name) => name.trim())
  if (names.length > MAX_OPTIONS) return `options must have at most ${MAX_OPTIONS} entries`
  if (names.some((name) => name === '' || [...name].length > MAX_LENGTHS[OPTION_NAME])) return describeLength(OPTION_NAME)
  return names.map((name) => findFaultInLabel(OPTION_NAME, name)).find((fault) => fault !== null) ?? null
}

function findFaultInImageUrl(name: TextName, url: string): string | null {
  const isUrl = /^https?:\/\/[^\s\p{Cc}]+$/iu.test(url) && URL.canParse(url)
  const fault = findFaultInText(name, url) ?? (isUrl ? null : `${name} must be an absolute URL that starts with https:// or http://`)
  if (fault !== null) return fault
  const { username, password } = new URL(url)
  // Everybody sees the URL, so it must not contain a password, nor imitate a host like
  // `https://shop.example@evil.example/`.
  return username + password === '' ? null : `${name} must have no user name and no password`
}

const VISIBLE = 'No control characters, and at least one visible character.'
const strict = { additionalProperties: false }
const oneLine = (name: TextName, description: string) =>
  Type.String({ minLength: 1, maxLength: MAX_LENGTHS[name], pattern: '\\S', 'x-must': 'have a visible character', description })
export const label = (name: TextName) => withRule(oneLine(name, VISIBLE), (text) => findFaultInLabel(name, text))
export const identifier = (name: TextName) =>
  withRule(oneLine(name, 'No control characters and no invisible ones.'), (text) => findFaultInIdentifier(name, text))
const orNull = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])
const optionalLabel = (name: TextName) =>
  withRule(orNull(oneLine(name, VISIBLE)), (text) => (text === null ? null : findFaultInLabel(name, text)))
/** A time that PostgreSQL and JavaScript read alike. */
const time = (name: string) =>
  withRule(Type.String({ format: 'date-time', pattern: '^[12]', 'x-must': MUST.time }), (text) =>
    Number.isNaN(Date.parse(text)) ? `${name} must ${MUST.time}` : null,
  )
const optionalTime = (name: string, description: string) => Type.Union([time(name), Type.Null()], { description, 'x-must': MUST.time })
const imageUrl = (name: TextName) => withRule(Type.String({ maxLength: MAX_LENGTHS[name] }), (url) => findFaultInImageUrl(name, url))
const Pixels = orNull(Type.Integer({ minimum: 1, maximum: MAX_PIXELS, description: 'Pixels.' }))
const ImageInput = Type.Object(
  {
    url: imageUrl('url of an image'),
    alt: Type.Optional(
      withRule(Type.String({ maxLength: MAX_LENGTHS['alt of an image'] }), (text) =>
        text.trim() === '' ? null : findFaultInLabel('alt of an image', text),
      ),
    ),
    width: Type.Optional(Pixels),
    height: Type.Optional(Pixels),
  },
  strict,
)
const amount = { minimum: 0, maximum: Number.MAX_SAFE_INTEGER }
const Price = Type.Object(
  {
    amount: Type.Integer({ ...amount, 'x-must': MUST.amount }),
    currency: withRule(Type.String({ 'x-must': MUST.currency }), (code) =>
      isCurrency(code) ? null : `price.currency must ${MUST.currency}`,
    ),
  },
  { ...strict, 'x-must': MUST.price },
)
const description = withRule(
  Type.String({
    maxLength: MAX_LENGTHS.description,
    'x-input': 'verbatim',
    description: `At most ${MAX_DESCRIPTION_BYTES.toLocaleString('en')} bytes in UTF-8.`,
  }),
  (text) => (Buffer.byteLength(text) > MAX_DESCRIPTION_BYTES ? describeLength('description') : findFaultInText('description', text)),
)
const translated = {
  name: label('name'),
  description,
  seo_title: label('seo.title'),
  seo_description: label('seo.description'),
  availability_text: label('availability_text'),
}
/** The pattern has the same reason as in `options`. */
const Language = Type.String({ pattern: '^[^]*$' })
const Translated = withRule(
  Type.Record(Language, Type.Partial(Type.Object(translated), { title: 'NewTranslatedTexts', ...strict }), {
    description: "By language (BCP 47, in canonical form). A text that is missing is the product's own.",
    'x-must': MUST.translations,
  }),
  findFaultInTranslations,
)
const listedCurrency = withRule(Type.String(), (code) =>
  isCurrency(code) ? null : 'the currency of each of the prices must be an ISO 4217 code such as USD',
)
const OfferedPriceInput = Type.Object(
  {
    amount: Type.Integer(amount),
    currency: listedCurrency,
    compare_at: Type.Optional(orNull(Type.Integer(amount))),
  },
  { title: 'NewOfferedPrice', ...strict },
)
const SalePriceInput = Type.Object(
  {
    amount: Type.Integer(amount),
    currency: listedCurrency,
    from: Type.Optional(optionalTime('from of a sale', 'The sale begins at this time. Null if it has begun.')),
    until: Type.Optional(optionalTime('until of a sale', 'The sale ends at this time. Null if it has no end.')),
  },
  { title: 'NewSalePrice', ...strict },
)
export const slugInput = withRule(
  oneLine('slug', 'Stored in lower case, with hyphens between words. By default it is made from the name.'),
  (text) => findFaultInLabel('slug', text),
)
const CategoryReferenceInput = Type.Union([
  Type.String({ minLength: 1, maxLength: MAX_SLUG_LENGTH, description: 'The slug of a category.' }),
  Type.Array(label('category'), {
    minItems: 1,
    maxItems: MAX_LEVELS,
    description: 'The names from the top level to the category. Missing categories are created.',
  }),
])
/** A slug, or a path of names. */
export type CategoryReference = Static<typeof CategoryReferenceInput>
const properties = {
  slug: slugInput,
  sku: identifier('sku'),
  name: label('name'),
  description,
  category: label('category'),
  categories: Type.Array(CategoryReferenceInput, {
    minItems: 1,
    maxItems: MAX_PRODUCT_CATEGORIES,
    description: 'The first one is `category`. If absent, the categories stay the same.',
    'x-must': MUST.categories,
  }),
  brand: optionalLabel('brand'),
  image_url: withRule(
    Type.Union([Type.String({ minLength: 1, maxLength: MAX_LENGTHS.image_url }), Type.Null()], {
      description: 'The first image. Null if there is none.',
    }),
    (url) => (url === null ? null : findFaultInImageUrl('image_url', url)),
  ),
  images: Type.Array(ImageInput, { maxItems: MAX_IMAGES, 'x-must': MUST.images }),
  group: optionalLabel('group'),
  // Names need a pattern, because Type.Record with a plain Type.String does not check names with a line break.
  options: withRule(Type.Record(Type.String({ pattern: '^[^]*$' }), label('an option'), { 'x-must': MUST.options }), findFaultInOptions),
  attributes: ProductAttributesInput,
  price: Price,
  compare_at_price: Type.Union([Price, Type.Null()], {
    description: 'The price before a reduction. It must be above `price`, in the same currency.',
    'x-must': MUST.compare_at_price,
  }),
  seo: Type.Object(
    { title: Type.Optional(optionalLabel('seo.title')), description: Type.Optional(optionalLabel('seo.description')) },
    { ...strict, 'x-must': MUST.seo },
  ),
  availability_text: optionalLabel('availability_text'),
  translations: Translated,
  status: Type.Union([Type.Literal('draft'), Type.Literal('active')], {
    description: 'A draft is not in the shop. If absent, the status stays the same, and a new product is active.',
    'x-must': MUST.status,
  }),
  published_at: optionalTime('published_at', 'An active product is in the shop from this time on. Null: at once.'),
  unpublished_at: optionalTime('unpublished_at', 'When the product leaves the shop. Null if it does not leave.'),
  prices: Type.Array(OfferedPriceInput, {
    maxItems: MAX_PRICES,
    'x-must': MUST.prices,
    description: 'Prices in currencies other than the one of `price`.',
  }),
  sale_prices: Type.Array(SalePriceInput, {
    maxItems: MAX_SALE_PRICES,
    'x-must': MUST.sale_prices,
    description:
      'The amounts of the product during its sales, each below the price in its currency, with `from`, `until` or both. Sales in one currency do not overlap. The clock of the database decides which sale is on. A new price that is not above a sale removes that sale. One that has ended stays, and is not compared with the price.',
  }),
}
const { sku, name, price, ...others } = properties
/** The rule that a product names its category or categories. */
export const NAMES_CATEGORY = { anyOf: [{ required: ['category'] }, { required: ['categories'] }] }

export const NewProductBody = Type.Object(
  {
    ...{ sku, name, price },
    ...Type.Partial(Type.Object(others)).properties,
    stock: Type.Optional(Stock),
  },
  { title: 'NewProduct', examples: [EXAMPLE_NEW_PRODUCT], ...NAMES_CATEGORY, ...strict },
)
export const ProductPatchBody = Type.Partial(Type.Object(properties), {
  title: 'ProductChange',
  examples: [EXAMPLE_PRODUCT_CHANGE],
  ...strict,
  minProperties: 1,
})

const TranslatedPatch = Type.Partial(
  Type.Object({
    name: orNull(translated.name),
    description: orNull(translated.description),
    seo_title: orNull(translated.seo_title),
    seo_description: orNull(translated.seo_description),
    availability_text: orNull(translated.availability_text),
  }),
  { title: 'TranslatedTextsChange', ...strict },
)
/** A merge patch (RFC 7396) of what the variants of a group share. */
export const GroupPatchBody = Type.Partial(
  Type.Object({
    name: optionalLabel('name'),
    description: orNull(description),
    brand: properties.brand,
    images: orNull(properties.images),
    attributes: orNull(ProductAttributesPatch),
    seo: orNull(properties.seo),
    availability_text: properties.availability_text,
    translations: orNull(Type.Record(Language, orNull(TranslatedPatch), { description: 'By language (BCP 47, in canonical form).' })),
  }),
  {
    title: 'ProductGroupChange',
    description: 'A JSON Merge Patch (RFC 7396): null empties a member, and other members stay.',
    examples: [EXAMPLE_GROUP_CHANGE],
    ...strict,
    minProperties: 1,
  },
)

/** A product in a request or a catalogue file. */
export type NewProduct = Static<typeof NewProductBody>
type StayingProperty = 'slug' | 'category' | 'categories' | 'stock' | 'status' | 'published_at' | 'unpublished_at'
/**
 * A product from an operator or a file, ready to be stored. `sku` is its identity across imports. If stock, slug,
 * translations, prices, sales, status or publication times are missing, the stored values stay. Without `categories`,
 * those after the first stay. In a new product, stock is then not tracked, and the slug comes from the name.
 */
export type ProductInput = Required<Omit<NewProduct, StayingProperty | 'images' | 'seo' | 'translations' | 'prices' | 'sale_prices'>> &
  Pick<NewProduct, StayingProperty> & { translations?: Translations; prices?: OfferedPrice[]; sale_prices?: SalePrice[] } & Pick<
    ProductDetails,
    'images' | 'seo'
  >
