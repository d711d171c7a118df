import type { Schemas } from './api.ts'
import { isNumeric, toCsv } from './csv.ts'
import { badge, create, download, note, table } from './dom.ts'
import { plotOf } from './lake-plot.ts'

type Result = Schemas['LakeResult']

const MAX_TABLE_ROWS = 500
const MAX_CELL_CHARACTERS = 300

/** The result of a query: how much it is, a plot where it has one, and the table. */
export function resultElement(result: Result, signal: AbortSignal): HTMLElement {
  const { columns, rows, is_truncated, elapsed_ms } = result
  const count = `${rows.length.toLocaleString()} ${rows.length === 1 ? 'row' : 'rows'} in ${(elapsed_ms / 1_000).toFixed(2)} s`
  const save = () => download('lake.csv', new Blob([toCsv(columns, rows)], { type: 'text/csv;charset=utf-8' }))
  return create(
    'div',
    { class: 'result' },
    create(
      'div',
      { class: 'actions' },
      create('strong', { attributes: { role: 'status' } }, count),
      is_truncated && badge('truncated: there are more rows', 'waiting'),
      create('button', { type: 'button', onclick: save }, 'Download CSV'),
    ),
    rows.length > MAX_TABLE_ROWS && note(`The table shows the first ${MAX_TABLE_ROWS}; CSV has all ${rows.length}.`),
    note('In CSV, text that a spreadsheet would run as a formula begins with an apostrophe.'),
    plotOf(result, signal),
    table(
      'Result',
      columns.map((column) => (isNumeric(column) ? { number: column.name } : column.name)),
      rows.slice(0, MAX_TABLE_ROWS).map((row) => row.map(cellOf)),
    ),
  )
}

function cellOf(cell: Result['rows'][number][number]): HTMLElement | string {
  if (cell === null) return create('span', { class: 'muted' }, 'NULL')
  const text = String(cell)
  return text.length > MAX_CELL_CHARACTERS ? `${text.slice(0, MAX_CELL_CHARACTERS)}…` : text
}
