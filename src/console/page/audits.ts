import { call, pathOf, poll, type Schemas, withQuery } from './api.ts'
import { confirmAction, type Question } from './dialog.ts'
import { badge, button, create, link, note, replaceChildren, table, timeElement } from './dom.ts'
import type { ScreenContext } from './screen.ts'
import { stateBadge } from './state-badge.ts'

type Run = Schemas['AuditRun']

const QUESTIONS: Record<Run['kind'], Question> = {
  verify: {
    title: 'Run verify?',
    text: [
      'Verify compares every order with the topic, the mails and the lake, and changes nothing. It can run at any time.',
      'It reads every order in a separate process with a low priority. With many orders this takes minutes.',
    ],
    action: 'Run verify',
  },
  replay: {
    title: 'Run replay?',
    text: [
      'Replay publishes every order event that the topic lacks. The subscribers then send the mails and webhooks of these events, however old they are.',
      'Events that the topic has are not published again. Run verify first to see what is missing.',
    ],
    action: 'Run replay',
  },
}
const PAGE = 10

/** Runs of verify and replay. The address has the open one (`run`). */
export function auditsCard({ parameters, signal, may, report, tell }: ScreenContext): HTMLElement {
  const start = create('div', { class: 'actions' })
  const progress = create('div', { attributes: { 'aria-live': 'polite' } })
  const history = create('div')
  const detail = create('div')
  const card = create(
    'section',
    { class: 'card', attributes: { 'aria-labelledby': 'audits' } },
    create('h3', { id: 'audits' }, 'Audits'),
    start,
    progress,
    history,
    detail,
  )
  const openId = parameters.get('run')
  const cursor = parameters.get('runs')

  const buttons = (['verify', 'replay'] as const).map((kind) => {
    const element = button(`Run ${kind}`, async () => {
      if (!(await confirmAction(QUESTIONS[kind], signal))) return
      element.disabled = true
      try {
        const run = await call<Run>('POST', '/admin/audits', { body: { kind }, signal })
        tell(`${kind} has started.`)
        location.hash = withQuery('#pipeline', { run: run.id })
      } catch (error) {
        element.disabled = false
        report(error)
      }
    })
    return { kind, element }
  })
  if (may('pipeline:repair')) start.append(...buttons.map(({ element }) => element))

  poll<Schemas['AuditRunPage']>(withQuery('/admin/audits', { limit: PAGE, cursor }), {
    seconds: 1,
    signal,
    onError: report,
    onChange({ data, next_cursor }) {
      const running = data.filter(({ status }) => status === 'running')
      if (cursor === null) for (const { kind, element } of buttons) element.disabled = running.some((run) => run.kind === kind)
      replaceChildren(
        progress,
        ...running.map((run) =>
          create(
            'p',
            {},
            badge(`${run.kind} is running`, 'waiting'),
            ` ${run.progress ?? 'starting'} `,
            create('span', { class: 'muted' }, 'since '),
            timeElement(run.started_at),
          ),
        ),
      )
      const rows = data.map((run) => [
        link(withQuery('#pipeline', { run: run.id, runs: cursor }), run.command, run.id === openId && 'true'),
        stateBadge(run.status),
        run.started_by === null ? 'command line' : 'an operator',
        timeElement(run.started_at),
        timeElement(run.finished_at),
      ])
      const older = next_cursor !== null && link(withQuery('#pipeline', { runs: next_cursor }), 'Older runs')
      replaceChildren(
        history,
        rows.length === 0
          ? note('Neither verify nor replay was ever run. A nightly ', create('code', {}, 'storefront verify'), ' appears here, too.')
          : table('Runs', ['Command', 'Outcome', 'Started by', 'Started', 'Ended'], rows),
        older,
      )
    },
  })
  if (openId !== null) {
    poll<Run>(pathOf`/admin/audits/${openId}`, {
      seconds: 1,
      signal,
      onError: report,
      onChange: (run) => replaceChildren(detail, create('h4', {}, `${run.command}: ${run.status}`), ...describeRun(run)),
    })
  }
  return card
}

/** The outcome of a run: findings as a table, and what the command printed. */
function describeRun(run: Run): HTMLElement[] {
  const findings = findingsOf(run.result)
  const parts: HTMLElement[] = []
  if (findings.length > 0) {
    parts.push(
      table(
        'Findings',
        ['Place', 'Fault', { number: 'Count' }, 'Examples'],
        findings.map(({ place, kind, count, examples }) => [
          place,
          badge(kind, 'bad'),
          count.toLocaleString(),
          create('ul', {}, ...examples.map((example) => create('li', {}, example))),
        ]),
      ),
    )
  }
  if (run.output !== null && run.output !== '')
    parts.push(create('pre', { tabIndex: 0, attributes: { role: 'region', 'aria-label': `Output of ${run.command}` } }, run.output))
  return parts
}

interface Finding {
  place: string
  kind: string
  count: number
  examples: string[]
}

/** The report of verify has them; that of replay has none. */
function findingsOf(result: Run['result']): Finding[] {
  return result !== null && Array.isArray(result.findings) ? (result.findings as Finding[]) : []
}
