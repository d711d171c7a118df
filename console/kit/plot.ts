import uPlot from 'uplot'
import { type Content, html, note, ref, table } from './html.ts'
import { locale, t } from './language.ts'
import { timeText, timeZone } from './times.ts'

/**
 * The drawing of a series: lines between the values, steps that hold a value until the next one, or a bar per value.
 */
type Shape = 'lines' | 'steps' | 'bars'

export interface PlotData {
  /** Times in seconds since 1970, ascending. */
  x: readonly number[]
  /** Each series has a value for each `x`. Null leaves a gap. */
  series: readonly { label: string; values: readonly (number | null)[]; shape?: Shape }[]
}

interface PlotOptions {
  title: string
  /** The text in place of the plot while it has no values. */
  emptyText: string
  /** Text of a value, for the axis, the legend and the table. */
  format: (value: number) => string
  /** The shape of series without their own. */
  shape?: Shape
}

const HEIGHT = 190
const COLOURS = 8
const DAY_SECONDS = 86_400
const HOUR_SECONDS = 3_600
const DARK = matchMedia('(prefers-color-scheme: dark)')

/** A plot with a legend, and a table of the same figures. It follows the page's width and colours. */
export function createPlot(options: PlotOptions): (data: PlotData) => Content {
  const { title, emptyText, format } = options
  let data: PlotData = { x: [], series: [] }
  let canvas: HTMLElement | undefined
  let plot: uPlot | null = null

  const draw = () => {
    plot?.destroy()
    plot = canvas === undefined ? null : new uPlot(optionsOf(data, canvas, options), alignedOf(data), canvas)
  }
  // The first report comes when the element is in its place.
  const resized = new ResizeObserver(() => {
    if (canvas === undefined || canvas.clientWidth === 0) return
    if (plot === null) draw()
    else if (canvas.clientWidth !== plot.width) plot.setSize({ width: canvas.clientWidth, height: HEIGHT })
  })
  const attach = (element?: Element) => {
    canvas = element as HTMLElement | undefined
    resized.disconnect()
    plot?.destroy()
    plot = null
    if (canvas === undefined) return DARK.removeEventListener('change', draw)
    resized.observe(canvas)
    DARK.addEventListener('change', draw)
  }
  const accept = (next: PlotData) => {
    const isSame = next.series.map(({ label }) => label).join('\n') === data.series.map(({ label }) => label).join('\n')
    data = next
    if (plot === null) return
    if (isSame) plot.setData(alignedOf(data))
    else draw()
  }

  return (next) => {
    if (next !== data) accept(next)
    if (!data.series.some(({ values }) => values.some((value) => value !== null))) return note(emptyText)
    return html`<div class="plot">
      <div role="img" aria-label=${t`Plot: ${title}`} ${ref(attach)}></div>
      <details><summary>As a table<span class="hidden">: ${title}</span></summary>${tableOf(title, data, format)}</details>
    </div>`
  }
}

function alignedOf({ x, series }: PlotData): uPlot.AlignedData {
  return [[...x], ...series.map(({ values }) => [...values])]
}

function optionsOf({ x, series }: PlotData, canvas: HTMLElement, { format, shape: usual = 'lines' }: PlotOptions): uPlot.Options {
  const muted = colourOf(canvas, '--muted')
  const grid = { stroke: colourOf(canvas, '--line'), width: 1 }
  const step = (x[1] ?? 0) - (x[0] ?? 0) || HOUR_SECONDS
  const isLong = (x.at(-1) ?? 0) - (x[0] ?? 0) > 2 * DAY_SECONDS
  const short = new Intl.DateTimeFormat(locale, {
    timeZone: timeZone(),
    ...(isLong ? ({ month: 'short', day: 'numeric' } as const) : ({ hour: '2-digit', minute: '2-digit' } as const)),
  })
  const pathsOf = (shape: Shape) =>
    shape === 'steps' ? uPlot.paths.stepped?.({ align: 1 }) : shape === 'bars' ? uPlot.paths.bars?.({ size: [0.7, 60] }) : undefined
  const colours = series.map((_, index) => colourOf(canvas, `--plot-${1 + (index % COLOURS)}`))
  const shared = { stroke: muted, grid, ticks: grid, font: '12px system-ui, sans-serif' }
  const ofTime = {
    values: (_: uPlot, splits: number[]) => splits.map((seconds) => short.format(seconds * 1_000)),
    incrs: isLong
      ? [1, 2, 7, 14, 30, 90, 365].map((days) => days * DAY_SECONDS)
      : [1, 10, 60, 300, 600, 900, 1_800, 3_600, 10_800, 21_600, 43_200],
  }
  /** The legend has the newest values while the mouse is outside the plot. */
  const legendText = (plot: uPlot, index: number, at: number | null, text: (value: number) => string) => {
    const value = plot.data[index]?.[at ?? plot.data[0].length - 1]
    return value === null || value === undefined ? '–' : text(value)
  }
  return {
    width: Math.max(canvas.clientWidth, 200),
    height: HEIGHT,
    cursor: { points: { size: 6 }, drag: { x: false, y: false } },
    // The second line in the same colour is dashed, and its marker is hollow.
    legend: { markers: { fill: (_, index) => (index <= COLOURS ? (colours[index - 1] ?? '') : 'transparent') } },
    scales: {
      // The range leaves room for whole bars at both edges.
      ...(usual === 'bars'
        ? { x: { range: (_: uPlot, min: number, max: number) => [min - step / 2, max + step / 2] as [number, number] } }
        : {}),
      y: { range: (_, min, max) => [Math.min(0, min * 1.05), max > 0 ? max * 1.05 : min < 0 ? 0 : 1] },
    },
    axes: [
      { ...shared, ...ofTime, space: 60 },
      {
        ...shared,
        values: (_, splits) => splits.map(format),
        size: (_, values) => 16 + 7 * Math.max(2, ...(values ?? []).map((value) => value.length)),
      },
    ],
    series: [
      { label: t`Time`, value: (plot, _, index, at) => legendText(plot, index, at, (value) => timeText(new Date(value * 1_000))) },
      ...series.map(({ label, shape = usual }, index) => {
        const paths = pathsOf(shape)
        const stroke = colours[index] ?? muted
        return {
          label,
          stroke,
          width: 1.5,
          ...(paths === undefined ? {} : { paths }),
          ...(shape === 'bars' ? { fill: stroke } : {}),
          // Points show a value between two gaps, which no line would show.
          points: { show: shape !== 'bars', size: 6, fill: stroke },
          ...(index < COLOURS ? {} : { dash: [6, 4] }),
          value: (plot: uPlot, _: number | null, of: number, at: number | null) => legendText(plot, of, at, format),
        }
      }),
    ],
  }
}

/** The table has the newest values first. */
function tableOf(title: string, { x, series }: PlotData, format: (value: number) => string): Content {
  const columns = series.map(({ label, values }) => ({
    ...{ title: label, number: true },
    cell: (index: number) => {
      const value = values[index] ?? null
      return value === null ? '–' : format(value)
    },
  }))
  const time = { title: t`Time`, cell: (index: number) => timeText(new Date((x[index] ?? 0) * 1_000)) }
  return table(t`${title}, as a table`, [time, ...columns], x.map((_, index) => index).toReversed())
}

/** The current value of a colour variable, which can depend on light and dark mode. */
function colourOf(element: HTMLElement, variable: string): string {
  const probe = document.createElement('span')
  probe.style.color = `var(${variable})`
  element.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}
