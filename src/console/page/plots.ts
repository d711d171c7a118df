import uPlot from 'uplot'
import { create, replaceChildren, table } from './dom.ts'
import { timeText, timeZone } from './times.ts'

export interface PlotSeries {
  label: string
  /** One for each `x`; null leaves a gap. */
  values: readonly (number | null)[]
}

export interface PlotData {
  /** Seconds since 1970, ascending. */
  x: readonly number[]
  series: readonly PlotSeries[]
}

export interface PlotOptions {
  title: string
  /** Shown in place of the plot while there is no value at all. */
  emptyText: string
  /** A value as text, for the axis, the legend and the table. */
  format: (value: number) => string
  /** Whether a value holds until the next one; otherwise lines lead from one to the other. */
  isStepped?: boolean
  signal: AbortSignal
}

export interface Plot {
  element: HTMLElement
  /** Shows other data in the same place. */
  update(data: PlotData): void
}

const HEIGHT = 190
const COLOURS = 8
const DAY_SECONDS = 86_400
const DARK = matchMedia('(prefers-color-scheme: dark)')

/** A card with a plot, its legend, and the same figures as a table. It follows its width and the colours of the page until `signal`. */
export function createPlot({ title, emptyText, format, isStepped = false, signal }: PlotOptions): Plot {
  const canvas = create('div', { class: 'canvas', attributes: { role: 'img', 'aria-label': `Plot: ${title}` } })
  const legend = create('div', { class: 'legend' })
  const empty = create('p', { class: 'muted' }, emptyText)
  const rows = create('div')
  const details = create('details', {}, create('summary', {}, 'As a table', create('span', { class: 'hidden' }, `: ${title}`)), rows)
  const element = create('section', { class: 'card plot' }, create('h3', {}, title), empty, canvas, legend, details)
  let plot: uPlot | null = null
  let data: PlotData = { x: [], series: [] }

  function draw(): void {
    plot?.destroy()
    replaceChildren(legend)
    plot = new uPlot(optionsOf(data, canvas, legend, { format, isStepped }), alignedOf(data), canvas)
  }

  function showTable(): void {
    if (!details.open) return
    const fresh = tableOf(title, data, format)
    const [known] = rows.children
    // The scrolled region stays, with its focus.
    if (known === undefined) rows.append(fresh)
    else known.replaceChildren(...fresh.childNodes)
  }

  const resized = new ResizeObserver(() => {
    if (plot !== null && canvas.clientWidth > 0 && canvas.clientWidth !== plot.width)
      plot.setSize({ width: canvas.clientWidth, height: HEIGHT })
  })
  resized.observe(canvas)
  const recolour = () => {
    if (plot !== null) draw()
  }
  DARK.addEventListener('change', recolour, { signal })
  details.addEventListener('toggle', showTable)
  signal.addEventListener('abort', () => {
    resized.disconnect()
    plot?.destroy()
    plot = null
  })

  return {
    element,
    update(next) {
      const isSame =
        next.series.length === data.series.length && next.series.every(({ label }, index) => label === data.series[index]?.label)
      data = next
      const hasValues = data.series.some(({ values }) => values.some((value) => value !== null))
      empty.hidden = hasValues
      for (const part of [canvas, legend, details]) part.hidden = !hasValues
      if (!hasValues || signal.aborted) return
      if (plot !== null && isSame) plot.setData(alignedOf(data))
      else draw()
      showTable()
    },
  }
}

function alignedOf({ x, series }: PlotData): uPlot.AlignedData {
  return [[...x], ...series.map(({ values }) => [...values])]
}

function optionsOf(
  { x, series }: PlotData,
  canvas: HTMLElement,
  legend: HTMLElement,
  { format, isStepped }: Pick<PlotOptions, 'format'> & { isStepped: boolean },
): uPlot.Options {
  const muted = colourOf(canvas, '--muted')
  const grid = { stroke: colourOf(canvas, '--line'), width: 1 }
  const isLong = (x.at(-1) ?? 0) - (x[0] ?? 0) > 2 * DAY_SECONDS
  const short = new Intl.DateTimeFormat(undefined, {
    timeZone: timeZone(),
    ...(isLong ? ({ month: 'short', day: 'numeric' } as const) : ({ hour: '2-digit', minute: '2-digit' } as const)),
  })
  const stepped = isStepped ? uPlot.paths.stepped?.({ align: 1 }) : undefined
  const shared = { stroke: muted, grid, ticks: grid, font: '12px system-ui, sans-serif' }
  const ofTime = {
    values: (_: uPlot, splits: number[]) => splits.map((seconds) => short.format(seconds * 1_000)),
    incrs: isLong
      ? [1, 2, 7, 14, 30, 90, 365].map((days) => days * DAY_SECONDS)
      : [1, 10, 60, 300, 600, 900, 1_800, 3_600, 10_800, 21_600, 43_200],
  }
  return {
    width: Math.max(canvas.clientWidth, 200),
    height: HEIGHT,
    cursor: { points: { size: 6 }, drag: { x: false, y: false } },
    legend: { mount: (_, table) => legend.append(table) },
    scales: { y: { range: (_, min, max) => [Math.min(0, min * 1.05), max > 0 ? max * 1.05 : min < 0 ? 0 : 1] } },
    axes: [
      { ...shared, ...ofTime, space: 60 },
      {
        ...shared,
        values: (_, splits) => splits.map(format),
        size: (_, values) => 16 + 7 * Math.max(2, ...(values ?? []).map((value) => value.length)),
      },
    ],
    series: [
      { label: 'Time', value: (_, value) => (value === null ? '–' : timeText(new Date(value * 1_000), 'short')) },
      ...series.map(({ label }, index) => {
        const stroke = colourOf(canvas, `--plot-${1 + (index % COLOURS)}`)
        return {
          label,
          stroke,
          width: 1.5,
          ...(stepped === undefined ? {} : { paths: stepped }),
          // Values between two gaps, which no line shows.
          points: { size: 6, fill: stroke },
          ...(index < COLOURS ? {} : { dash: [6, 4] }),
          value: (_: uPlot, value: number | null) => (value === null ? '–' : format(value)),
        }
      }),
    ],
  }
}

/** Newest first. */
function tableOf(title: string, { x, series }: PlotData, format: (value: number) => string): HTMLElement {
  const rows = x.map((value, index) => [
    timeText(new Date(value * 1_000), 'short'),
    ...series.map(({ values }) => {
      const of = values[index] ?? null
      return of === null ? '–' : format(of)
    }),
  ])
  return table(`${title}, as a table`, ['Time', ...series.map(({ label }) => ({ number: label }))], rows.toReversed())
}

/** The colour that a variable has now: its own text may depend on light and dark. */
function colourOf(element: HTMLElement, variable: string): string {
  const probe = create('span')
  probe.style.color = `var(${variable})`
  element.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}
