import { amountFormatter } from '#currency'
import type { Schemas } from './api.ts'
import { create } from './dom.ts'
import { createPlot, type Plot, type PlotSeries } from './plots.ts'

type Figures = Schemas['Figures']
type Values = readonly (number | null)[]

const MINUTE_SECONDS = 60
/** A rate of a shorter part of the last step would be noise. */
const LEAST_PART = 0.1
/** Up to a tebibyte. */
const POWERS_OF_TWO = Array.from({ length: 41 }, (_, exponent) => 2 ** exponent)
const STEP_NAMES = { hour: 'minute', day: 'ten minutes', week: 'hour' } as const

/** The plots of the overview. One for each currency appears with its first order. */
export function createOverviewPlots(
  range: Figures['range'],
  signal: AbortSignal,
): { element: HTMLElement; update(figures: Figures): void } {
  const element = create('div', { class: 'cards' })
  const noOrders = `No order was placed in the last ${range}.`
  const noRequests = 'No request has been counted yet. The store counts them once a minute.'
  const notMeasured = 'Nothing was measured yet: the store measures once a minute, where this part of it runs.'
  const add = (title: string, emptyText: string, format: (value: number) => string, gridSteps?: readonly number[]): Plot => {
    const plot = createPlot({ title, emptyText, format, signal, ...(gridSteps === undefined ? {} : { gridSteps }) })
    element.append(plot.element)
    return plot
  }
  const orders = add('Orders per minute', noOrders, rounded)
  const revenues = new Map<string, Plot>()
  const requests = add('Requests per second', noRequests, rounded)
  const p99 = add('Slowest requests (p99)', noRequests, (value) => `${rounded(value)} ms`)
  const errors = add('Errors per minute', noRequests, rounded)
  const stream = add('Change stream: log not yet read', notMeasured, bytes, POWERS_OF_TWO)
  const events = add('Events not yet read', notMeasured, rounded)
  const lake = add('Oldest event that is not in the lake', notMeasured, (value) => `${rounded(value)} s`)
  const queues = add('Mails and webhooks that wait', notMeasured, rounded)

  function revenueOf(currency: string): Plot {
    const known = revenues.get(currency)
    if (known !== undefined) return known
    const title = `Revenue in ${currency} per ${STEP_NAMES[range]}`
    const plot = createPlot({ title, emptyText: noOrders, format: amountFormatter(currency, navigator.language), signal })
    ;([...revenues.values()].at(-1) ?? orders).element.after(plot.element)
    revenues.set(currency, plot)
    return plot
  }

  return {
    element,
    update(figures) {
      const { sales, pipeline } = figures
      const x = figures.times.map((time) => Date.parse(time) / 1_000)
      const seconds = measuredSeconds(figures)
      const perSecond = (counts: readonly number[], unit = 1) => counts.map((count, step) => rate(count, seconds[step] ?? null, unit))
      const series = (...entries: [string, Values][]): PlotSeries[] => entries.map(([label, values]) => ({ label, values }))
      orders.update({ x, series: sales.map((of) => ({ label: of.currency, values: perSecond(of.orders, MINUTE_SECONDS) })) })
      for (const { currency, revenue } of sales) {
        const values = revenue.map((amount, step) => (seconds[step] === null ? null : amount))
        revenueOf(currency).update({ x, series: series([currency, values]) })
      }
      for (const [currency, plot] of revenues) {
        if (!sales.some((of) => of.currency === currency)) plot.update({ x, series: [] })
      }
      requests.update({ x, series: figures.requests.map((of) => ({ label: labelOf(of), values: perSecond(of.requests) })) })
      p99.update({ x, series: figures.requests.map((of) => ({ label: labelOf(of), values: of.p99_ms })) })
      const hasRequests = figures.requests.length > 0
      const client = perSecond(figures.client_errors, MINUTE_SECONDS)
      const server = perSecond(figures.server_errors, MINUTE_SECONDS)
      errors.update({ x, series: hasRequests ? series(['of clients (4xx)', client], ['of the store (5xx)', server]) : [] })
      stream.update({ x, series: series(['log', pipeline.change_stream_lag_bytes]) })
      events.update({
        x,
        series: series(['mails', pipeline.email_lag_events], ['webhooks', pipeline.webhook_lag_events], ['lake', pipeline.lake_lag_events]),
      })
      lake.update({ x, series: series(['age', pipeline.lake_delay_seconds]) })
      queues.update({ x, series: series(['mails', pipeline.mail_queue_length], ['webhooks', pipeline.webhook_queue_length]) })
    },
  }
}

function labelOf({ method, route }: Figures['requests'][number]): string {
  return route === null ? 'all others' : `${method} ${route === 'none' ? '(no such path)' : route}`
}

/** How much of each step the counts are of: the last one is not over. Null where that is too little. */
function measuredSeconds({ times, step_seconds, generated_at }: Figures): (number | null)[] {
  return times.map((time) => {
    if (generated_at === null) return null
    const passed = Math.min(step_seconds, (Date.parse(generated_at) - Date.parse(time)) / 1_000)
    return passed < step_seconds * LEAST_PART ? null : passed
  })
}

function rate(count: number, seconds: number | null, unit: number): number | null {
  return seconds === null ? null : (count / seconds) * unit
}

function rounded(value: number): string {
  return value.toLocaleString(undefined, value < 1_000 ? { maximumSignificantDigits: 3 } : { maximumFractionDigits: 0 })
}

function bytes(value: number): string {
  if (value < 1_024) return `${rounded(value)} B`
  return value < 1_048_576 ? `${rounded(value / 1_024)} KiB` : `${rounded(value / 1_048_576)} MiB`
}
