import { call, Refusal, type Schemas, withQuery } from './api.ts'
import { amountText, create, timeElement } from './dom.ts'
import { keyedTable } from './keyed-table.ts'
import { LoadedOrders } from './loaded-orders.ts'
import { filterForm, readFilters } from './order-filters.ts'
import { type AdminOrder, orderAddress } from './order-parts.ts'
import { selectionBar } from './order-selection.ts'
import { poll } from './poll.ts'
import type { ScreenContext } from './screen.ts'
import { stateBadge } from './state-badge.ts'

const POLL_SECONDS = 10
const PAGE_SIZE = 50

/** The list of orders with its filters; the newest page keeps itself up to date. */
export function showOrderList(root: HTMLElement, context: ScreenContext): void {
  const { signal, may, report, tell } = context
  const canMove = may('orders:move')
  let filters = readFilters(context.parameters)
  let orders = new LoadedOrders(false)
  let polling = new AbortController()

  const count = create('p', { class: 'muted', attributes: { role: 'status' } })
  const columns = [...(canMove ? ['Select'] : []), 'Number', 'Placed', 'Status', { number: 'Total' }, 'Items', 'For']
  const rows = keyedTable<AdminOrder>('Orders', columns, { keyOf: ({ id }) => id, cellsOf: cells })
  const older = create('button', { type: 'button' }, 'Older orders')
  const selection = selectionBar({ orders: () => orders, signal, onSelect: show, onMoved: refresh, report, tell })
  root.append(
    create('h2', {}, 'Orders'),
    ...(may('customers:read') ? [create('p', { class: 'actions' }, create('a', { href: '#orders?customers=1' }, 'Customers'))] : []),
    filterForm(filters, { onChange: search, report }),
    ...(canMove ? [selection.element] : []),
    rows.element,
    create('div', { class: 'actions' }, older, count),
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
      create('a', { href: orderAddress(order.id, filters) }, order.number),
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
    orders = new LoadedOrders(filters.has('from') || filters.has('to'))
    rows.show([])
    refresh()
  }

  /** Asks for the newest page now, and from now on. */
  function refresh(): void {
    polling.abort()
    polling = new AbortController()
    const current = polling
    poll<Schemas['AdminOrderPage']>(path(), {
      seconds: POLL_SECONDS,
      signal: AbortSignal.any([signal, current.signal]),
      onChange: (page) => {
        orders.addNewest(page)
        show()
      },
      onError: (error) => {
        report(error)
        // Filters that are refused are refused again.
        if (error instanceof Refusal && error.problem.status === 400) current.abort()
      },
    })
  }

  function path(cursor?: string): string {
    return withQuery('/admin/orders', { ...Object.fromEntries(filters), limit: PAGE_SIZE, cursor })
  }

  older.addEventListener('click', async () => {
    const { cursor } = orders
    const loading = orders
    if (cursor === null || older.disabled) return
    older.disabled = true
    try {
      loading.addOlder(await call<Schemas['AdminOrderPage']>('GET', path(cursor), { signal }))
      if (loading === orders) show()
    } catch (error) {
      report(error)
    } finally {
      older.disabled = false
    }
  })
  start()
}
