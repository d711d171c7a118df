import { call, type Schemas } from './api.ts'
import { create, facts, note, replaceChildren } from './dom.ts'
import { choice } from './form.ts'
import { readyQuestions } from './lake-questions.ts'
import { resultElement } from './lake-result.ts'
import type { Screen, ScreenContext } from './screen.ts'

const LIMITS = [100, 1_000, 10_000]
const MAX_CHARACTERS = 20_000

export const lake: Screen = {
  title: 'Lake',
  scopes: ['lake:query'],
  open(root, context) {
    const questions = readyQuestions(Intl.DateTimeFormat().resolvedOptions().timeZone)
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
      create('div', { class: 'actions' }, runButton, cancelButton, create('label', {}, 'At most ', limit, ' rows'), time),
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
