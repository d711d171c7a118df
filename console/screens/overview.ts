import { amountFormatter } from '../../client/src/currency.ts'
import { addressOf } from '../kit/address.ts'
import { api, type Schemas, type Scope } from '../kit/api.ts'
import { follow } from '../kit/follow.ts'
import { badge, type Content, card, html, money, note, nothing, picture, table, time } from '../kit/html.ts'
import { locale, numberText, plural, t, word } from '../kit/language.ts'
import { createPlot } from '../kit/plot.ts'
import type { Screen, ScreenContext } from '../kit/screen.ts'
import { agoText, durationText } from '../kit/times.ts'
import { orderAddress, stateBadge, sumsText } from './parts.ts'
import { stateOfSubscriber } from './subscriber-state.ts'

type Figures = Schemas['Figures']
type Sales = Figures['sales'][number]
type Order = Schemas['AdminOrder']
type BestSeller = Figures['best_sellers'][number]
type LowStock = Figures['low_stock'][number]

const SECONDS = 10
const ORDERS = 8
/** The store counts waiting work up to this number. */
const MOST_COUNTED = 1_000
/** Today's figures have steps of ten minutes, and a bar has an hour. */
const STEPS_OF_TODAY = 6

const RANGES = {
  today: [t`Today`, t`yesterday until now`, t`hour`],
  yesterday: [t`Yesterday`, t`the day before`, t`hour`],
  '7_days': [t`${7} days`, t`the 7 days before`, t`day`],
  '30_days': [t`${30} days`, t`the 30 days before`, t`day`],
} as const
type Range = keyof typeof RANGES

/** The state of the shop, and the work that waits for a person. The address has the `range`. */
export const overview: Screen = {
  title: t`Overview`,
  scopes: ['figures:read', 'orders:read', 'mails:read', 'stock:read'],
  open(context) {
    const { parameters, may } = context
    const names = Object.keys(RANGES) as Range[]
    const range = names.find((name) => name === parameters.get('range')) ?? 'today'
    /** Follows an answer of the store if the role has the scope. */
    const followed = <T>(scope: Scope, ask: Parameters<typeof follow<T>>[1]) => {
      const one = follow<T>(context, ask, { seconds: SECONDS })
      if (may(scope)) one.refresh()
      return one
    }
    const figures = followed('figures:read', (init) => api.GET('/admin/figures', { ...init, params: { query: { range } } }))
    const orders = followed('orders:read', (init) => api.GET('/admin/orders', { ...init, params: { query: { limit: ORDERS } } }))
    const pipeline = followed('pipeline:read', (init) => api.GET('/admin/pipeline', init))
    const ordersToDo = followed('orders:read', (init) => api.GET('/admin/to-do/orders', init))
    const mailsToDo = followed('mails:read', (init) => api.GET('/admin/to-do/mails', init))
    const stockToDo = followed('stock:read', (init) => api.GET('/admin/to-do/stock', init))
    const plots = revenuePlots(range)
    const ranges = html`<nav class="tabs" aria-label="Range">${names.map(
      (name) =>
        html`<a href=${addressOf('overview', { range: name })} aria-current=${name === range ? 'true' : nothing}>${RANGES[name][0]}</a>`,
    )}</nav>`
    const sold = (shown: Figures) => html`${tiles(shown, range)}
      <div class="columns"><div>${plots(shown)}</div>${bestSellers(shown, context)}</div>`
    return () => {
      const shown = figures()
      return html`<div class="title"><h2>Overview</h2></div>${may('figures:read') ? ranges : nothing}
        <div class="overview">
          ${toDo({ orders: ordersToDo(), mails: mailsToDo(), stock: stockToDo() })}
          ${may('figures:read') ? figures.show(sold) : nothing}
          <div class="columns">
            ${may('orders:read') ? card(t`Newest orders`, orders.show(newestOrders)) : nothing}${shown === null ? nothing : lowStock(shown, context)}
          </div>
          ${shown === null ? nothing : note(ageOf(shown))}${health(pipeline())}
        </div>`
    }
  },
}

