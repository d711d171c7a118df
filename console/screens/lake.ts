import { formatMoney, isCurrency, readMajorUnits } from '../../client/src/currency.ts'
import { addressOf } from '../kit/address.ts'
import { api, read, type Schemas } from '../kit/api.ts'
import { isNumeric, toCsv } from '../kit/csv.ts'
import { download } from '../kit/download.ts'
import { choice } from '../kit/form.ts'
import { badge, type Content, facts, html, live, note, nothing, table, time } from '../kit/html.ts'
import { locale, numberText, plural, t } from '../kit/language.ts'
import type { Screen, ScreenContext } from '../kit/screen.ts'
import { timeZone } from '../kit/times.ts'
import { plotOf } from './lake-plot.ts'
import { type Question, readyQuestions } from './lake-questions.ts'

type Result = Schemas['LakeResult']
type Cell = Result['rows'][number][number]

const LIMITS = ['100', '1000', '10000']
const QUESTION_LIMIT = 10_000
const MAX_CHARACTERS = 20_000
const MAX_TABLE_ROWS = 500
const MAX_CELL_CHARACTERS = 300
const CLOCK_MS = 200
const PERIODS = [
  ['7', t`${7} days`],
  ['30', t`${30} days`],
  ['90', t`${90} days`],
  ['365', t`${365} days`],
  ['', t`All time`],
] as const
const USUAL_PERIOD = '90'

/** The operator's own query, or a prepared question with its period. */
interface Query {
  sql: string
  limit: number
  question?: Question
}

/** `#lake?question=NAME&days=N` answers a question, and `?sql=TEXT` only fills in a query. */
export const lake: Screen = {
  title: t`Lake`,
  scopes: ['lake:query'],
  open(context) {
    const { parameters, signal, report, update } = context
    const days = PERIODS.map(([value]) => value).find((value) => value === (parameters.get('days') ?? USUAL_PERIOD)) ?? ''
    const questions = readyQuestions(timeZone(), days === '' ? null : Number(days))
    const chosen = questions.find(({ name }) => name === parameters.get('question'))
    let sql = parameters.get('sql') ?? (chosen ?? questions[0])?.sql ?? ''
    let limit = LIMITS.find((rows) => rows === parameters.get('limit')) ?? '1000'
    let tables: Schemas['LakeTables']['data'] = []
    read(api.GET('/admin/lake/tables', { signal })).then(({ data }) => {
      tables = data
      update()
    }, report)
    const runner = createRunner(context)
    const ask = () => {
      if (runner.isRunning()) return
      history.replaceState(null, '', addressOf('lake', { sql, limit }))
      void runner.run({ sql, limit: Number(limit) })
    }
    // A disabled button would lose the focus, so it stays enabled.
    const answer = (question: Question) => {
      if (runner.isRunning()) return
      sql = question.sql
      history.replaceState(null, '', addressOf('lake', { question: question.name, days: days || 'all' }))
      void runner.run({ sql, limit: QUESTION_LIMIT, question })
    }
    const changePeriod = (value: string) => {
      location.hash = addressOf('lake', { question: runner.question() ?? chosen?.name ?? questions[0]?.name, days: value || 'all' })
    }
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return
      event.preventDefault()
      ask()
    }
    if (chosen !== undefined) answer(chosen)

    const button = (question: Question) => {
      const isShown = runner.question() === question.name
      return html`<button type="button" class=${isShown ? 'primary' : ''} aria-pressed=${isShown} title=${question.about} aria-disabled=${runner.isRunning()} @click=${() => answer(question)}>${question.title}</button>`
    }
    const editor = () => html`<details class="card" ?open=${parameters.has('sql')}><summary>Ask in SQL</summary><div class="query">
      <form @submit=${(event: Event) => {
        event.preventDefault()
        ask()
      }}>
        <label for="sql">SQL (DuckDB, one SELECT)</label>
        <textarea id="sql" rows="12" maxlength=${MAX_CHARACTERS} spellcheck="false" .value=${live(sql)} @keydown=${onKey} @input=${({
          currentTarget,
        }: Event) => {
          sql = (currentTarget as HTMLTextAreaElement).value
        }}></textarea>
        <div class="actions"><button type="submit" aria-disabled=${runner.isRunning()}>Run</button>
          <label>At most ${choice({ name: 'limit', onChange: setLimit }, limitOptions(), limit)} rows</label></div>
        ${note(t`Ctrl+Enter runs the query. It reads only the lake and has 10 seconds.`)}
      </form>
      <div class="tables" translate="no">${tables.map(tableReference)}</div></div></details>`
    const setLimit = (value: string) => {
      limit = value
    }
    return () => html`<div class="title"><h2>Lake</h2></div>
      <div class="actions"><div class="actions" role="group" aria-label="Ready questions">${questions.map(button)}</div>
        <label>Orders of ${choice({ name: 'days', onChange: changePeriod }, PERIODS, days)}</label></div>
      ${editor()}${runner.show()}`
  },
}

