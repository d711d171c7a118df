import { call, type Schemas } from './api.ts'
import { isNumeric, toCsv } from './csv.ts'
import { actions, badge, create, download, facts, note, replaceChildren, table } from './dom.ts'
import { choice } from './form.ts'
import { plotOf } from './lake-plot.ts'
import { readyQuestions } from './lake-questions.ts'
import type { Screen, ScreenContext } from './screen.ts'
import { timeZone } from './times.ts'

const LIMITS = [100, 1_000, 10_000]
const MAX_CHARACTERS = 20_000

export const lake: Screen = {
  title: 'Lake',
  scopes: ['lake:query'],
  open(root, context) {
    const questions = readyQuestions(timeZone())
    const editor = create('textarea', {
      id: 'sql',
      rows: 12,
      maxLength: MAX_CHARACTERS,
      spellcheck: false,
      value: context.parameters.get('sql') ?? questions[0]?.sql ?? '',
    })
    const limits = LIMITS.map((rows) => [String(rows), rows.toLocaleString()] as const)
    const limit = choice({}, limits, limits.map(([rows]) => rows).find((rows) => rows === context.parameters.get('limit')) ?? '1000')
    const runButton = create('button', { type: 'submit', class: 'primary' }, 'Run')
    const cancelButton = create('button', { type: 'button', disabled: true }, 'Cancel')
    const time = create('span', { class: 'muted', attributes: { role: 'timer' } })
    const result = create('div')
    const form = create(
      'form',
      {},
      create('label', { htmlFor: 'sql' }, 'SQL (DuckDB, one SELECT)'),
      editor,
      actions(runButton, cancelButton, create('label', {}, 'At most ', limit, ' rows'), time),
      note('Ctrl+Enter runs the query. It reads only the lake and has 10 seconds.'),
    )
    const run = startRunner({ ...context, result, runButton, cancelButton, time })
    const submit = () => run(editor.value, Number(limit.value))
    form.addEventListener('submit', (event) => {
      event.preventDefault()
      submit()
    })
    editor.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return
      event.preventDefault()
      submit()
    })
    const choose = (sql: string) => {
      editor.value = sql
      submit()
    }
    const tables = create('div', { class: 'tables' })
    root.append(
      create('h2', {}, 'Lake'),
      create(
        'div',
        { class: 'actions', attributes: { role: 'group', 'aria-label': 'Ready questions' } },
        ...questions.map(({ title, sql }) => create('button', { type: 'button', onclick: () => choose(sql) }, title)),
      ),
      create('div', { class: 'query' }, form, tables),
      result,
    )
    call<Schemas['LakeTables']>('GET', '/admin/lake/tables', { signal: context.signal })
      .then(({ data }) => replaceChildren(tables, ...data.map(tableReference)))
      .catch(context.report)
  },
}

function tableReference({ name, description, columns }: Schemas['LakeTables']['data'][number]): HTMLElement {
  return create(
    'details',
    { class: 'card', open: name === 'orders' },
    create('summary', {}, create('code', {}, name), ` – ${description}`),
    facts(...columns.map(({ name, type }): [string, string] => [name, type])),
  )
}

interface RunnerOptions extends ScreenContext {
  result: HTMLElement
  runButton: HTMLButtonElement
  cancelButton: HTMLButtonElement
  time: HTMLElement
}

/** Runs one query at a time; the address gets its SQL, which a link only fills in and never runs. */
function startRunner({ signal, report, tell, result, runButton, cancelButton, time }: RunnerOptions) {
  let running: AbortController | null = null
  let shown = new AbortController()
  cancelButton.addEventListener('click', () => running?.abort())
  return async (sql: string, limit: number) => {
    if (running !== null || sql.trim() === '') return
    const cancelling = new AbortController()
    running = cancelling
    runButton.disabled = true
    cancelButton.disabled = false
    tell('')
    shown.abort()
    shown = new AbortController()
    result.replaceChildren()
    history.replaceState(null, '', `#lake?${new URLSearchParams({ sql, limit: String(limit) })}`)
    const startedAt = performance.now()
    const timer = setInterval(() => {
      time.textContent = `Running for ${((performance.now() - startedAt) / 1_000).toFixed(1)} s`
    }, 100)
    try {
      const answer = await call<Schemas['LakeResult']>('POST', '/admin/lake/queries', {
        body: { sql, limit },
        signal: AbortSignal.any([signal, cancelling.signal]),
      })
      if (!signal.aborted) result.replaceChildren(resultElement(answer, AbortSignal.any([signal, shown.signal])))
    } catch (error) {
      if (cancelling.signal.aborted) tell('The query was cancelled.')
      else report(error)
    } finally {
      clearInterval(timer)
      time.textContent = ''
      running = null
      runButton.disabled = false
      cancelButton.disabled = true
    }
  }
}

type Result = Schemas['LakeResult']

const MAX_TABLE_ROWS = 500
const MAX_CELL_CHARACTERS = 300

/** The result of a query: how much it is, a plot where it has one, and the table. */
function resultElement(result: Result, signal: AbortSignal): HTMLElement {
  const { columns, rows, is_truncated, elapsed_ms } = result
  const count = `${rows.length.toLocaleString()} ${rows.length === 1 ? 'row' : 'rows'} in ${(elapsed_ms / 1_000).toFixed(2)} s`
  const save = () => download('lake.csv', new Blob([toCsv(columns, rows)], { type: 'text/csv;charset=utf-8' }))
  return create(
    'div',
    { class: 'result' },
    actions(
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
