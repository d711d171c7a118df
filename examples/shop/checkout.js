import { formatMoney, isProblem, ProblemError } from '@storefront/client'
import { checkoutKey, emptyBasket, forgetCheckoutKey, readBasket, setQuantity } from './basket.js'
import { byId, element, whileDisabled } from './dom.js'

/** The basket and the order of it. `signIn` resolves when the customer is signed in, or has given up. */
export function showBasket(shop, { signIn, report }) {
  const dialog = byId('basket')
  const form = byId('order-form')
  const error = form.querySelector('.error')
  // The customer has seen that there is an order with the same lines.
  let isMeant = false
  checkoutKey()

  const draw = () => {
    const lines = readBasket()
    byId('basket-lines').replaceChildren(
      ...(lines.length === 0 ? [element('li', {}, 'The basket is empty.')] : lines.map((line) => row(line, change))),
    )
    byId('basket-total').textContent = totals(lines)
      .map((total) => formatMoney(total))
      .join(' + ')
    byId('place-order').disabled = lines.length === 0
  }
  const change = () => {
    isMeant = false
    draw()
  }
  form.onsubmit = (event) => {
    event.preventDefault()
    whileDisabled(byId('place-order'), async () => {
      error.textContent = ''
      if (!(await signIn())) return
      const lines = readBasket()
      const [total] = totals(lines)
      const order = {
        items: lines.map(({ id, quantity }) => ({ product_id: id, quantity })),
        // What the customer was shown: the store refuses the order when a price has changed.
        expected_total: total,
        shipping_address: Object.fromEntries(new FormData(form)),
        ...(isMeant && { again: true }),
      }
      try {
        const { number } = await shop.placeOrder(order, { idempotencyKey: checkoutKey() })
        emptyBasket()
        dialog.close()
        report(`Thank you: order ${number} is placed.`)
      } catch (problem) {
        if (isProblem(problem, 'price_changed')) showNewPrices(problem.problem.items)
        isMeant = isProblem(problem, 'probably_placed_already')
        if (isProblem(problem, 'idempotency_key_reused')) forgetCheckoutKey()
        error.textContent = explain(problem)
      }
    }).then(draw)
  }
  draw()
  error.textContent = ''
  dialog.showModal()
}

function row(line, redraw) {
  const quantity = element('input', { type: 'number', min: 0, max: 10_000, value: line.quantity })
  quantity.setAttribute('aria-label', `Units of ${line.name}`)
  quantity.onchange = () => {
    setQuantity(line, Number(quantity.value))
    redraw()
  }
  const { amount, currency } = line.price
  const sum = `${formatMoney(line.price)} each, ${formatMoney({ amount: amount * line.quantity, currency })}`
  return element('li', {}, element('span', {}, line.name), quantity, element('span', { className: 'price' }, sum))
}

/** A sum for each currency. */
function totals(lines) {
  const sums = new Map()
  for (const { price, quantity } of lines) sums.set(price.currency, (sums.get(price.currency) ?? 0) + price.amount * quantity)
  return [...sums].map(([currency, amount]) => ({ amount, currency }))
}

/** Prices of the basket as they are now. */
function showNewPrices(items) {
  const prices = new Map(items.map(({ product_id, unit_price }) => [product_id, unit_price]))
  for (const line of readBasket()) setQuantity({ ...line, price: prices.get(line.id) ?? line.price }, line.quantity)
}

/** What the customer can do about an order that was not placed. */
function explain(problem) {
  const nameOf = (id) => readBasket().find((line) => line.id === id)?.name ?? id
  if (isProblem(problem, 'insufficient_stock')) {
    // The store shows 20 also where there are more.
    const left = (available) => (available < 20 ? `${available} left` : 'at least 20 left')
    return problem.problem.shortages.map(({ product_id, available }) => `${nameOf(product_id)}: ${left(available)}.`).join(' ')
  }
  if (isProblem(problem, 'unknown_product')) return 'A product of the basket is no longer sold. Set its number to 0.'
  if (isProblem(problem, 'mixed_currencies')) return 'Order the products of each currency on their own.'
  if (isProblem(problem, 'price_changed')) return 'A price has changed. This is the total now: press Order again if you agree.'
  if (isProblem(problem, 'purchase_limit') || isProblem(problem, 'too_many_pending_orders') || isProblem(problem, 'invalid_body')) {
    return problem.problem.detail
  }
  if (isProblem(problem, 'probably_placed_already')) return 'You have just placed this order. Press Order again to place it once more.'
  if (isProblem(problem, 'idempotency_key_reused')) {
    return 'An order from this basket was placed before you changed it: see your orders. Press Order again to place this one as well.'
  }
  if (problem instanceof ProblemError && problem.status === 401) return 'Your session has ended. Close the basket, sign in and order again.'
  // The order may have been placed. The key makes sure that the next attempt answers with it instead of placing
  // another.
  return 'The store cannot be reached. Press Order again: it is placed once.'
}
