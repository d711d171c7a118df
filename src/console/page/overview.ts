import { amountFormatter } from '#currency'
import { poll, type Schemas, withQuery } from './api.ts'
import { amountText, badge, card, create, link, note, replaceChildren, table, timeElement } from './dom.ts'
import { createPlot, type Plot } from './plots.ts'
import type { Screen } from './screen.ts'

type Figures = Schemas['Figures']

const RANGES = { hour: 'Last hour', day: 'Last day', week: 'Last week', today: 'Today' } as const
const POLL_SECONDS = 10

export const overview: Screen = {
  title: 'Overview',
  scopes: ['figures:read'],
  open(root, { parameters, signal, report }) {
    const names = Object.keys(RANGES) as (keyof typeof RANGES)[]
    const range = names.find((name) => name === parameters.get('range')) ?? 'hour'
    const choice = create(
      'div',
      { class: 'ranges', attributes: { role: 'group', 'aria-label': 'Range' } },
      ...names.map((name) => link(`#overview?range=${name}`, RANGES[name], name === range && 'true')),
    )
    const collected = note('Loading …')
    const totals = create('dl', { class: 'totals' })
    const products = create('div', { class: 'lists' })
    const plots = createOverviewPlots(range, signal)
    root.append(create('h2', {}, 'Overview'), choice, collected, totals, plots.element, products)

    const show = (figures: Figures) => {
      replaceChildren(collected, ...ageOf(figures))
      replaceChildren(totals, ...totalsOf(figures))
      plots.update(figures)
      replaceChildren(products, bestSellers(figures), lowStock(figures))
    }
    poll(withQuery('/admin/figures', { range }), { seconds: POLL_SECONDS, signal, onChange: show, onError: report })
  },
}

function ageOf({ generated_at, time_zone }: Figures): (Node | string)[] {
  return generated_at === null
    ? ['No figures have been collected yet. The store collects them once a minute.']
    : [
        'Collected at ',
        timeElement(generated_at),
        `, once a minute, in the time of ${time_zone}. Orders, revenue and best sellers count what was ordered, also what was cancelled or returned later.`,
      ]
}

function totalsOf({ totals }: Figures): HTMLElement[] {
  const revenue = totals.revenue.map(amountText)
  const entries: [string, string][] = [
    ['Orders', totals.orders.toLocaleString()],
    ['Revenue', revenue.length === 0 ? '–' : revenue.join(' + ')],
  ]
  return entries.map(([name, value]) => create('div', {}, create('dt', {}, name), create('dd', {}, value)))
}

function bestSellers({ best_sellers, range }: Figures): HTMLElement {
  const rows = best_sellers.map(({ name, sku, quantity, revenue }) => [
    name ?? 'a product that no longer exists',
    sku ?? '–',
    quantity.toLocaleString(),
    revenue.map(amountText).join(' + '),
  ])
  return card(
    range === 'today' ? 'Best sellers of today' : `Best sellers of the last ${range}`,
    rows.length === 0 ? note(noOrders(range)) : table('Best sellers', ['Product', 'SKU', { number: 'Sold' }, { number: 'Revenue' }], rows),
  )
}

function lowStock({ low_stock }: Figures): HTMLElement {
  const rows = low_stock.map(({ name, sku, available }) => [
    name,
    sku,
    available === 0 ? badge('sold out', 'bad') : available.toLocaleString(),
  ])
  return card(
    'Stock running out',
    rows.length === 0
      ? note('The store tracks the stock of no product.')
      : table('Stock running out', ['Product', 'SKU', { number: 'Available' }], rows),
  )
}

const MINUTE_SECONDS = 60
/** A rate of a shorter part of the last step would be noise. */
const LEAST_PART = 0.1
const STEP_NAMES = { hour: 'minute', day: 'ten minutes', week: 'hour', today: 'ten minutes' } as const

/** The plots of the overview. One for each currency appears with its first order. */
function createOverviewPlots(range: Figures['range'], signal: AbortSignal): { element: HTMLElement; update(figures: Figures): void } {
  const element = create('div', { class: 'cards' })
  const emptyText = noOrders(range)
  const orders = createPlot({ title: 'Orders per minute', emptyText, format: rounded, signal })
  element.append(orders.element)
  const revenues = new Map<string, Plot>()

  function revenueOf(currency: string): Plot {
    const known = revenues.get(currency)
    if (known !== undefined) return known
    const title = `Revenue in ${currency} per ${STEP_NAMES[range]}`
    const plot = createPlot({ title, emptyText, format: amountFormatter(currency, navigator.language), signal })
    ;([...revenues.values()].at(-1) ?? orders).element.after(plot.element)
    revenues.set(currency, plot)
    return plot
  }

  return {
    element,
    update(figures) {
      const { sales } = figures
      const x = figures.times.map((time) => Date.parse(time) / 1_000)
      const seconds = measuredSeconds(figures)
      const perMinute = (counts: readonly number[]) => counts.map((count, step) => rate(count, seconds[step] ?? null))
      orders.update({ x, series: sales.map((of) => ({ label: of.currency, values: perMinute(of.orders) })) })
      for (const { currency, revenue } of sales) {
        const values = revenue.map((amount, step) => (seconds[step] === null ? null : amount))
        revenueOf(currency).update({ x, series: [{ label: currency, values }] })
      }
      for (const [currency, plot] of revenues) {
        if (!sales.some((of) => of.currency === currency)) plot.update({ x, series: [] })
      }
    },
  }
}

function noOrders(range: Figures['range']): string {
  return `No order was placed ${range === 'today' ? 'today' : `in the last ${range}`}.`
}

/** How much of each step the counts are of: the last one is not over. Null where that is too little. */
function measuredSeconds({ times, step_seconds, generated_at }: Figures): (number | null)[] {
  return times.map((time) => {
    if (generated_at === null) return null
    const passed = Math.min(step_seconds, (Date.parse(generated_at) - Date.parse(time)) / 1_000)
    return passed < step_seconds * LEAST_PART ? null : passed
  })
}

function rate(count: number, seconds: number | null): number | null {
  return seconds === null ? null : (count / seconds) * MINUTE_SECONDS
}

function rounded(value: number): string {
  return value.toLocaleString(undefined, value < 1_000 ? { maximumSignificantDigits: 3 } : { maximumFractionDigits: 0 })
}
