const KEY = 'shop.basket'
const CHECKOUT_KEY = 'shop.checkout'
const MAX_QUANTITY = 10_000

/**
 * The lines of the basket: products as they were when they were added. It is in this browser until the order is
 * placed.
 */
export const readBasket = () => {
  const lines = read(KEY)
  return Array.isArray(lines) ? lines : []
}

export function addToBasket(product, quantity) {
  const line = readBasket().find(({ id }) => id === product.id)
  setQuantity(product, (line?.quantity ?? 0) + quantity)
}

/** Sets how many units of a product are in the basket; 0 removes it. */
export function setQuantity({ id, name, price }, quantity) {
  const others = readBasket().filter((line) => line.id !== id)
  const wanted = Math.min(MAX_QUANTITY, Math.max(0, Math.trunc(quantity)))
  save(wanted === 0 ? others : [...others, { id, name, price, quantity: wanted }])
}

export const emptyBasket = () => save([])

/**
 * The idempotency key of the checkout, made when the basket is opened, until the order is placed: a double click, a
 * reload and a second tab place one order. The store refuses the key with other contents once an order has it.
 */
export function checkoutKey() {
  const known = read(CHECKOUT_KEY)
  if (typeof known === 'string') return known
  const key = crypto.randomUUID()
  localStorage.setItem(CHECKOUT_KEY, JSON.stringify(key))
  return key
}

/** The customer has seen that an order has the key, and wants another one. */
export const forgetCheckoutKey = () => localStorage.removeItem(CHECKOUT_KEY)

/** A stored value, null without one or when it is not what this page has stored. */
function read(key) {
  try {
    return JSON.parse(localStorage.getItem(key))
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    return null
  }
}

function save(lines) {
  localStorage.setItem(KEY, JSON.stringify(lines))
  if (lines.length === 0) forgetCheckoutKey()
  dispatchEvent(new Event('basket'))
}
