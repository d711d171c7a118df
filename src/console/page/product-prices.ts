import { amountFormatter } from '#currency'
import { call, pathOf, type Schemas, withQuery } from './api.ts'
import { create, note, replaceChildren } from './dom.ts'
import { choice, field } from './form.ts'
import { moreButton } from './paged-list.ts'
import { createPlot, type Plot } from './plots.ts'
import type { ScreenContext } from './screen.ts'

/** The prices of a product over time: a plot with its table, of one currency at a time, first that of its own price. */
export function priceHistory(
  productId: string,
  { signal, report }: Pick<ScreenContext, 'signal' | 'report'>,
): { element: HTMLElement; load: () => void } {
  const plots = new Map<string, Plot>()
  const currencies = create('div')
  const shown = create('div')
  const older = moreButton('Older prices', () => add(cursor), report)
  const element = create('section', { class: 'wide', attributes: { 'aria-label': 'Prices over time' } }, currencies, shown, older)
  let prices: Schemas['ProductPrice'][] = []
  let cursor: string | null = null
  /** What the operator has chosen. */
  let chosen: string | null = null
  let requests = 0

  function plotOf(currency: string): Plot {
    const known = plots.get(currency)
    if (known !== undefined) return known
    const format = amountFormatter(currency, navigator.language)
    const plot = createPlot({ title: `Price in ${currency} over time`, emptyText: '', format, isStepped: true, signal })
    plots.set(currency, plot)
    return plot
  }

  function show(currency: string): void {
    const ascending = prices.toReversed()
    const newest = ascending.at(-1)
    if (newest === undefined) {
      replaceChildren(shown, note(`No price in ${currency} is recorded yet.`))
      return
    }
    // The price of now is still one.
    const points = [...ascending.map((entry) => ({ at: Date.parse(entry.since), entry })), { at: Date.now(), entry: newest }]
    const plot = plotOf(currency)
    // A plot that stays keeps its open table, and the focus in it.
    if (plot.element.parentNode !== shown) replaceChildren(shown, plot.element)
    plot.update({
      x: points.map(({ at }) => at / 1_000),
      series: [
        { label: 'Price', values: points.map(({ entry }) => entry.price?.amount ?? null) },
        { label: 'Reduced from', values: points.map(({ entry }) => entry.compare_at_price?.amount ?? null) },
      ],
    })
  }

  function offer(all: readonly string[], currency: string): void {
    const options = [...new Set([...all, currency])].sort()
    const known = currencies.querySelector('select')
    if (options.length === 1) {
      replaceChildren(currencies)
      return
    }
    if (known !== null && options.join() === [...known.options].map(({ value }) => value).join()) {
      known.value = currency
      return
    }
    const select = choice({}, options, currency)
    select.addEventListener('change', () => {
      chosen = select.value
      void add(null)
    })
    replaceChildren(currencies, field('Currency', select))
  }

  async function add(after: string | null): Promise<void> {
    const request = ++requests
    try {
      const path = withQuery(pathOf`/admin/products/${productId}/prices`, { currency: chosen, limit: 100, cursor: after })
      const page = await call<Schemas['ProductPricePage']>('GET', path, { signal })
      // The operator has chosen another currency meanwhile.
      if (request !== requests) return
      prices = after === null ? page.data : [...prices, ...page.data]
      cursor = page.next_cursor
      older.hidden = cursor === null
      offer(page.currencies, page.currency)
      show(page.currency)
    } catch (error) {
      if (!signal.aborted) report(error)
    }
  }
  return { element, load: () => void add(null) }
}
