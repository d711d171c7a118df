import { AppError, type FieldError } from '../errors.ts'
import { invalidBody } from '../http/problem.ts'
import { type Money, sum } from '../money.ts'
import type { AmendmentOffer } from './amendment-offer.ts'
import { assertAvailable, MAX_LINES, priceBasket } from './basket.ts'
import { type Order, stateOf } from './order.ts'
import type { AmendedChange, LineQuantity, OrderLine } from './order-changes.ts'
import { countMovable, removeUnits, transitionsOf } from './order-state.ts'
import { assertTotalAfter } from './plan-charge.ts'

/** The wanted total of units, including shipped ones. */
export interface RequestedLine extends LineQuantity {
  /** Price of added units: the product's current price, or the price of the product's first line in the order. */
  price: 'now' | 'then'
}

interface AmendedLines {
  removed: LineQuantity[]
  added: OrderLine[]
  amount: number
}

/** Throws `invalid_body` for 0 units of a product that the order never had. */
export function haveLinesChanged(order: Order, requested: readonly RequestedLine[]): boolean {
  const units = unitsByProduct(order)
  for (const [index, { product_id, quantity }] of requested.entries()) {
    if (quantity === 0 && !units.has(product_id)) throw invalidBody(`#/lines/${index}/product_id`, 'is no product of the order')
  }
  return requested.some(({ product_id, quantity }) => quantity !== (units.get(product_id)?.kept ?? 0))
}

/** Whether the request names every changed product at the applied price. `before` has the earlier lines. */
export function areLinesCovered(
  { removed = [], added = [] }: AmendedChange,
  requested: readonly RequestedLine[],
  before: readonly OrderLine[],
): boolean {
  const named = new Map(requested.map((line) => [line.product_id, line]))
  // The history lacks the current price at that time, so `now` always matches.
  const isPriced = ({ product_id, unit_price }: OrderLine) =>
    named.get(product_id)?.price === 'now' || unit_price.amount === priceThen(before, product_id)?.amount
  return [...removed, ...added].every(({ product_id }) => named.has(product_id)) && added.every(isPriced)
}

function priceThen(items: readonly OrderLine[], productId: string): Money | undefined {
  return items.find((item) => item.product_id === productId)?.unit_price
}

/** Removed units leave existing lines, and added units become new lines, so each line keeps its price. */
export function planLines(order: Order, requested: readonly RequestedLine[], offer: AmendmentOffer): AmendedLines {
  const { items, lines } = stateOf(order)
  const units = unitsByProduct(order)
  const unitsOf = (productId: string) => units.get(productId) ?? { kept: 0, shipped: 0 }
  assertUnshipped(order, requested, (productId) => unitsOf(productId).shipped)
  const removed = requested.flatMap(({ product_id, quantity }) => {
    const excess = unitsOf(product_id).kept - quantity
    return excess > 0 ? [{ product_id, quantity: excess }] : []
  })
  const wanted = requested.flatMap(({ product_id, quantity, price }, index) => {
    const missing = quantity - unitsOf(product_id).kept
    return missing > 0 ? [{ product_id, quantity: missing, price, pointer: `#/lines/${index}` }] : []
  })
  const added = wanted.length === 0 ? [] : priceLines(order, wanted, offer)
  const removedAmount = removeUnits({ items, lines }, removed)
  if (added.length === 0 && !lines.some((line) => countMovable(line, 'cancelled') > 0)) throw refuseNothingLeft(order)
  if (items.length + added.length > MAX_LINES) throw new AppError('too_many_changes', `The order would have more than ${MAX_LINES} lines.`)
  // The sum of all lines must also be exact when a discount keeps the total small.
  sum([...items, ...added].map(({ total }) => total))
  const amount = added.reduce((total, line) => total + line.total.amount, 0) - removedAmount
  assertTotalAfter(order, amount)
  return { removed, added, amount }
}

function unitsByProduct(order: Order): Map<string, { kept: number; shipped: number }> {
  const { items, lines } = stateOf(order)
  const units = new Map<string, { kept: number; shipped: number }>()
  for (const [index, { ordered, shipped, cancelled }] of lines.entries()) {
    const productId = items[index]?.product_id ?? ''
    const known = units.get(productId) ?? { kept: 0, shipped: 0 }
    units.set(productId, { kept: known.kept + ordered - cancelled, shipped: known.shipped + shipped })
  }
  return units
}

function assertUnshipped({ status }: Order, requested: readonly RequestedLine[], shippedOf: (productId: string) => number): void {
  const errors = requested.flatMap(({ product_id, quantity }, index): FieldError[] => {
    const shipped = shippedOf(product_id)
    return quantity < shipped ? [{ pointer: `#/lines/${index}/quantity`, detail: `is less than the ${shipped} that are shipped` }] : []
  })
  if (errors.length === 0) return
  throw new AppError('too_late_to_amend', 'Units that are shipped cannot be removed from the order.', {
    errors,
    members: { current_status: status },
  })
}

function priceLines(
  order: Order,
  wanted: readonly (RequestedLine & { pointer: string })[],
  { products, stock, precision, purchases }: AmendmentOffer,
): OrderLine[] {
  const basket = { sent: wanted, lines: wanted, orderLines: wanted, pointers: wanted.map(({ pointer }) => pointer) }
  const priced = new Map(products)
  for (const { product_id, price, pointer } of wanted) {
    if (price === 'now') continue
    const before = priceThen(stateOf(order).items, product_id)
    if (before === undefined) throw invalidBody(`${pointer}/price`, 'the order has no price of this product')
    const product = products.get(product_id)
    if (product !== undefined) priced.set(product_id, { ...product, price: before, prices: {} })
  }
  const { items } = priceBasket(basket, order.total.currency, { products: priced, stock })
  assertAvailable(basket, stock.shortagesOf(wanted, precision), purchases?.excessOf(order.userId, wanted) ?? [])
  return items
}

function refuseNothingLeft(order: Order): AppError {
  const { id, status } = order
  return new AppError(
    'illegal_transition',
    `Nothing would be left to ship. Cancel the units instead: POST /admin/orders/${id}/cancellations.`,
    {
      members: { current_status: status, allowed_transitions: transitionsOf(status, stateOf(order).lines) },
    },
  )
}
