import { amountFormatter } from '#currency'
import type { Schemas } from './api.ts'
import { create } from './dom.ts'
import { createPlot, type Plot } from './plots.ts'

type Figures = Schemas['Figures']

const MINUTE_SECONDS = 60
/** A rate of a shorter part of the last step would be noise. */
const LEAST_PART = 0.1
const STEP_NAMES = { hour: 'minute', day: 'ten minutes', week: 'hour' } as const

/** The plots of the overview. One for each currency appears with its first order. */
export function createOverviewPlots(
  range: Figures['range'],
  signal: AbortSignal,
): { element: HTMLElement; update(figures: Figures): void } {
  const element = create('div', { class: 'cards' })
  const noOrders = `No order was placed in the last ${range}.`
  const orders = createPlot({ title: 'Orders per minute', emptyText: noOrders, format: rounded, signal })
  element.append(orders.element)
  const revenues = new Map<string, Plot>()

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
