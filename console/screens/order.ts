import { type OrderStatus, type PartMove, ruleOf } from '../../src/orders/order-status.ts'
import { addressOf } from '../kit/address.ts'
import { api, type Schemas } from '../kit/api.ts'
import { follow } from '../kit/follow.ts'
import { type Content, card, html, menu, money, nothing, picture, table, time } from '../kit/html.ts'
import { capitalized, t, word } from '../kit/language.ts'
import type { ScreenContext } from '../kit/screen.ts'
import { changes } from './changes.ts'
import { openAmendDialog } from './order-amend.ts'
import { attemptsAt, changeOrder } from './order-changes.ts'
import { orderCharges } from './order-charges.ts'
import { orderCustomer } from './order-customer.ts'
import { openMoveDialog, openPartDialog } from './order-dialogs.ts'
import {
  attributeTexts,
  canMovePart,
  countLeft,
  countText,
  fulfilmentBadge,
  type Order,
  type OrderDetail,
  paymentBadge,
  trackingText,
  unitsText,
} from './order-parts.ts'
import { findPictures } from './order-products.ts'
import { packingSlips } from './order-slips.ts'
import { orderStory } from './order-story.ts'

const SECONDS = 3

/** An order: its next step, its products, its costs and its history. The view keeps itself up to date. */
export function orderView(orderId: string, context: ScreenContext): () => Content {
  const { signal, may, tell, update, title } = context
  const params = { path: { id: orderId } }
  let pictures: ReadonlyMap<string, string | null> | null = null
  const onChange = (next: OrderDetail) => {
    title(t`Order ${next.number}`)
    if (pictures === null) void loadPictures(next)
  }
  const ask = (init: object) => api.GET('/admin/orders/{id}', { ...init, params })
  const order = follow(context, ask, { seconds: SECONDS, onChange, endsAt: [400, 404] })
  const { refresh } = order
  async function loadPictures(of: Order): Promise<void> {
    pictures = new Map()
    // The products also have names, so missing images are no error.
    pictures = await findPictures(of).catch(() => new Map())
    update()
  }
  refresh()
  const slips = packingSlips(context)
  window.addEventListener('beforeprint', () => slips.set([order()].filter((shown) => shown !== null)), { signal })
  const charges = orderCharges(context, refresh)
  const customer = orderCustomer(context)
  const story = orderStory(orderId, context)
  const changed = changes({ type: 'order', id: orderId }, context)

  const move = (of: Order, to: OrderStatus) => {
    const attempts = attemptsAt(of, refresh)
    const onMove = (body: Schemas['Transition']) =>
      attempts.make(async (seen) => {
        const { number, status } = await changeOrder(seen, { path: 'transitions', body }, to)
        tell(t`Order ${number} is ${word(status)}.`)
      })
    openMoveDialog({ title: t`${capitalized(word(ruleOf(to).action))}: order ${of.number}`, to, signal, onMove })
  }
  const movePart = (of: Order, part: PartMove) => {
    const onDone = ({ number, status }: Order, news: string) => tell(t`Order ${number} is ${word(status)}. ${news}`)
    openPartDialog(attemptsAt(of, refresh), part, { signal, mayRefund: may('orders:adjust'), onDone })
  }
  const amend = (of: Order) => openAmendDialog(of, { signal, onDone: (amendment) => amended(of, amendment) })
  const amended = ({ version }: Order, { order: { number, version: now }, mails, stock, due }: Schemas['Amendment']) => {
    const owed = stock.length === 0 || due === null ? [] : [owedText(due)]
    const done = mails.length === 0 ? t`Order ${number} is amended.` : t`Order ${number} is amended, and a mail reports it.`
    tell(now === version ? t`Order ${number} was like that already.` : [done, ...owed].join(' '))
    refresh()
  }

  const button = (text: string, onClick: () => void, kind = '') =>
    html`<button type="button" class=${kind} @click=${onClick}>${text}…</button>`
  const actions = (of: Order) => {
    const targets = may('orders:move') ? of.allowed_transitions : []
    // The next step is a button, and moves that end the order are in the menu.
    const steps = targets.filter((to) => ruleOf(to).moves === null)
    const ending = targets.filter((to) => ruleOf(to).phase === 'ended' && ruleOf(to).moves !== 'returned')
    const canMove = (part: PartMove) => may('orders:move') && canMovePart(of, part)
    const canAmend = may('orders:amend') && ruleOf(of.status).phase !== 'ended'
    const more: Content[] = [
      html`<button type="button" @click=${() => slips.print([of])}>Print the packing slip</button>`,
      canAmend ? button(t`Amend`, () => amend(of)) : nothing,
      canMove('cancelled') ? button(t`Cancel units`, () => movePart(of, 'cancelled')) : nothing,
      ...ending.map((to) => button(capitalized(t`${word(ruleOf(to).action)} the order`), () => move(of, to), 'danger')),
    ]
    return html`
      ${canMove('shipped') ? button(t`Ship ${countText(countLeft(of, 'shipped'))}`, () => movePart(of, 'shipped'), 'primary') : nothing}
      ${steps.map((to) => button(capitalized(word(ruleOf(to).action)), () => move(of, to), 'primary'))}
      ${canMove('returned') ? button(returnText(of, may('orders:adjust')), () => movePart(of, 'returned')) : nothing}
      ${menu(t`More`, ...more)}`
  }
  const page = (shown: OrderDetail) => html`
    <div class="title"><h2>Order ${shown.number}</h2>
      <div class="actions">${paymentBadge(shown)} ${fulfilmentBadge(shown)} ${actions(shown)}</div>
    </div>
    <div class="order">
      <div>${pieces(shown, pictures)}${charges(shown)}${parcels(shown)}</div>
      <div class="aside">${customer(shown)}</div>
      <div>${story(shown)}${changed()}</div>
    </div>
    ${slips()}`

  const { order: _, event: __, ...list } = Object.fromEntries(context.parameters)
  return () => html`<nav class="back" aria-label="Orders">
      <a href=${addressOf('orders', list)}>← All orders</a>${neighbours(orderId, list)}
    </nav>
    ${order.show(page)}`
}

