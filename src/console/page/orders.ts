import { call, poll, restartable, type Schemas, withQuery } from './api.ts'
import { showCustomerList } from './customer-list.ts'
import { showCustomer } from './customer-view.ts'
import { actions, amountText, create, keyedTable, link, timeElement } from './dom.ts'
import { LoadedOrders } from './loaded-orders.ts'
import { filterForm, readFilters } from './order-filters.ts'
import { type AdminOrder, orderAddress } from './order-parts.ts'
import { selectionBar } from './order-selection.ts'
import { showOrder } from './order-view.ts'
import { moreButton } from './paged-list.ts'
import type { Screen, ScreenContext } from './screen.ts'
import { stateBadge } from './state-badge.ts'

/** `#orders` lists orders, `?order=ID` shows one, `?customers=1` lists customers, `?customer=ID` shows one. */
export const orders: Screen = {
  title: 'Orders',
  scopes: ['orders:read'],
  open(root, context) {
    const { parameters, may } = context
    const orderId = parameters.get('order')
    const customerId = parameters.get('customer')
    if (orderId !== null) showOrder(root, orderId, context)
    else if (customerId !== null && may('customers:read')) showCustomer(root, customerId, context)
    else if (parameters.has('customers') && may('customers:read')) showCustomerList(root, context)
    else showOrderList(root, context)
  },
}

const POLL_SECONDS = 10
const PAGE_SIZE = 50

/** The list of orders with its filters; the newest page keeps itself up to date. */
function showOrderList(root: HTMLElement, context: ScreenContext): void {
  const { signal, may, report, tell } = context
  const canMove = may('orders:move')
  let filters = readFilters(context.parameters)
  let orders = new LoadedOrders(false)

  const count = create('p', { class: 'muted', attributes: { role: 'status' } })
  const columns = [...(canMove ? ['Select'] : []), 'Number', 'Placed', 'Status', { number: 'Total' }, 'Items', 'For']
  const rows = keyedTable<AdminOrder>('Orders', columns, { keyOf: ({ id }) => id, cellsOf: cells })
  const older = moreButton('Older orders', loadOlder, report)
  const selection = selectionBar({ orders: () => orders, signal, onSelect: show, onMoved: () => refresh(), report, tell })
  root.append(
    create('h2', {}, 'Orders'),
    ...(may('customers:read') ? [create('p', { class: 'actions' }, link('#orders?customers=1', 'Customers'))] : []),
    filterForm(filters, { onChange: search, report }),
    ...(canMove ? [selection.element] : []),
    rows.element,
    actions(older, count),
  )

  function cells(order: AdminOrder) {
    const box = create('input', { type: 'checkbox', checked: orders.selected.has(order.id) })
    box.setAttribute('aria-label', `Select order ${order.number}`)
    box.addEventListener('change', () => {
      if (box.checked) orders.selected.add(order.id)
      else orders.selected.delete(order.id)
      show()
    })
    const [first] = order.items
    const more = order.items.length > 1 ? ` and ${order.items.length - 1} more` : ''
    return [
      ...(canMove ? [box] : []),
      link(orderAddress(order.id, filters), order.number),
      timeElement(order.created_at),
      stateBadge(order.status),
      amountText(order.total),
      first === undefined ? '–' : `${first.quantity} × ${first.name}${more}`,
      order.shipping_address?.name ?? '–',
    ]
  }

  function show(): void {
    const { list, selected, cursor } = orders
    rows.show(list)
    for (const [index, box] of [...rows.element.querySelectorAll<HTMLInputElement>('tbody input')].entries()) {
      box.checked = selected.has(list[index]?.id ?? '')
    }
    older.hidden = cursor === null
    count.textContent =
      list.length === 0
        ? 'No order matches.'
        : `${list.length === 1 ? '1 order' : `${list.length} orders`}${cursor === null ? '' : ', and older ones'}`
    selection.show()
  }

  function search(next: URLSearchParams): void {
    filters = next
    history.pushState(null, '', next.size === 0 ? '#orders' : `#orders?${next}`)
    tell('')
    start()
  }

  function start(): void {
    orders = new LoadedOrders(!filters.has('q') && (filters.has('from') || filters.has('to')))
    rows.show([])
    refresh()
  }

  /** Asks for the newest page now, and from now on. */
  const refresh = restartable(signal, (until) => {
    const onChange = (page: Schemas['AdminOrderPage']) => {
      orders.addNewest(page)
      show()
    }
    void poll(path(), { seconds: POLL_SECONDS, signal: until, onChange, onError: report, endsAt: [400] })
  })

  function path(cursor?: string): string {
    return withQuery('/admin/orders', { ...Object.fromEntries(filters), limit: PAGE_SIZE, cursor })
  }

  async function loadOlder(): Promise<void> {
    const loading = orders
    if (loading.cursor === null) return
    loading.addOlder(await call<Schemas['AdminOrderPage']>('GET', path(loading.cursor), { signal }))
    if (loading === orders) show()
  }

  start()
}
