import { amountFormatter } from '../../client/src/currency.ts'
import { api, read, type Schemas } from '../kit/api.ts'
import { choice, field } from '../kit/form.ts'
import { type Content, html, loading, money, note, nothing } from '../kit/html.ts'
import { locale, t } from '../kit/language.ts'
import { createPlot, type PlotData } from '../kit/plot.ts'
import type { ScreenContext } from '../kit/screen.ts'

type Price = Schemas['ProductPrice']

const LIMIT = 100
const DAYS_MS = 30 * 86_400_000

/** A product's prices over time with their table, for one currency at a time, beginning with its own. */
export function priceHistory(id: string, { signal, report, update, act }: ScreenContext): { view: () => Content; load: () => void } {
  const plots = new Map<string, ReturnType<typeof createPlot>>()
  let page: Schemas['ProductPricePage'] | null = null
  let prices: readonly Price[] = []
  let data: PlotData = { x: [], series: [] }
  let chosen: string | null = null
  let requests = 0

  async function add(after: string | null): Promise<void> {
    const request = ++requests
    const query = { limit: LIMIT, ...(chosen === null ? {} : { currency: chosen }), ...(after === null ? {} : { cursor: after }) }
    const next = await read(api.GET('/admin/products/{id}/prices', { params: { path: { id }, query }, signal }))
    // The operator has chosen another currency since the request.
    if (request !== requests) return
    prices = after === null ? next.data : [...prices, ...next.data]
    page = next
    data = plotOf(prices)
    update()
  }
  const load = () => void add(null).catch((error: unknown) => signal.aborted || report(error))
  const drawn = (currency: string) => {
    const format = amountFormatter(currency, locale)
    const options = {
      title: t`Price in ${currency} over time`,
      emptyText: t`No price in ${currency} is recorded yet.`,
      format,
      shape: 'steps' as const,
    }
    const plot = plots.get(currency) ?? createPlot(options)
    plots.set(currency, plot)
    return plot(data)
  }
  const choose = (currency: string) => {
    chosen = currency
    load()
  }
  const view = () => {
    if (page === null) return loading()
    const { currency, currencies, next_cursor: cursor } = page
    const options = [...new Set([...currencies, currency])].sort()
    const lowest = lowestOfMonth(prices)
    return html`<section aria-label="Prices over time">
      ${options.length === 1 ? nothing : field(t`Currency`, choice({ name: '', onChange: choose }, options, currency))}
      ${lowest === null ? nothing : note(t`The lowest price of the last 30 days is ${money(lowest)}. A reduction that begins now must name it.`)}
      ${drawn(currency)}
      ${cursor === null ? nothing : html`<button type="button" @click=${act(() => add(cursor))}>Older prices</button>`}
    </section>`
  }
  return { view, load }
}

/** The current price is also drawn at the present time. */
function plotOf(prices: readonly Price[]): PlotData {
  const ascending = prices.toReversed()
  const newest = ascending.at(-1)
  if (newest === undefined) return { x: [], series: [] }
  const points = [...ascending.map((entry) => ({ at: Date.parse(entry.since), entry })), { at: Date.now(), entry: newest }]
  return {
    x: points.map(({ at }) => at / 1_000),
    series: [
      { label: t`Price`, values: points.map(({ entry }) => entry.price?.amount ?? null) },
      { label: t`Reduced from`, values: points.map(({ entry }) => entry.compare_at_price?.amount ?? null) },
    ],
  }
}

/** The lowest valid price of the last 30 days (Directive 98/6/EC, Article 6a). `prices` are newest first. */
function lowestOfMonth(prices: readonly Price[]): Schemas['Money'] | null {
  const begin = Date.now() - DAYS_MS
  const valid = prices.filter((_, index) => index === 0 || Date.parse(prices[index - 1]?.since ?? '') > begin)
  const amounts = valid.flatMap(({ price }) => (price === null ? [] : [price]))
  return amounts.toSorted((a, b) => a.amount - b.amount)[0] ?? null
}
