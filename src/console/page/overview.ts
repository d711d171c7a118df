import type { Schemas } from './api.ts'
import { withQuery } from './api.ts'
import { amountText, badge, create, note, replaceChildren, table, timeElement } from './dom.ts'
import { createOverviewPlots } from './overview-plots.ts'
import { poll } from './poll.ts'
import type { Screen } from './screen.ts'

type Figures = Schemas['Figures']

const RANGES = ['hour', 'day', 'week'] as const
const POLL_SECONDS = 10

export const overview: Screen = {
  title: 'Overview',
  scopes: ['figures:read'],
  open(root, { parameters, signal, report }) {
    const range = RANGES.find((name) => name === parameters.get('range')) ?? 'hour'
    const choice = create(
      'div',
      { class: 'ranges', attributes: { role: 'group', 'aria-label': 'Range' } },
      ...RANGES.map((name) =>
        create(
          'a',
          { href: `#overview?range=${name}`, ...(name === range ? { attributes: { 'aria-current': 'true' } } : {}) },
          `Last ${name}`,
        ),
      ),
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

function ageOf({ generated_at }: Figures): (Node | string)[] {
  return generated_at === null
    ? ['No figures have been collected yet. The store collects them once a minute.']
    : [
        'Collected at ',
        timeElement(generated_at),
        ', once a minute. Orders, revenue and best sellers count what was ordered, also what was cancelled or returned later.',
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
  return create(
    'section',
    { class: 'card' },
    create('h3', {}, `Best sellers of the last ${range}`),
    rows.length === 0
      ? note(`No order was placed in the last ${range}.`)
      : table('Best sellers', ['Product', 'SKU', { number: 'Sold' }, { number: 'Revenue' }], rows),
  )
}

function lowStock({ low_stock }: Figures): HTMLElement {
  const rows = low_stock.map(({ name, sku, available }) => [
    name,
    sku,
    available === 0 ? badge('sold out', 'bad') : available.toLocaleString(),
  ])
  return create(
    'section',
    { class: 'card' },
    create('h3', {}, 'Stock running out'),
    rows.length === 0
      ? note('The store tracks the stock of no product.')
      : table('Stock running out', ['Product', 'SKU', { number: 'Available' }], rows),
  )
}