function limitOptions(): [string, string][] {
  return LIMITS.map((rows) => [rows, numberText(Number(rows))])
}

function tableReference({ name, description, columns }: Schemas['LakeTables']['data'][number]): Content {
  return html`<details class="card" ?open=${name === 'orders'}><summary><code>${name}</code> – ${description}</summary>
    ${facts(...columns.map(({ name, type }) => [name, type] as const))}</details>`
}

/** Runs one query at a time and shows its result. */
function createRunner({ signal, report, tell, update }: ScreenContext) {
  let running: { query: Query; cancelling: AbortController; startedAt: number } | null = null
  let shown: { query: Query; content: () => Content } | null = null
  return {
    question: () => (running ?? shown)?.query.question?.name,
    isRunning: () => running !== null,
    async run(query: Query) {
      if (query.sql.trim() === '') return
      const cancelling = new AbortController()
      running = { query, cancelling, startedAt: performance.now() }
      shown = null
      tell('')
      update()
      const clock = setInterval(update, CLOCK_MS)
      const { sql, limit } = query
      try {
        const until = AbortSignal.any([signal, cancelling.signal])
        const result = await read(api.POST('/admin/lake/queries', { body: { sql, limit }, signal: until }))
        shown = { query, content: resultOf(result, query, update) }
      } catch (error) {
        if (cancelling.signal.aborted) tell(t`The query was cancelled.`)
        else report(error)
      } finally {
        clearInterval(clock)
        running = null
        update()
      }
    },
    show(): Content {
      if (running === null) return shown?.content()
      const { cancelling, startedAt } = running
      return html`<div class="actions">
        <span class="muted" role="timer">Running for ${((performance.now() - startedAt) / 1_000).toFixed(1)} s</span>
        <button type="button" @click=${() => cancelling.abort()}>Cancel</button></div>`
    },
  }
}

/** The result of a query: its size, its plot if it can have one, and the table. */
function resultOf(result: Result, { question }: Query, update: () => void): () => Content {
  const { columns, rows, is_truncated, elapsed_ms } = result
  const ofCurrency = columns.findIndex(({ name }) => name === 'currency')
  /** The amount columns of a question are written as amounts of money. */
  const textOf = (value: string | number, column: number, currency = '') => {
    const isAmount = isCurrency(currency) && question?.amounts.includes(columns[column]?.name ?? '')
    const amount = isAmount ? readMajorUnits(String(value), currency) : null
    if (amount !== null) return formatMoney({ amount: Number(amount), currency }, locale)
    return typeof value === 'number' ? numberText(value) : value
  }
  const plot = plotOf(result, textOf, update)
  const shownColumns = columns.map((column, index) => ({
    ...{ title: column.name, number: isNumeric(column) },
    cell: (row: readonly Cell[]) => cellOf(row[index] ?? null, column.type, (text) => textOf(text, index, String(row[ofCurrency]))),
  }))
  const seconds = numberText(elapsed_ms / 1_000)
  const count = plural(rows.length, t`${rows.length} row in ${seconds} s`, t`${rows.length} rows in ${seconds} s`)
  const save = () => download('lake.csv', new Blob([toCsv(columns, rows)], { type: 'text/csv;charset=utf-8' }))
  return () => html`<div class="result">
    ${question === undefined ? nothing : html`<h3>${question.title}</h3>${note(question.about)}`}
    <div class="actions"><strong role="status">${count}</strong>
      ${is_truncated ? badge(t`truncated: there are more rows`, 'waiting') : nothing}
      <button type="button" @click=${save}>Download CSV</button></div>
    ${rows.length > MAX_TABLE_ROWS ? note(t`The table shows the first ${MAX_TABLE_ROWS}; CSV has all ${rows.length}.`) : nothing}
    ${note(t`Days and times are of ${timeZone()}. In CSV, times are in UTC, and text that a spreadsheet would run as a formula begins with an apostrophe.`)}
    ${plot?.()}${table(t`Result`, shownColumns, rows.slice(0, MAX_TABLE_ROWS))}</div>`
}

function cellOf(cell: Cell, type: string, textOf: (text: string) => string): Content {
  if (cell === null) return html`<span class="muted">NULL</span>`
  const text = String(cell)
  if (type === 'TIMESTAMP WITH TIME ZONE') return time(text)
  return text.length > MAX_CELL_CHARACTERS ? `${text.slice(0, MAX_CELL_CHARACTERS)}…` : textOf(text)
}