function ageOf({ generated_at, time_zone }: Figures): Content {
  if (generated_at === null) return t`No figures have been collected yet. The store collects them once a minute.`
  return html`Collected ${time(generated_at)}, in the time of ${time_zone}. Best sellers count what was ordered.`
}

/** The change from the previous period in percent. */
function change(now: number, before: number): string {
  if (before === 0) return now === 0 ? t`as before` : t`none before`
  const percent = Math.round((now / before - 1) * 100)
  return percent === 0 ? t`as before` : `${percent > 0 ? '▲ +' : '▼ −'}${numberText(Math.abs(percent))} %`
}

type Money = Schemas['Money']

/** The change in each currency. Amounts of different currencies cannot be added. */
function changes(now: readonly Money[], before: readonly Money[]): string {
  const amountIn = (sums: readonly Money[], currency: string) => sums.find((sum) => sum.currency === currency)?.amount ?? 0
  const currencies = [...new Set([...now, ...before].map(({ currency }) => currency))]
  if (currencies.length === 0) return change(0, 0)
  const changeIn = (currency: string) => change(amountIn(now, currency), amountIn(before, currency))
  return currencies.map((currency) => (currencies.length === 1 ? changeIn(currency) : `${currency} ${changeIn(currency)}`)).join(', ')
}

/** The average value of all placed orders in each currency, in minor units. */
function averages(sales: readonly Sales[]): Money[] {
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)
  return sales.map(({ currency, orders, revenue }) => ({ amount: Math.round(sum(revenue) / Math.max(1, sum(orders))), currency }))
}

const REVENUE_HINT = t`Of all orders that were placed. Below it is what they are worth now, without what was cancelled, returned or refunded. It has no change in percent, because orders of the period before had longer for that.`
const RETURNS_HINT = t`Orders of this time that are returned now as a whole. The period before had longer for returns, so they are not compared.`

function tiles({ totals, before, sales, from, filled_from }: Figures, range: Range): Content {
  const tile = (title: string, text: string, below: Content, hint: string) => html`<section class="card tile" title=${hint}>
    <h3>${title}</h3><p class="figure">${text}</p><p class="muted">${below}</p></section>`
  const compared = (changed: string, was: string): Content =>
    filled_from === null ? html`${changed} <small>against ${was}</small>` : t`compared when all is counted`
  const sums = (of: readonly Money[], was: readonly Money[]) => compared(changes(of, was), sumsText(was))
  const net = html`<br>${sumsText(totals.net_revenue)} now`
  const isPart = filled_from !== null && filled_from > from
  return html`<div class="tiles" role="region" aria-label=${t`Figures, compared with ${RANGES[range][1]}`}>
    ${tile(t`Revenue`, sumsText(totals.revenue), html`${sums(totals.revenue, before.totals.revenue)}${net}`, REVENUE_HINT)}
    ${tile(t`Orders`, numberText(totals.orders), compared(change(totals.orders, before.totals.orders), numberText(before.totals.orders)), t`All that were placed`)}
    ${tile(t`Average order`, sumsText(averages(sales)), sums(averages(sales), averages(before.sales)), t`Revenue by orders that were placed`)}
    ${tile(t`Returns`, numberText(totals.returned), t`until now`, RETURNS_HINT)}</div>
    ${
      filled_from === null
        ? note(t`Compared with ${RANGES[range][1]}. Revenue is that of all orders that were placed, and below it what they are worth now.`)
        : note(
            isPart
              ? html`The store still counts the orders before ${time(filled_from)}, which are missing here.`
              : html`The store still counts the orders before ${time(filled_from)}.`,
          )
    }`
}

