import { formatMajorUnits } from '../../client/src/currency.ts'
import { priceIn } from '../catalogue/offered-prices.ts'
import type { SellableProduct } from '../catalogue/products.ts'
import type { Shortage, StockLevels, StockLine } from '../catalogue/stock.ts'
import { canonicalJson } from '../encoding.ts'
import { AppError, type ErrorCode, type FieldError } from '../errors.ts'
import { invalidBody } from '../http/problem.ts'
import { type Money, multiply, sum } from '../money.ts'
import { type Attributes, givenAttributes, hasAttributes } from './line-attributes.ts'
import type { OrderItem } from './order.ts'

export const MAX_LINES = 1_000
export const MAX_QUANTITY = 10_000
/** The attributes of all lines together, as JSON. */
export const MAX_LINES_ATTRIBUTES_BYTES = 8_192

export interface BasketLine extends StockLine {
  attributes?: Attributes
}

export interface Basket {
  sent: readonly StockLine[]
  /** One line per product, for stock and limits. */
  lines: readonly StockLine[]
  /** One line per product and attributes, for the order. */
  orderLines: readonly BasketLine[]
  /** JSON pointers of the sent lines. Absent when they are in `#/items`. */
  pointers?: readonly string[]
}

export interface PurchaseLimit {
  product_id: string
  requested: number
  bought: number
  limit: number
}

export interface Offer {
  products: ReadonlyMap<string, SellableProduct>
  stock: Stock
}

/** Call `take` only with lines that are not short. */
export type Stock = Pick<StockLevels, 'shortagesOf' | 'take'>

/** Keeps the sequence of first mention. Throws `invalid_body` when a quantity or the attributes are too large. */
export function mergeLines(sent: readonly BasketLine[]): Basket {
  const lines = new Map<string, { product_id: string; quantity: number }>()
  for (const [index, item] of sent.entries()) {
    const productId = item.product_id.toLowerCase()
    const line = lines.get(productId) ?? { product_id: productId, quantity: 0 }
    line.quantity += item.quantity
    if (line.quantity > MAX_QUANTITY) {
      throw invalidBody(`#/items/${index}/quantity`, `the product's lines add up to more than ${MAX_QUANTITY}`)
    }
    lines.set(productId, line)
  }
  const merged = [...lines.values()]
  return { sent, lines: merged, orderLines: hasAttributes(sent) ? mergeEqual(sent) : merged }
}

function mergeEqual(sent: readonly BasketLine[]): BasketLine[] {
  const lines = new Map<string, BasketLine>()
  let sizeBytes = 0
  for (const item of sent) {
    const [productId, attributes] = [item.product_id.toLowerCase(), givenAttributes(item.attributes)]
    const content = attributes === undefined ? '' : canonicalJson(attributes)
    const line = lines.get(productId + content)
    sizeBytes += line === undefined ? Buffer.byteLength(content) : 0
    const quantity = item.quantity + (line?.quantity ?? 0)
    lines.set(productId + content, { product_id: productId, ...(attributes === undefined ? {} : { attributes }), ...line, quantity })
  }
  if (sizeBytes <= MAX_LINES_ATTRIBUTES_BYTES) return [...lines.values()]
  throw invalidBody('#/items', `the attributes of all lines have more than ${MAX_LINES_ATTRIBUTES_BYTES} bytes as JSON`)
}

/** The products' own prices apply when `currency` is null. */
export function priceBasket(basket: Basket, currency: string | null, { products, stock }: Offer): { items: OrderItem[]; total: Money } {
  const items: OrderItem[] = []
  const { lines } = basket
  for (const { product_id, quantity, attributes } of basket.orderLines) {
    const product = products.get(product_id)
    if (product === undefined) throw refuseUnknown(basket, products, stock.shortagesOf(lines, 'rounded'))
    const { sku, name, category } = product
    const price = priceIn(product, currency)
    if (price === null) {
      if (!lines.every((line) => products.has(line.product_id))) throw refuseUnknown(basket, products, stock.shortagesOf(lines, 'rounded'))
      throw refuseCurrency(basket, products, currency)
    }
    items.push({
      product_id,
      sku,
      name,
      category,
      unit_price: price,
      quantity,
      total: multiply(price, quantity),
      ...(attributes && { attributes }),
    })
  }
  return { items, total: sum(items.map((item) => item.total)) }
}

/** Throws `purchase_limit`, or else `insufficient_stock`. The error names every line at fault. */
export function assertAvailable(basket: Basket, shortages: readonly Shortage[], limits: readonly PurchaseLimit[]): void {
  if (limits.length > 0) {
    throw refuse(
      'purchase_limit',
      'The order exceeds the limit per customer of some products.',
      [...limitErrors(basket, limits), ...shortageErrors(basket, shortages)],
      { limits, ...(shortages.length > 0 ? { shortages } : {}) },
    )
  }
  if (shortages.length > 0) {
    throw refuse('insufficient_stock', 'There is not enough stock. Nothing was reserved.', shortageErrors(basket, shortages), { shortages })
  }
}

export function assertTotal(expected: Money | null, items: readonly OrderItem[], total: Money): void {
  if (expected === null || (expected.amount === total.amount && expected.currency === total.currency)) return
  throw refuse(
    'price_changed',
    `The total is ${formatMajorUnits(total)} ${total.currency} now.`,
    [{ pointer: '#/expected_total', detail: 'is not the total' }],
    { items, total },
  )
}

function refuseCurrency(basket: Basket, products: Offer['products'], currency: string | null): AppError {
  const errors = basket.sent.flatMap((item, index): FieldError[] => {
    const product = products.get(item.product_id.toLowerCase())
    if (product === undefined || priceIn(product, currency) !== null) return []
    return [{ pointer: `${pointerAt(basket, index)}/product_id`, detail: `has no price in ${currency}` }]
  })
  return refuse('currency_not_available', `Some products have no price in ${currency}.`, errors, {})
}

function refuseUnknown(basket: Basket, products: Offer['products'], shortages: readonly Shortage[]): AppError {
  const short = shortages.filter((shortage) => products.has(shortage.product_id))
  const unknown = basket.sent.flatMap((item, index): FieldError[] => {
    if (products.has(item.product_id.toLowerCase())) return []
    return [{ pointer: `${pointerAt(basket, index)}/product_id`, detail: 'there is no such product' }]
  })
  return refuse('unknown_product', 'The order names products that do not exist.', [...unknown, ...shortageErrors(basket, short)], {
    ...(short.length > 0 ? { shortages: short } : {}),
  })
}

function refuse(code: ErrorCode, message: string, errors: FieldError[], members: Record<string, unknown>): AppError {
  return new AppError(code, message, { errors, members })
}

function shortageErrors(basket: Basket, shortages: readonly Shortage[]): FieldError[] {
  return shortages.map(({ product_id, available, requested }) => ({
    pointer: pointerTo(basket, product_id),
    detail: `${available} available, ${requested} requested`,
  }))
}

function limitErrors(basket: Basket, limits: readonly PurchaseLimit[]): FieldError[] {
  return limits.map(({ product_id, requested, bought, limit }) => ({
    pointer: pointerTo(basket, product_id),
    detail: `${requested} requested, ${bought} bought before, ${limit} allowed`,
  }))
}

function pointerTo(basket: Basket, productId: string): string {
  return `${pointerAt(
    basket,
    basket.sent.findIndex((item) => item.product_id.toLowerCase() === productId),
  )}/quantity`
}

function pointerAt({ pointers }: Basket, index: number): string {
  return pointers?.[index] ?? `#/items/${index}`
}
