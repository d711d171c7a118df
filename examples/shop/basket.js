const KEY = 'shop.basket'
const CHECKOUT_KEY = 'shop.checkout'
const MAX_QUANTITY = 10_000

/** The lines of the basket: products as they were when they were added. It is in this browser until the order is placed. */
export const readBasket = () => {
  const lines = read(KEY)
  return Array.isArray(lines) ? lines : []
}

export function addToBasket(product) {
  const line = readBasket().find(({ id }) => id === product.id)
  setQuantity(product, (line?.quantity ?? 0) + 1)
}

/** Sets how many units of a product are in the basket; 0 removes it. */
export function setQuantity({ id, name, price }, quantity) {
  const others = readBasket().filter((line) => line.id !== id)
  const wanted = Math.min(MAX_QUANTITY, Math.max(0, Math.trunc(quantity)))
  save(wanted === 0 ? others : [...others, { id, name, price, quantity: wanted }])
}

export const emptyBasket = () => save([])

/**
 * The idempotency key of the checkout of this basket. It survives a reload of the page, so that an order whose answer was lost is not placed
 * twice; another basket or address is another order.
 */
export function checkoutKey(order) {
  const text = JSON.stringify(order)
  const known = read(CHECKOUT_KEY)
  if (known?.text === text) return known.key
  const key = crypto.randomUUID()
  localStorage.setItem(CHECKOUT_KEY, JSON.stringify({ text, key }))
  return key
}

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
  if (lines.length === 0) localStorage.removeItem(CHECKOUT_KEY)
  dispatchEvent(new Event('basket'))
}
