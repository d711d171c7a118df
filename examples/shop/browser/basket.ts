import type { Money } from '../store.ts'

/** A product as it was when it was put into the basket, and how many of it. */
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

/** The basket is in this browser until the order is placed. */
export function readBasket(): Line[] {
  const lines = read(KEY)
  return Array.isArray(lines) ? lines : []
}

export function addToBasket(product: Omit<Line, 'quantity'>, quantity: number): void {
  const line = readBasket().find(({ id }) => id === product.id)
  setQuantity(product, (line?.quantity ?? 0) + quantity)
}

/** Sets how many units of a product are in the basket; 0 removes it. A line keeps its place. */
export function setQuantity(product: Omit<Line, 'quantity'>, quantity: number): void {
  const lines = readBasket()
  const line = { ...product, quantity: Math.min(MAX_QUANTITY, Math.max(0, Math.trunc(quantity))) }
  const known = lines.some(({ id }) => id === line.id)
  const next = known ? lines.map((one) => (one.id === line.id ? line : one)) : [...lines, line]
  save(next.filter((one) => one.quantity > 0))
}

/** Replaces what is known of the products in the basket. */
export function refreshLines(newer: ReadonlyMap<string, Partial<Line>>): void {
  save(readBasket().map((line) => ({ ...line, ...newer.get(line.id) })))
}

export const emptyBasket = () => save([])

export const countUnits = () => readBasket().reduce((sum, { quantity }) => sum + quantity, 0)

/** A sum for each currency. */
export function totals(lines: readonly Line[]): Money[] {
  const sums = new Map<string, number>()
  for (const { price, quantity } of lines) sums.set(price.currency, (sums.get(price.currency) ?? 0) + price.amount * quantity)
  return [...sums].map(([currency, amount]) => ({ amount, currency }))
}

/**
 * The idempotency key of the order, made when the customer begins to order, until the order is placed: a double
 * click, a reload and a second tab place one order. The store refuses the key with other contents once an order has
 * it.
 */
export function orderKey(): string {
  const known = read(KEY_OF_ORDER)
  if (typeof known === 'string') return known
  const key = crypto.randomUUID()
  localStorage.setItem(KEY_OF_ORDER, JSON.stringify(key))
  return key
}

/** The customer has seen that an order has the key, and wants another one. */
export function forgetOrderKey(): void {
  for (const key of [KEY_OF_ORDER, ATTEMPT]) localStorage.removeItem(key)
}

/** An order that was sent with the key and has no answer. */
export interface Attempt {
  digest: string
  at: number
}

export const readAttempt = () => read(ATTEMPT) as Attempt | null

export function saveAttempt(attempt: Attempt | null): void {
  if (attempt === null) localStorage.removeItem(ATTEMPT)
  else localStorage.setItem(ATTEMPT, JSON.stringify(attempt))
}

/** A stored value, null without one or when it is not what this shop has stored. */
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
  if (lines.length === 0) forgetOrderKey()
  dispatchEvent(new Event('basket'))
}
