import type { Money } from '../store.ts'

/** A product as it was when the customer put it into the basket, and its quantity. */
export interface Line {
  id: string
  slug: string
  name: string
  price: Money
  image: string | null
  quantity: number
}

const KEY = 'shop.basket'
const KEY_OF_ORDER = 'shop.checkout'
const ATTEMPT = 'shop.attempt'
const MAX_QUANTITY = 10_000

/** The basket. This browser stores it until the order is placed. */
export function readBasket(): Line[] {
  const lines = read(KEY)
  return Array.isArray(lines) ? lines : []
}

export function addToBasket(product: Omit<Line, 'quantity'>, quantity: number): void {
  const line = readBasket().find(({ id }) => id === product.id)
  setQuantity(product, (line?.quantity ?? 0) + quantity)
}

/** Sets the quantity of a product in the basket. 0 removes the product. A line keeps its place. */
export function setQuantity(product: Omit<Line, 'quantity'>, quantity: number): void {
  const lines = readBasket()
  const line = { ...product, quantity: Math.min(MAX_QUANTITY, Math.max(0, Math.trunc(quantity))) }
  const known = lines.some(({ id }) => id === line.id)
  const next = known ? lines.map((one) => (one.id === line.id ? line : one)) : [...lines, line]
  save(next.filter((one) => one.quantity > 0))
}

/** Replaces the stored data of products in the basket. */
export function refreshLines(newer: ReadonlyMap<string, Partial<Line>>): void {
  save(readBasket().map((line) => ({ ...line, ...newer.get(line.id) })))
}

/** Removes the lines of a placed order. The next order has another key. */
export function removeOrdered(lines: readonly Line[]): void {
  for (const line of lines) addToBasket(line, -line.quantity)
  forgetOrderKey()
}

export const countUnits = () => readBasket().reduce((sum, { quantity }) => sum + quantity, 0)

/** One sum per currency. */
export function totals(lines: readonly Line[]): Money[] {
  const sums = new Map<string, number>()
  for (const { price, quantity } of lines) sums.set(price.currency, (sums.get(price.currency) ?? 0) + price.amount * quantity)
  return [...sums].map(([currency, amount]) => ({ amount, currency }))
}

/**
 * The idempotency key of the order, from the first attempt until the order is placed. With it a double click, a reload
 * and a second tab place one order. The store refuses a used key with other contents.
 */
export function orderKey(): string {
  const known = read(KEY_OF_ORDER)
  if (typeof known === 'string') return known
  const key = crypto.randomUUID()
  localStorage.setItem(KEY_OF_ORDER, JSON.stringify(key))
  return key
}

/** Call it when the customer has seen that an order has the key, and wants another order. */
export function forgetOrderKey(): void {
  for (const key of [KEY_OF_ORDER, ATTEMPT]) localStorage.removeItem(key)
}

/** An order that was sent with the key and has had no answer. */
export interface Attempt {
  digest: string
  at: number
}

export const readAttempt = () => read(ATTEMPT) as Attempt | null

export function saveAttempt(attempt: Attempt | null): void {
  if (attempt === null) localStorage.removeItem(ATTEMPT)
  else localStorage.setItem(ATTEMPT, JSON.stringify(attempt))
}

/** A stored value. Null when there is none, or when this shop has not stored it. */
function read(key: string): unknown {
  try {
    return JSON.parse(localStorage.getItem(key) ?? 'null')
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    return null
  }
}

function save(lines: readonly Line[]): void {
  localStorage.setItem(KEY, JSON.stringify(lines))
  dispatchEvent(new Event('basket'))
}
