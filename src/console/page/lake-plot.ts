import { restartable, type Schemas } from './api.ts'
import { type Column, isNumeric } from './csv.ts'
import { create, replaceChildren } from './dom.ts'
import { choice, labelled } from './form.ts'
import { createPlot, type PlotData } from './plots.ts'

type Result = Schemas['LakeResult']
type Row = Result['rows'][number]

const MAX_BARS = 100
const MAX_SERIES = 16
/** A day or a time, as DuckDB writes it; a day without a time is one of this browser's zone. */
const TIME = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)(Z|[+-]\d{2}(?::?\d{2})?)?)?$/

/**
 * A plot of a column of numbers: over time when the first column has days or times, with a line for each category of
 * the other columns; otherwise a bar for each row. Returns null if there is no label or no number.
 */
export function plotOf({ columns, rows }: Result, signal: AbortSignal): HTMLElement | null {
  const labels = columns.flatMap((column, index) => (isLabel(column) ? [index] : []))
  const values = columns.flatMap((column, index) => (isNumeric(column) ? [index] : []))
  if (labels.length === 0 || values.length === 0 || rows.length < 2) return null
  // Money is more telling than the number of orders beside it.
  const first = values.find((index) => columns[index]?.type.startsWith('DECIMAL')) ?? values[0]
  const options = values.map((index) => [String(index), columns[index]?.name ?? ''] as const)
  const select = choice({}, options, String(first))
  const content = create('div')
  const draw = restartable(signal, (drawn) => {
    const value = Number(select.value)
    const data = labels[0] === 0 ? overTime(rows, labels.slice(1), value) : null
    if (data === null) return replaceChildren(content, bars(rows, labels, value))
    const plot = createPlot({
      title: `${columns[value]?.name} over time`,
      emptyText: 'There is no number to plot.',
      format: (number) => number.toLocaleString(undefined, { maximumFractionDigits: 3 }),
      signal: drawn,
    })
    replaceChildren(content, plot.element)
    plot.update(data)
  })
  select.addEventListener('change', () => draw())
  // Colours and widths are known once the caller has put it into the page.
  queueMicrotask(draw)
  return create('figure', { class: 'bars' }, create('figcaption', {}, labelled('Plot of', select)), content)
}

function isLabel({ type }: Column): boolean {
  return /^(?:VARCHAR|DATE|TIMESTAMP|BOOLEAN|ENUM|UUID)/.test(type) && !type.endsWith(']')
}

/**
 * Returns null when a first cell is no time, a category has two numbers for one time, there are fewer than two times,
 * or there are more lines than can be told apart.
 */
function overTime(rows: readonly Row[], categories: readonly number[], value: number): PlotData | null {
  const lines = new Map<string, Map<number, number | null>>()
  for (const row of rows) {
    const time = secondsOf(row[0])
    const name = categories.map((index) => labelOf(row[index])).join(' · ') || 'value'
    const line = lines.get(name) ?? new Map<number, number | null>()
    if (time === null || line.has(time)) return null
    lines.set(name, line.set(time, row[value] === null ? null : Number(row[value])))
  }
  const x = [...new Set([...lines.values()].flatMap((line) => [...line.keys()]))].sort((a, b) => a - b)
  if (x.length < 2 || lines.size > MAX_SERIES) return null
  return { x, series: [...lines].map(([label, line]) => ({ label, values: x.map((time) => line.get(time) ?? null) })) }
}

function secondsOf(cell: Row[number] | undefined): number | null {
  const [, day, time = '00:00', zone = ''] = TIME.exec(String(cell ?? '')) ?? []
  if (day === undefined) return null
  const ms = Date.parse(`${day}T${time}${/^[+-]\d{2}$/.test(zone) ? `${zone}:00` : zone}`)
  return Number.isNaN(ms) ? null : ms / 1_000
}

function labelOf(cell: Row[number] | undefined): string {
  return String(cell ?? 'NULL').slice(0, 60)
}

function bars(rows: readonly Row[], labels: readonly number[], value: number): HTMLElement {
  const drawn = rows.slice(0, MAX_BARS)
  const most = Math.max(...drawn.map((row) => Math.abs(Number(row[value] ?? 0))).filter(Number.isFinite), Number.MIN_VALUE)
  const items = drawn.map((row) => {
    const number = Number(row[value] ?? 0)
    const label = labels.map((index) => labelOf(row[index])).join(' · ')
    const bar = create('span', { class: number < 0 ? 'bar negative' : 'bar', attributes: { 'aria-hidden': 'true' } })
    bar.style.width = `${Number.isFinite(number) ? (Math.abs(number) / most) * 100 : 0}%`
    return create(
      'li',
      {},
      create('span', { class: 'label' }, label),
      create('span', {}, bar),
      create('span', { class: 'value' }, String(row[value] ?? 'NULL')),
    )
  })
  return create('ol', { class: 'card', tabIndex: 0, attributes: { 'aria-label': 'Plot' } }, ...items)
}
