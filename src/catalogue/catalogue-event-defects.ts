import { isDate, isTime } from '../event-time.ts'
import { type ProductEventRecord, RECORDED_TYPES } from './catalogue-event.ts'

/** A UUID as the store writes it: RFC 9562's text form in lower case. */
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const VERSION = /^[1-9][0-9]{0,9}$/

/**
 * Why a row cannot become an event, because another program wrote it; null if it can. Names the place but not its
 * content. Pure.
 */
export function findRecordDefect({ product_id, stream, version, type, occurred_at, data }: ProductEventRecord): string | null {
  if (!(RECORDED_TYPES[stream] as readonly string[] | undefined)?.includes(type)) return 'type is no type of its stream'
  if (!VERSION.test(version)) return 'version is no version'
  // An infinite timestamp is a number here.
  if (!isDate(occurred_at)) return 'occurred_at is no time'
  return findDefectInData(type, product_id, data)
}

/**
 * Explains why subscribers cannot use a topic message as a catalogue event. Returns null if they can. Other programs
 * can write anything to the topic, so the text names the member, never its value. Pure.
 */
export function findCatalogueEventDefect(event: unknown): string | null {
  if (!isObject(event)) return 'it is no object'
  const { id, type, subject, sequence, time, data } = event
  if (typeof subject !== 'string' || !UUID.test(subject)) return 'subject is no UUID'
  if (typeof sequence !== 'string' || !/^[0-9]{10}$/.test(sequence)) return 'sequence is no version'
  const version = sequence.replace(/^0+/, '')
  if (!VERSION.test(version)) return 'sequence is no version'
  const recorded = typeof type === 'string' && type.startsWith('storefront.') ? type.slice('storefront.'.length) : ''
  const isOfStock = (RECORDED_TYPES.stock as readonly string[]).includes(recorded)
  if (!isOfStock && !(RECORDED_TYPES.product as readonly string[]).includes(recorded)) return 'type is no type of a catalogue event'
  if (id !== `${subject}.${isOfStock ? 'stock.' : ''}${version}`) return 'id is not that of the product and its version'
  if (!isTime(time)) return 'time is no time'
  return findDefectInData(recorded, subject, data)
}

function findDefectInData(type: string, productId: string, data: unknown): string | null {
  if (!isObject(data)) return 'data is no object'
  if (type.startsWith('product.')) return findDefectInProduct(productId, data.product)
  if (data.product_id !== productId) return 'product_id is not that of the event'
  if (!isText(data.sku)) return 'sku is no text'
  if (type === 'price.changed') {
    const { price, previous_price, compare_at_price, previous_compare_at_price } = data
    if (!isMoney(price) && !isMoney(previous_price)) return 'price is no amount'
    if (!isOptional(price, isMoney)) return 'price is no amount'
    if (!isOptional(previous_price, isMoney)) return 'previous_price is no amount'
    if (!isOptional(compare_at_price, isMoney)) return 'compare_at_price is no amount'
    return isOptional(previous_compare_at_price, isMoney) ? null : 'previous_compare_at_price is no amount'
  }
  if (!isOptional(data.available, isLevel)) return 'available is no number of units'
  return isOptional(data.previous_available, isLevel) ? null : 'previous_available is no number of units'
}

/** Unknown members are allowed, because later releases may add some. */
function findDefectInProduct(productId: string, product: unknown): string | null {
  if (!isObject(product)) return 'product is no object'
  if (product.id !== productId) return 'product.id is not that of the event'
  for (const name of ['sku', 'name', 'description', 'category']) if (!isText(product[name])) return `product.${name} is no text`
  for (const name of ['slug', 'brand', 'image_url', 'group', 'availability_text'])
    if (!isOptional(product[name], isText)) return `product.${name} is no text`
  if (!isMoney(product.price)) return 'product.price is no amount'
  if (!isOptional(product.compare_at_price, isMoney)) return 'product.compare_at_price is no amount'
  for (const name of ['options', 'attributes', 'seo']) if (!isObject(product[name])) return `product.${name} is no object`
  if (!Array.isArray(product.images) || !product.images.every((image) => isObject(image) && isText(image.url)))
    return 'product.images is no list of images'
  if (!isListOf(product.categories, (category) => isText(category.id) && isText(category.slug) && isText(category.name)))
    return 'product.categories is no list of categories'
  if (!isOptional(product.translations, (texts) => isObject(texts) && Object.values(texts).every(isObject)))
    return 'product.translations is no object of texts'
  for (const name of ['prices', 'sale_prices']) if (!isListOf(product[name], isMoney)) return `product.${name} is no list of amounts`
  for (const name of ['published_at', 'unpublished_at']) if (!isOptional(product[name], isTime)) return `product.${name} is no time`
  if (!isTime(product.created_at)) return 'product.created_at is no time'
  return isOptional(product.archived_at, isTime) ? null : 'product.archived_at is no time'
}

/** Whether a value is absent, null or accepted. */
function isOptional(value: unknown, accepts: (value: unknown) => boolean): boolean {
  return value === undefined || value === null || accepts(value)
}

/** Whether a value is absent, null or a list of accepted objects. */
function isListOf(value: unknown, accepts: (item: Record<string, unknown>) => boolean): boolean {
  return isOptional(value, (list) => Array.isArray(list) && list.every((item) => isObject(item) && accepts(item)))
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value.isWellFormed()
}

function isLevel(value: unknown): boolean {
  return Number.isSafeInteger(value) && Number(value) >= 0
}

function isMoney(value: unknown): boolean {
  return isObject(value) && Number.isSafeInteger(value.amount) && typeof value.currency === 'string'
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