function returnText({ refundable }: Order, mayRefund: boolean): string {
  return mayRefund && refundable.length > 0 ? t`Return and refund` : t`Return`
}

function owedText({ amount, currency }: NonNullable<Schemas['Amendment']['due']>): string {
  if (amount === 0) return t`Nothing is owed.`
  const sum = money({ amount: Math.abs(amount), currency })
  return amount < 0 ? t`${sum} is to be paid back.` : t`${sum} is owed.`
}

/** The lines of an order, with the state of their units. */
function pieces({ items }: Order, pictures: ReadonlyMap<string, string | null> | null): Content {
  type Item = Schemas['OrderItem']
  return card(
    t`Units`,
    table<Item>(
      t`Units`,
      [
        {
          title: t`Product`,
          cell: ({ product_id, name, sku, ...item }) =>
            html`<div class="pictured">${picture(pictures?.get(product_id))}<div>
              <a href=${addressOf('products', { product: product_id })}>${name}</a><small class="muted">${sku}</small>${attributeTexts(item).map((text) => html`<small>${text}</small>`)}</div></div>`,
        },
        { title: t`Price`, number: true, cell: ({ unit_price }) => money(unit_price) },
        { title: t`Quantity`, number: true, cell: ({ quantity }) => quantity },
        { title: t`State`, cell: stateText },
        { title: t`Amount`, number: true, cell: ({ total }) => money(total) },
      ],
      items,
    ),
  )
}

/** The text of a line's state, such as `2 of 3 shipped, 1 returned`. */
function stateText({ quantity, shipped = 0, cancelled = 0, returned = 0 }: Schemas['OrderItem']): Content {
  const parts = [
    shipped > 0 ? t`${shipped} of ${quantity} shipped` : '',
    cancelled > 0 ? t`${cancelled} cancelled` : '',
    returned > 0 ? t`${returned} returned` : '',
  ].filter((part) => part !== '')
  return parts.length === 0 ? html`<span class="muted">–</span>` : parts.join(', ')
}

function parcels(order: Order): Content {
  if (order.parcels.length === 0) return nothing
  return card(
    t`Parcels`,
    html`<ol class="story">${order.parcels.map(
      ({ shipped_at, tracking, reference, lines }) =>
        html`<li>${time(shipped_at)}<div>${tracking === undefined ? t`No tracking` : trackingText(tracking)}
          <small>${unitsText(order, lines)}</small>${reference ? html`<small>Reference ${reference}</small>` : nothing}</div></li>`,
    )}</ol>`,
  )
}

/** The ids of the list from which the order was opened, in the sequence of the list. */
let listed: readonly string[] = []

export function rememberListed(ids: readonly string[]): void {
  listed = ids
}

/** Links to the previous and the next order of the list. */
function neighbours(orderId: string, list: Readonly<Record<string, string>>): Content {
  const at = listed.indexOf(orderId)
  const link = (id: string | undefined, text: string) =>
    at === -1 || id === undefined ? nothing : html`<a href=${addressOf('orders', { ...list, order: id })}>${text}</a>`
  return html`${link(listed[at - 1], t`↑ Previous order`)}${link(listed[at + 1], t`↓ Next order`)}`
}
