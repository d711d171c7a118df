import { addressOf } from '../kit/address.ts'
import { api, read, type Schemas } from '../kit/api.ts'
import { confirmAction, type Question } from '../kit/dialog.ts'
import { follow } from '../kit/follow.ts'
import { badge, type Content, card, facts, html, nothing, table, time } from '../kit/html.ts'
import { numberText, plural, t, word } from '../kit/language.ts'
import { type List, resourceList } from '../kit/resource-list.ts'
import type { ScreenContext } from '../kit/screen.ts'
import { stateBadge } from './parts.ts'

type Run = Schemas['AuditRun']
type Kind = Run['kind']

const SECONDS = 1
const QUESTIONS: Record<Kind, Question> = {
  verify: {
    title: t`Run verify?`,
    text: [
      t`Verify compares every order with the topic, the mails and the lake, and changes nothing. It can run at any time.`,
      t`It reads every order in a separate process with a low priority. With many orders this takes minutes.`,
    ],
    action: t`Run verify`,
  },
  replay: {
    title: t`Run replay?`,
    text: [
      t`Replay publishes every order event that the topic lacks. The subscribers then send the mails and webhooks of these events, however old they are.`,
      t`Events that the topic has are not published again. Run verify first to see what is missing.`,
    ],
    action: t`Run replay`,
  },
}

export function runAddress(id: string): string {
  return addressOf('pipeline', { run: id })
}

export function audits(context: ScreenContext): () => Content {
  const { signal, may, act, tell } = context
  const start = async (kind: Kind) => {
    if (!(await confirmAction(QUESTIONS[kind], signal))) return
    const { id } = await read(api.POST('/admin/audits', { body: { kind } }))
    location.hash = runAddress(id)
    tell(t`${kind} has started.`)
  }
  const startButton = (kind: Kind, style: string) => {
    const isRunning = list.items().some((run) => run.status === 'running' && run.kind === kind)
    return html`<button type="button" class=${style} ?disabled=${isRunning} @click=${act(() => start(kind))}>Run ${kind}</button>`
  }
  const list: List<Run> = resourceList<Run>(
    {
      title: t`Audits`,
      screen: 'pipeline',
      seconds: SECONDS,
      ask: (query, init) => api.GET('/admin/audits', { ...init, params: { query } }),
      keyOf: ({ id }) => id,
      hrefOf: ({ id }) => runAddress(id),
      columns: [
        { title: t`Command`, cell: ({ command }) => command },
        { title: t`Outcome`, cell: ({ status }) => stateBadge(status) },
        { title: t`Started by`, cell: startedBy },
        { title: t`Started`, cell: ({ started_at }) => time(started_at) },
        { title: t`Ended`, cell: ({ finished_at }) => time(finished_at) },
      ],
      words: {
        count: (count) => plural(count, t`${count} run`, t`${count} runs`),
        none: html`Neither verify nor replay was ever run. A nightly <code>storefront verify</code> appears here, too.`,
        noMatch: t`No run matches.`,
      },
      actions: () => (may('pipeline:repair') ? html`${startButton('verify', 'primary')}${startButton('replay', '')}` : nothing),
      intro: () => list.items().filter(isRunning).map(progressOf),
    },
    context,
  )
  return list
}

function startedBy({ started_by }: Run): string {
  return started_by === null ? t`command line` : t`an operator`
}

const isRunning = ({ status }: Run) => status === 'running'

function progressOf({ kind, progress, started_at }: Run): Content {
  return html`<p role="status">${badge(t`${kind} is running`, 'waiting')} ${progress ?? t`starting`}
    <span class="muted">since</span> ${time(started_at)}</p>`
}

/** A run with its progress, its findings as a table, and the command's output. */
export function auditView(id: string, context: ScreenContext): () => Content {
  const onChange = (run: Run) => context.title(headingOf(run))
  const ask = (init: object) => api.GET('/admin/audits/{id}', { ...init, params: { path: { id } } })
  const run = follow<Run>(context, ask, { seconds: SECONDS, onChange, endsAt: [400, 404] })
  run.refresh()
  return () => html`<a href="#pipeline">← Pipeline</a>${run.show(outcome)}`
}

function headingOf({ command, status }: Run): string {
  return `${command}: ${word(status)}`
}

function outcome(run: Run): Content {
  const findings = findingsOf(run.result)
  const columns = [
    { title: t`Where`, cell: ({ place }: Finding) => place },
    { title: t`Fault`, cell: ({ kind }: Finding) => badge(kind, 'bad') },
    { title: t`Count`, number: true, cell: ({ count }: Finding) => numberText(count) },
    {
      title: t`Examples`,
      cell: ({ examples }: Finding) => html`<ul class="differences">${examples.map((example) => html`<li>${example}</li>`)}</ul>`,
    },
  ]
  return html`<div class="title"><h2>${headingOf(run)}</h2></div>
    ${isRunning(run) ? progressOf(run) : nothing}
    ${facts(
      [t`Outcome`, stateBadge(run.status)],
      [t`Started by`, startedBy(run)],
      [t`Started`, time(run.started_at)],
      [t`Ended`, run.finished_at === null ? null : time(run.finished_at)],
    )}
    <div class="cards">
      ${findings.length === 0 ? nothing : card(t`Findings`, table(t`Findings`, columns, findings), { wide: true })}
      ${run.output ? card(t`Output`, html`<pre tabindex="0" role="region" aria-label=${t`Output of ${run.command}`}>${run.output}</pre>`, { wide: true }) : nothing}
    </div>`
}

interface Finding {
  place: string
  kind: string
  count: number
  examples: string[]
}

/** The findings in the report of a verify run. A replay run has none. */
function findingsOf(result: Run['result']): Finding[] {
  return result !== null && Array.isArray(result.findings) ? (result.findings as Finding[]) : []
}
