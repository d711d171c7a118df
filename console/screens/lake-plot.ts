import type { Schemas } from '../kit/api.ts'
import { type Column, isNumeric } from '../kit/csv.ts'
import { choice } from '../kit/form.ts'
import { type Content, html, note, nothing } from '../kit/html.ts'
import { t } from '../kit/language.ts'
import { createPlot, type PlotData } from '../kit/plot.ts'
import { toInstant } from '../kit/times.ts'

type Result = Schemas['LakeResult']
type Row = Result['rows'][number]

const MAX_BARS = 100
const MAX_SERIES = 16
/** A day or time in DuckDB's format. Without a zone it is the shop's time. */
const TIME = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)(Z|[+-]\d{2}(?::?\d{2})?)?)?$/

/**
 * A plot of a numeric column. It has lines over time when the first column has days or times, one for each category of
 * the other columns, and otherwise a bar per row. Returns null without a label or number. `textOf` writes a value of a
 * column, with a currency when all rows have the same.
 */
export function plotOf(
  { columns, rows }: Result,
  textOf: (value: string | number, column: number, currency?: string) => string,
  update: () => void,
): (() => Content) | null {
  const labels = columns.flatMap((column, index) => (isLabel(column) ? [index] : []))
  const values = columns.flatMap((column, index) => (isNumeric(column) ? [index] : []))
  if (labels.length === 0 || values.length === 0 || rows.length < 2) return null
  // An amount of money tells more than a number of orders.
  const first = values.find((index) => columns[index]?.type.startsWith('DECIMAL')) ?? values[0] ?? 0
  const ofCurrency = columns.findIndex(({ name }) => name === 'currency')
  const currencies = [...new Set(rows.map((row) => row[ofCurrency]))]
  const draw = (value: number): (() => Content) => {
    const data = labels[0] === 0 ? overTime(rows, labels.slice(1), value) : null
    const currency = currencies.length === 1 ? String(currencies[0]) : undefined
    if (data === null) return () => bars(rows, labels, value, (row) => textOf(String(row[value]), value, String(row[ofCurrency])))
    const plot = createPlot({
      title: t`${columns[value]?.name} over time`,
      emptyText: t`There is no number to plot.`,
      format: (number) => textOf(number, value, currency),
    })
    return () => plot(data)
  }
  let shown = draw(first)
  const options = values.map((index) => [String(index), columns[index]?.name ?? ''] as const)
  const onChange = (value: string) => {
    shown = draw(Number(value))
    update()
  }
  return () => html`<figure class="bars">
    <figcaption><label>Plot of ${choice({ name: 'plotted', onChange }, options, String(first))}</label></figcaption>${shown()}
  </figure>`
}

function isLabel({ type }: Column): boolean {
  return /^(?:VARCHAR|DATE|TIMESTAMP|BOOLEAN|ENUM|UUID)/.test(type) && !type.endsWith(']')
}

/**
 * Returns null when a first cell is no time, when a category has two numbers for one time, or when there are fewer than
 * two times or too many lines to tell apart.
 */
function overTime(rows: readonly Row[], categories: readonly number[], value: number): PlotData | null {
  const lines = new Map<string, Map<number, number | null>>()
  for (const row of rows) {
    const time = secondsOf(row[0])
    const name = categories.map((index) => labelOf(row[index])).join(' · ') || t`value`
    const line = lines.get(name) ?? new Map<number, number | null>()
    if (time === null || line.has(time)) return null
    lines.set(name, line.set(time, row[value] === null ? null : Number(row[value])))
  }
  const x = [...new Set([...lines.values()].flatMap((line) => [...line.keys()]))].sort((a, b) => a - b)
  if (x.length < 2 || lines.size > MAX_SERIES) return null
  return { x, series: [...lines].map(([label, line]) => ({ label, values: x.map((time) => line.get(time) ?? null) })) }
}

function secondsOf(cell: Row[number] | undefined): number | null {
  const [, day, time = '00:00', zone] = TIME.exec(String(cell ?? '')) ?? []
  if (day === undefined) return null
  const local = `${day}T${time}`
  const ms = Date.parse(zone === undefined ? toInstant(local) : `${local}${/^[+-]\d{2}$/.test(zone) ? `${zone}:00` : zone}`)
  return Number.isNaN(ms) ? null : ms / 1_000
}

function labelOf(cell: Row[number] | undefined): string {
  return String(cell ?? 'NULL').slice(0, 60)
}

function bars(rows: readonly Row[], labels: readonly number[], value: number, textOf: (row: Row) => string): Content {
  const drawn = rows.slice(0, MAX_BARS)
  const most = Math.max(...drawn.map((row) => Math.abs(Number(row[value] ?? 0))).filter(Number.isFinite), Number.MIN_VALUE)
  const item = (row: Row) => {
    const number = Number(row[value] ?? 0)
    const percent = Number.isFinite(number) ? (Math.abs(number) / most) * 100 : 0
    return html`<li>
      <span class="label">${labels.map((index) => labelOf(row[index])).join(' · ')}</span>
      <span><span class=${number < 0 ? 'bar negative' : 'bar'} style="width: ${percent}%" aria-hidden="true"></span></span>
      <span class="value">${row[value] === null ? 'NULL' : textOf(row)}</span></li>`
  }
  return html`<ol class="card" tabindex="0" aria-label="Plot">${drawn.map(item)}</ol>
    ${rows.length > MAX_BARS ? note(t`The plot shows the first ${MAX_BARS} rows.`) : nothing}`
}
