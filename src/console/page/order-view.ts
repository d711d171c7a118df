import { ruleOf } from '#order-status'
import { openAmendDialog } from './amend-dialog.ts'
import { call, pathOf, poll, restartable, type Schemas, send } from './api.ts'
import { changesFoldOut } from './changes.ts'
import { amountText, button, card, create, link, note, replaceChildren, timeElement } from './dom.ts'
import { field, sendForm } from './form.ts'
import { openMoveDialog } from './move-fields.ts'
import { changeOrder, Overtaken } from './move-orders.ts'
import { customerLinks, orderAttributes, orderCustomer, orderHistory, orderLines, orderParcels } from './order-cards.ts'
import { orderCharges } from './order-charges.ts'
import { readFilters } from './order-filters.ts'
import type { OrderStatus } from './order-parts.ts'
import { timeline } from './order-timeline.ts'
import { openPartDialog, type PartMove, partMovesOf } from './part-dialog.ts'
import type { ScreenContext } from './screen.ts'
import { stateBadge } from './state-badge.ts'

type Order = Schemas['AdminOrderDetail']

const POLL_SECONDS = 3

/** One order with what the pipeline did for it, and its moves. It keeps itself up to date. */
export function showOrder(root: HTMLElement, orderId: string, context: ScreenContext): void {
  const { parameters, signal, may, names, report, tell } = context
  const filters = readFilters(parameters)
  let shown = ''
  let links: HTMLElement | null = null
  const title = create('h2', {}, 'Orders')
  const head = create('div', { class: 'actions' })
  const content = create('div', { class: 'cards' })
  const events = timeline(orderId, context)
  const charges = orderCharges(orderId, { ...context, onChange: () => refresh() })
  replaceChildren(
    root,
    link(filters.size === 0 ? '#orders' : `#orders?${filters}`, '← All orders'),
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
    if (may('orders:amend') && ruleOf(order.status).phase !== 'ended') buttons.push(amendButton(order))
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

  function amendButton(order: Order): HTMLButtonElement {
    const onDone = ({ order: { number, version }, mails, stock, due }: Schemas['Amendment']) => {
      const owed = stock.length === 0 || due === null ? '' : ` ${owedText(due)}`
      const amended = mails.length === 0 ? 'is amended.' : 'is amended, and a mail reports it.'
      tell(version === order.version ? `Order ${number} was like that already.` : `Order ${number} ${amended}${owed}`)
      refresh()
    }
    return button('Amend…', () => openAmendDialog(order, { signal, onDone }))
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

  const refresh = restartable(signal, (until) => {
    const options = { seconds: POLL_SECONDS, signal: until, onChange: show, onError: report, endsAt: [400, 404] }
    void poll<Order>(pathOf`/admin/orders/${orderId}`, options)
  })
  refresh()
}

/** More are in the API, page by page. */
const SHOWN = 100

/** What operators have written about an order, newest first, and a form for another note. */
function orderNotes(
  orderId: string,
  { signal, may, names, report, tell }: Pick<ScreenContext, 'signal' | 'may' | 'names' | 'report' | 'tell'>,
): HTMLElement {
  const list = create('ol', { class: 'notes' })
  const text = create('textarea', { name: 'text', maxLength: 2_000, rows: 3, required: true })

  async function load(): Promise<void> {
    const page = await call<Schemas['OrderNotePage']>('GET', `${pathOf`/admin/orders/${orderId}/notes`}?limit=${SHOWN}`, { signal })
    const items = page.data.map((each) =>
      create('li', {}, timeElement(each.created_at), ' by ', names.actorElement(each.author), create('p', {}, each.text)),
    )
    replaceChildren(list, ...items, page.has_more ? create('li', {}, `Only the newest ${SHOWN} are shown.`) : null)
  }

  async function add(): Promise<void> {
    await send('POST', pathOf`/admin/orders/${orderId}/notes`, { body: { text: text.value } })
    text.value = ''
    tell('The note is saved.')
    await load()
  }

  load().catch(report)
  return card(
    'Notes',
    note('For operators only: the customer never sees them.'),
    may('orders:move') && sendForm({ submit: 'Add note', signal, onSubmit: add }, field('New note', text)),
    list,
  )
}

function owedText({ amount, currency }: NonNullable<Schemas['Amendment']['due']>): string {
  if (amount === 0) return 'Nothing is owed.'
  const money = amountText({ amount: Math.abs(amount), currency })
  return amount < 0 ? `${money} is to be paid back.` : `${money} is owed.`
}