interface Waiting {
  orders: Schemas['OrdersToDo'] | null
  mails: Schemas['MailsToDo'] | null
  stock: Schemas['StockToDo'] | null
}

function toDo({ orders, mails, stock }: Waiting): Content {
  const item = (address: string, count: number, words: string, oldest: string | null = null) => {
    const text = html`<strong>${numberText(count)}${count >= MOST_COUNTED ? '+' : ''}</strong> ${words}${
      oldest === null
        ? nothing
        : html`<br><small class="muted">the oldest waits for ${durationText(Date.now() - Date.parse(oldest))}</small>`
    }`
    return html`<li class=${count === 0 ? 'muted' : ''}><a href=${address}>${text}</a></li>`
  }
  const toOrders = (filter: Record<string, string>, { count, oldest_at }: Schemas['WaitingOrders'], words: string) =>
    item(addressOf('orders', filter), count, words, oldest_at)
  const failed = mails?.failed ?? 0
  const items = [
    ...(orders === null
      ? []
      : [
          toOrders({ status: 'pending' }, orders.to_confirm, t`to confirm`),
          toOrders({ status: 'confirmed' }, orders.to_ship, t`to ship`),
          toOrders({ unpaid: 'true' }, orders.unpaid, t`unpaid`),
        ]),
    ...(mails === null ? [] : [item(addressOf('mails', { status: 'failed' }), failed, plural(failed, t`mail failed`, t`mails failed`))]),
    ...(stock === null ? [] : [item(addressOf('products', { in_stock: 'false' }), stock.sold_out, t`sold out`)]),
  ]
  return items.length === 0 ? nothing : card(t`To do`, html`<ul class="to-do">${items}</ul>`, { wide: true })
}

/** Revenue by hour or day as bars, and the previous period as a line. There is one plot per currency. */
function revenuePlots(range: Range): (figures: Figures) => Content {
  const known = new Map<string, ReturnType<typeof createPlot>>()
  const [title, before, step] = RANGES[range]
  const plotOf = (currency: string) => {
    const plot =
      known.get(currency) ??
      createPlot({
        title: t`Revenue in ${currency} by ${step}`,
        emptyText: t`No order was placed.`,
        format: amountFormatter(currency, locale),
        shape: 'bars',
      })
    known.set(currency, plot)
    return plot
  }
  let last: Figures | null = null
  let shown: Content = nothing
  return (figures) => {
    if (figures === last) return shown
    last = figures
    const size = range === 'today' ? STEPS_OF_TODAY : 1
    const x = figures.times.filter((_, index) => index % size === 0).map((instant) => Date.parse(instant) / 1_000)
    const grouped = (values: readonly number[]) =>
      x.map((_, index) => values.slice(index * size, (index + 1) * size).reduce((sum, value) => sum + value, 0))
    const revenueOf = (sales: Figures['sales'], currency: string) => grouped(sales.find((of) => of.currency === currency)?.revenue ?? [])
    const currencies = [...new Set([...figures.sales, ...figures.before.sales].map(({ currency }) => currency))]
    const plots = currencies.map((currency) => {
      const series = [
        { label: title, values: revenueOf(figures.sales, currency) },
        { label: before, values: revenueOf(figures.before.sales, currency), shape: 'lines' as const },
      ]
      return card(t`Revenue in ${currency} by ${step}`, plotOf(currency)({ x, series }))
    })
    shown = plots.length === 0 ? card(t`Revenue`, note(t`No order was placed, neither in this time nor in ${before}.`)) : plots
    return shown
  }
}

function productCell(
  { may }: ScreenContext,
  { product_id, name, image_url }: Pick<BestSeller, 'product_id' | 'name'> & { image_url?: string | null },
): Content {
  const text = name ?? t`a product that no longer exists`
  return html`<span class="pictured">${image_url === undefined ? nothing : picture(image_url)}
    ${name !== null && may('stock:read') ? html`<a href=${addressOf('products', { product: product_id })}>${text}</a>` : text}</span>`
}

