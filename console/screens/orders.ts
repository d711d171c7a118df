import { ORDER_STATUSES, type OrderStatus, ruleOf } from '../../src/orders/order-status.ts'
import { addressOf } from '../kit/address.ts'
import { api, type Schemas } from '../kit/api.ts'
import { follow } from '../kit/follow.ts'
import { type Content, html, menu, money, nothing, time } from '../kit/html.ts'
import { capitalized, numberText, plural, t, word } from '../kit/language.ts'
import { type Filter, type List, resourceList, type Tab } from '../kit/resource-list.ts'
import type { Screen, ScreenContext } from '../kit/screen.ts'
import { openMoveOfMany } from './move-many.ts'
import { openNewOrder } from './new-order.ts'
import { orderView, rememberListed } from './order.ts'
import { exportOrders } from './order-export.ts'
import { fulfilmentBadge, type Order, paymentBadge } from './order-parts.ts'
import { findProductId, findSku } from './order-products.ts'
import { packingSlips } from './order-slips.ts'
import { orderNumberFilter } from './parts.ts'
import { openShipMany } from './ship-many.ts'

type Counts = Schemas['OrdersToDo']

const SECONDS = 10
const COUNT_SECONDS = 30
/** The API counts up to this number. */
const MOST_COUNTED = 1_000

/** `#orders` lists orders, and `?order=ID` shows one. */
export const orders: Screen = {
  title: t`Orders`,
  scopes: ['orders:read'],
  open(context) {
    const id = context.parameters.get('order')
    return id === null ? orderList(context) : orderView(id, context)
  },
}

/** The tabs for work that waits come first and have a count. */
function tabsOf(counts: () => Counts | null): Tab[] {
  const countOf = (what: string) => () => {
    const count = counts()?.[what as keyof Counts]?.count
    return count === undefined ? undefined : `${numberText(count)}${count < MOST_COUNTED ? '' : '+'}`
  }
  const tabOf = (status: OrderStatus): Tab => {
    const { phase, next } = ruleOf(status)
    const [step] = next
    if (phase !== 'open' || step === undefined) return { title: capitalized(word(status)), filters: { status } }
    const { action } = ruleOf(step)
    return { title: t`To ${word(action)}`, filters: { status }, count: countOf(`to_${action}`) }
  }
  const waits = ORDER_STATUSES.filter((status) => ruleOf(status).phase === 'open')
  return [
    { title: t`All`, filters: {} },
    ...waits.map(tabOf),
    { title: t`Unpaid`, filters: { unpaid: 'true' }, count: countOf('unpaid') },
    ...ORDER_STATUSES.filter((status) => !waits.includes(status)).map(tabOf),
  ]
}

function orderList(context: ScreenContext): () => Content {
  const { parameters, may, update } = context
  const counts = follow<Counts>(context, (init) => api.GET('/admin/to-do/orders', init), { seconds: COUNT_SECONDS })
  counts.refresh()
  const slips = packingSlips(context)
  const skus = new Map<string, string>()
  const product = parameters.get('product_id')
  if (product !== null) {
    void findSku(product).then(
      (sku) => {
        if (sku !== undefined) skus.set(product, sku)
        update()
      },
      // The chip keeps the id.
      () => {},
    )
  }
  const filters: Filter[] = [
    orderNumberFilter(t`Number`),
    { name: 'email', label: t`E-mail` },
    { name: 'product_id', label: t`Product (SKU or id)`, resolve: findProductId, text: (id) => skus.get(id) },
    { name: 'user_id', label: t`Customer (id)` },
    { name: 'from', label: t`Placed from`, kind: 'time' },
    { name: 'to', label: t`Placed before`, kind: 'time' },
  ]
  const given = Object.fromEntries(parameters)
  const list: List<Order> = resourceList<Order>(
    {
      title: t`Orders`,
      screen: 'orders',
      seconds: SECONDS,
      ask: (query, init) => api.GET('/admin/orders', { ...init, params: { query } }),
      keyOf: ({ id }) => id,
      hrefOf: ({ id }) => addressOf('orders', { ...given, order: id }),
      search: t`Number, name, phone, e-mail, postal code, tracking, reference, product`,
      tabs: tabsOf(counts),
      filters,
      columns: [
        { title: t`Number`, cell: ({ number }) => number },
        { title: t`Placed`, cell: ({ created_at }) => time(created_at) },
        { title: t`For`, cell: recipient },
        { title: t`Payment`, cell: paymentBadge },
        { title: t`Fulfilment`, cell: fulfilmentBadge },
        { title: t`Total`, number: true, cell: ({ total }) => money(total) },
        { title: t`Items`, cell: itemsText },
      ],
      words: {
        count: (count) => plural(count, t`${count} order`, t`${count} orders`),
        none: t`No orders yet: they are listed when customers place them.`,
        noMatch: t`No order matches.`,
      },
      selection: { nameOf: ({ number }) => t`order ${number}`, actions: (chosen) => actions(chosen) },
      savesViews: true,
      actions: () =>
        may('orders:place') ? html`<button type="button" @click=${() => openNewOrder(context)}>New order…</button>` : nothing,
    },
    context,
  )

  const onEnd = (refused: readonly Order[]) => {
    list.choose(refused)
    list.refresh()
    counts.refresh()
  }
  const moveAll = (able: readonly Order[], to: OrderStatus) =>
    ruleOf(to).moves === 'shipped' ? openShipMany(able, to, context, onEnd) : openMoveOfMany(able, to, context, onEnd)
  const actions = (chosen: readonly Order[]) => {
    const moves = !may('orders:move')
      ? []
      : ORDER_STATUSES.map((to) => ({ to, able: chosen.filter(({ allowed_transitions: next }) => next.includes(to)) }))
    const button = ({ to, able }: (typeof moves)[number]) => {
      const { phase, action } = ruleOf(to)
      const some = able.length === chosen.length ? '' : t` (${able.length} of ${chosen.length})`
      const kind = phase === 'ended' ? 'danger' : ''
      return html`<button type="button" class=${kind} @click=${() => moveAll(able, to)}>${capitalized(word(action))}${some}…</button>`
    }
    const possible = moves.filter(({ able }) => able.length > 0)
    const ending = possible.filter(({ to }) => ruleOf(to).phase === 'ended')
    return html`
      ${possible.filter((each) => !ending.includes(each)).map(button)}
      <button type="button" @click=${() => slips.print(chosen)}>Print slips</button>
      <button type="button" @click=${() => exportOrders(chosen)}>Export CSV</button>
      ${ending.length === 0 ? nothing : menu(t`More`, ...ending.map(button))}`
  }

  return () => {
    rememberListed(list.items().map(({ id }) => id))
    return html`${list()}${slips()}`
  }
}

function recipient({ shipping_address: to, email }: Order): Content {
  const place = [to?.city, to?.country].filter(Boolean).join(', ')
  return html`${to?.name ?? '–'}${email || place ? html`<small class="muted">${email ?? place}</small>` : nothing}`
}

function itemsText({ items: [first, ...others] }: Order): string {
  if (first === undefined) return '–'
  const text = `${first.quantity} × ${first.name}`
  return others.length === 0 ? text : t`${text} and ${others.length} more`
}
