import { formatMoney } from '@storefront/client'
import { byId, element, whileDisabled } from './dom.js'

const POLL_MS = 5_000

/** The customer's orders with their status, which is read again while the dialog is open. */
export async function showOrders(shop) {
  const dialog = byId('orders')
  const list = byId('order-list')
  const error = dialog.querySelector('.error')
  const more = byId('more-orders')
  let cursor

  const refresh = async () => {
    try {
      const page = await shop.orderPage()
      cursor = page.next_cursor ?? undefined
      more.hidden = !page.has_more
      list.replaceChildren(...page.data.map(row))
      error.textContent = ''
      if (page.data.length === 0) list.append(element('li', {}, 'No orders yet.'))
    } catch {
      error.textContent = 'The orders could not be loaded. The next attempt follows.'
    }
  }
  const row = (order) => {
    const cancel = element('button', { type: 'button' }, 'Cancel')
    cancel.setAttribute('aria-label', `Cancel order ${order.number}`)
    cancel.onclick = () => whileDisabled(cancel, () => shop.cancelOrder(order.id).then(refresh, refresh))
    const items = order.items.map(({ quantity, name }) => `${quantity} × ${name}`).join(', ')
    const parts = [element('strong', {}, order.number), element('span', {}, order.status), element('span', {}, formatMoney(order.total))]
    if (order.refunded?.amount > 0) parts.push(element('span', {}, `${formatMoney(order.refunded)} refunded`))
    return element('li', {}, ...parts, element('span', {}, items), ...(order.allowed_transitions.includes('cancelled') ? [cancel] : []))
  }
  more.onclick = () =>
    whileDisabled(more, async () => {
      const page = await shop.orderPage({ cursor })
      cursor = page.next_cursor ?? undefined
      more.hidden = !page.has_more
      list.append(...page.data.map(row))
    })

  dialog.showModal()
  await refresh()
  // Older pages that were loaded stay as they are: only a list that shows the first page is read again.
  const timer = setInterval(() => !document.hidden && list.childElementCount <= 20 && refresh(), POLL_MS)
  dialog.addEventListener('close', () => clearInterval(timer), { once: true })
}