function bestSellers({ best_sellers: sold }: Figures, context: ScreenContext): Content {
  const columns = [
    { title: t`Product`, cell: (product: BestSeller) => productCell(context, product) },
    { title: t`Sold`, number: true, cell: ({ quantity }: BestSeller) => numberText(quantity) },
    { title: t`Revenue`, number: true, cell: ({ revenue }: BestSeller) => sumsText(revenue) },
  ]
  return card(
    t`Best sellers`,
    sold.length === 0 ? note(t`Nothing was sold in this time.`) : table(t`Best sellers`, columns, sold, ({ product_id }) => product_id),
  )
}

function newestOrders({ data }: Schemas['AdminOrderPage']): Content {
  const columns = [
    { title: t`Number`, cell: ({ id, number }: Order) => html`<a href=${orderAddress(id)}>${number}</a>` },
    { title: t`When`, cell: ({ created_at }: Order) => time(created_at) },
    { title: t`Status`, cell: ({ status }: Order) => stateBadge(status) },
    { title: t`Total`, number: true, cell: ({ total }: Order) => money(total) },
  ]
  if (data.length === 0) return note(t`No orders yet.`)
  return html`${table(t`Newest orders`, columns, data, ({ id }) => id)}<p><a href="#orders">All orders</a></p>`
}

function lowStock({ low_stock: low }: Figures, context: ScreenContext): Content {
  const columns = [
    { title: t`Product`, cell: (product: LowStock) => productCell(context, product) },
    {
      title: t`Available`,
      number: true,
      cell: ({ available }: LowStock) => (available === 0 ? badge(t`sold out`, 'bad') : numberText(available)),
    },
    { title: t`At the pace of 7 days`, cell: lastsText },
  ]
  return card(
    t`Stock running out`,
    low.length === 0
      ? note(t`The store tracks the stock of no product.`)
      : table(t`Stock running out`, columns, low, ({ product_id }) => product_id),
  )
}

function lastsText({ available, sold_7_days: sold }: LowStock): string {
  if (available === 0) return '–'
  if (sold === 0) return t`none sold`
  const days = Math.floor((available * 7) / sold)
  return days === 0 ? t`lasts less than a day` : plural(days, t`lasts ${days} day`, t`lasts ${days} days`)
}

/** A line about the pipeline, which is red when something is wrong. */
function health(pipeline: Schemas['Pipeline'] | null): Content {
  if (pipeline === null) return nothing
  const { slot, subscribers, dead_letters, last_verify, unavailable } = pipeline
  const waiting = Math.max(0, ...(subscribers ?? []).map(({ lag_events }) => lag_events ?? 0))
  const newest = last_verify?.finished_at ?? null
  const faults = [
    ...unavailable.map(({ part }) => t`${word(part)} cannot be read`),
    ...(slot !== null && (!slot.is_active || slot.lost_reason !== null) ? [t`no new event is published`] : []),
    ...(subscribers ?? [])
      .filter((subscriber) => ['failing', 'absent'].includes(stateOfSubscriber(subscriber)))
      .map(({ name }) => t`${word(name)} does not keep up`),
    ...(dead_letters !== null && dead_letters.count > 0 ? [t`${dead_letters.count} to repair`] : []),
    ...(last_verify?.status === 'faults' ? [t`the last verify found faults`] : []),
  ]
  const well = [
    waiting === 0 ? t`all delivered` : plural(waiting, t`${waiting} event waits`, t`${waiting} events wait`),
    ...(newest === null ? [] : [t`verified ${agoText(newest)}`]),
  ].join(', ')
  return html`<p class="health">${faults.length === 0 ? badge(t`well`, 'good') : badge(t`not well`, 'bad')}
    ${faults.length === 0 ? well : html`<span class="error">${faults.join('; ')}</span>`} <a href="#pipeline">Pipeline</a></p>`
}
