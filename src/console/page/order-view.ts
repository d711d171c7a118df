import { pathOf, Refusal, type Schemas } from './api.ts'
import { changesFoldOut } from './changes.ts'
import { button, create, replaceChildren } from './dom.ts'
import { openMoveDialog } from './move-dialog.ts'
import { changeOrder, Overtaken } from './move-orders.ts'
import { orderCharges } from './order-charges.ts'
import { customerLinks, orderAttributes, orderCustomer } from './order-customer.ts'
import { readFilters } from './order-filters.ts'
import { orderHistory } from './order-history.ts'
import { orderLines, orderParcels } from './order-lines.ts'
import { orderNotes } from './order-notes.ts'
import type { OrderStatus } from './order-parts.ts'
import { timeline } from './order-timeline.ts'
import { openPartDialog, type PartMove, partMovesOf } from './part-dialog.ts'
import { poll } from './poll.ts'
import type { ScreenContext } from './screen.ts'
import { stateBadge } from './state-badge.ts'

type Order = Schemas['AdminOrderDetail']

const POLL_SECONDS = 3

/** One order with what the pipeline did for it, and its moves. It keeps itself up to date. */
export function showOrder(root: HTMLElement, orderId: string, context: ScreenContext): void {
  const { parameters, signal, may, names, report, tell } = context
  const filters = readFilters(parameters)
  let polling = new AbortController()
  let shown = ''
  let links: HTMLElement | null = null
  const title = create('h2', {}, 'Orders')
  const head = create('div', { class: 'actions' })
  const content = create('div', { class: 'cards' })
  const events = timeline(orderId, context)
  const charges = orderCharges(orderId, { ...context, onChange: () => refresh() })
  replaceChildren(
    root,
    create('a', { href: filters.size === 0 ? '#orders' : `#orders?${filters}` }, '← All orders'),
    title,
    head,
    content,
    create('div', { class: 'cards' }, charges.element, orderNotes(orderId, context)),
    events.element,
    changesFoldOut({ type: 'order', id: orderId }, context),
  )

  function show(order: Order): void {
    const { timeline: entries, ...rest } = order
    events.show(entries)
    const text = JSON.stringify(rest)
    if (text === shown) return
    shown = text
    title.textContent = `Orders: ${order.number}`
    const focused = head.contains(document.activeElement) ? document.activeElement?.textContent : null
    const buttons = may('orders:move')
      ? [...partMovesOf(order).map((move) => partButton(order, move)), ...order.allowed_transitions.map((to) => moveButton(order, to))]
      : []
    replaceChildren(head, stateBadge(order.status), create('span', { class: 'muted' }, `version ${order.version}`), ...buttons)
    buttons.find(({ textContent }) => textContent === focused)?.focus()
    links ??= customerLinks(order.user_id, context)
    replaceChildren(
      content,
      orderLines(order),
      orderParcels(order),
      orderCustomer(order, links),
      orderAttributes(order),
      orderHistory(order, names),
    )
    charges.show(order)
  }

  function moveButton(order: Order, to: OrderStatus): HTMLButtonElement {
    const title = `Move order ${order.number} to ${to}`
    const onMove = (transition: object) => change(order, 'transitions', transition, `moved to ${to}`, '')
    return button(`Move to ${to}…`, () => openMoveDialog({ title, to, hasTracking: true, signal, onMove }))
  }

  function partButton(order: Order, move: PartMove): HTMLButtonElement {
    const onMove = (body: object, count: number) =>
      change(order, move.path, body, `${move.done} in part`, ` ${count === 1 ? '1 unit was' : `${count} units were`} ${move.done}.`)
    return button(`${move.title}…`, () => openPartDialog(order, move, { signal, onMove }))
  }

  async function change(order: Order, path: 'transitions' | PartMove['path'], body: object, done: string, news: string): Promise<void> {
    try {
      const changed = await changeOrder(order, path, body, done)
      tell(`Order ${changed.number} is ${changed.status}.${news}`)
    } catch (error) {
      if (!(error instanceof Overtaken)) throw error
      report(error)
    }
    refresh()
  }

  function refresh(): void {
    polling.abort()
    polling = new AbortController()
    const stopped = AbortSignal.any([signal, polling.signal])
    poll<Order>(pathOf`/admin/orders/${orderId}`, { seconds: POLL_SECONDS, signal: stopped, onChange: show, onError: fail })
  }

  function fail(error: Error | null): void {
    report(error)
    // The order does not exist, and never will.
    if (error instanceof Refusal && [400, 404].includes(error.problem.status)) polling.abort()
  }
  refresh()
}
