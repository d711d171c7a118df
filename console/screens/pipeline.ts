import { SUBSCRIBERS } from '../../src/subscribers.ts'
import { api, poll, type Schemas } from '../kit/api.ts'
import { badge, type Content, card, html, note, nothing, type TemplateResult, table, time } from '../kit/html.ts'
import { numberText, plural, sizeText, t, word } from '../kit/language.ts'
import { createPlot } from '../kit/plot.ts'
import type { Screen, ScreenContext } from '../kit/screen.ts'
import { agoText, durationText } from '../kit/times.ts'
import { audits, auditView, runAddress } from './audits.ts'
import { stateBadge } from './parts.ts'
import { type SubscriberState, stateOfSubscriber } from './subscriber-state.ts'

type Pipeline = Schemas['Pipeline']
type Part = Schemas['PipelineGap']['part']

const SECONDS = 3
/** Number of samples in an hour of the plots. */
const MAX_SAMPLES = 1_200

/** `#pipeline`: the path of order events, and the verify and replay runs. `?run=ID` shows one run. */
export const pipeline: Screen = {
  title: t`Pipeline`,
  scopes: ['pipeline:read'],
  open(context) {
    const id = context.parameters.get('run')
    return id === null ? pipelineView(context) : auditView(id, context)
  },
}

function pipelineView(context: ScreenContext): () => Content {
  const { signal, update, report, may } = context
  let state: Pipeline | null = null
  let hasAnswered = false
  const runs = audits(context)
  const plots = backlogPlots()
  const onChange = (next: Pipeline) => {
    state = next
    hasAnswered = true
    plots.add(next)
    update()
  }
  const onError = (error: unknown) => {
    hasAnswered = true
    report(error)
    update()
  }
  // The request has no entity tag, so each answer is complete and adds a value to the plots.
  void poll((init) => api.GET('/admin/pipeline', { signal: init.signal }), { seconds: SECONDS, signal, onChange, onError })
  const shown = (of: Pipeline) => html`
    <ol class="stages" aria-label="From an order to mails, webhooks and lake">${stagesOf(of)}</ol>
    <div class="cards">
      ${plots.show()}${lastVerifyCard(of, may('pipeline:repair'))}${queuesCard(of)}${deadLettersCard(of)}
    </div>`
  // The runs appear together with the content above them, so nothing moves under a click.
  return () => html`<div class="title"><h2>Pipeline</h2></div>
    ${state === null ? note(hasAnswered ? t`The state of the pipeline is not known.` : t`Loading …`) : shown(state)}
    ${hasAnswered ? runs() : nothing}`
}

/**
 * The backlog of the pipeline since the screen was opened. The store keeps no history, which is the task of Prometheus.
 */
function backlogPlots() {
  const emptyText = t`Nothing is known of it.`
  const [behind, queued] = [t`Messages behind`, t`Queued deliveries`].map((title) =>
    createPlot({ title, emptyText, shape: 'steps', format: numberText }),
  )
  const samples: { at: number; state: Pipeline }[] = []
  let shown: Content = nothing
  const dataOf = (valuesOf: (state: Pipeline) => ReadonlyMap<string, number | null>) => {
    const rows = samples.map(({ state }) => valuesOf(state))
    const labels = [...new Set(rows.flatMap((row) => [...row.keys()]))]
    const series = labels.map((label) => ({ label, values: rows.map((row) => row.get(label) ?? null) }))
    return { x: samples.map(({ at }) => at), series }
  }
  return {
    add(state: Pipeline) {
      samples.push({ at: Date.now() / 1_000, state })
      if (samples.length > MAX_SAMPLES) samples.shift()
      const ofSubscribers = dataOf(({ subscribers }) => new Map(subscribers?.map(({ name, lag_events }) => [word(name), lag_events])))
      const ofQueues = dataOf(({ queues }) => new Map(queues?.map(({ name, queued }) => [word(name), queued])))
      const since = note(t`Since you opened this screen.`)
      shown = html`${card(t`Messages behind`, html`${behind?.(ofSubscribers)}${since}`)}${card(t`Queued deliveries`, html`${queued?.(ofQueues)}${since}`)}`
    },
    show: () => shown,
  }
}

/** A stage of the pipeline: its state as a coloured word, and lines of figures. */
function stage(name: string, state: Content, ...lines: Content[]): TemplateResult {
  return html`<li class="stage card"><h3>${name}</h3>${state}${lines.filter((line) => line !== null).map((line) => note(line))}</li>`
}

function stagesOf(state: Pipeline): TemplateResult[] {
  const { slot, topic, subscribers } = state
  const unknown = (name: string, part: Part) => stage(name, badge(t`not readable`, 'bad'), reasonOf(state, part))
  const isLost = slot !== null && slot.lost_reason !== null
  return [
    slot === null
      ? unknown(t`Replication slot`, 'slot')
      : stage(
          t`Replication slot`,
          isLost ? badge(t`lost`, 'bad') : badge(t`healthy`, 'good'),
          slot.lost_reason ?? t`retains ${sizeText(slot.retained_bytes)} of PostgreSQL's log`,
          slot.name,
        ),
    slot === null
      ? unknown(t`Change stream`, 'slot')
      : stage(
          t`Change stream`,
          slot.is_active ? badge(t`reading`, 'good') : badge(t`no reader`, 'bad'),
          slot.lag_bytes === null ? null : t`${sizeText(slot.lag_bytes)} behind`,
        ),
    topic === null
      ? unknown(t`Topic`, 'topic')
      : stage(
          t`Topic`,
          badge(topic.store === 'nats' ? t`in NATS` : t`in PostgreSQL`, 'good'),
          topic.epoch === 0
            ? t`newest message ${topic.newest_sequence}`
            : t`newest message ${topic.newest_sequence} of epoch ${topic.epoch}`,
        ),
    ...(subscribers === null
      ? [unknown(t`Subscribers`, 'subscribers')]
      : subscribers.map((subscriber) => subscriberStage(state, subscriber))),
  ]
}

function subscriberStage(state: Pipeline, subscriber: Schemas['PipelineSubscriber']): TemplateResult {
  const { name, lag_events, is_active } = subscriber
  const queue = state.queues?.find((one) => one.name === name)
  const position = () => {
    if (lag_events === null) return is_active ? t`no position yet` : t`never active`
    return lag_events === 0 ? t`up to date` : plural(lag_events, t`${lag_events} message behind`, t`${lag_events} messages behind`)
  }
  return stage(
    t`Subscriber: ${word(SUBSCRIBERS.find((one) => one.name === name)?.makes ?? name)}`,
    stateOf(subscriber),
    position(),
    queue === undefined ? null : t`${queue.queued} queued`,
    name === 'lake' ? lakeLine(state) : null,
  )
}

function stateOf(subscriber: Schemas['PipelineSubscriber']): Content {
  const badges: Record<SubscriberState, TemplateResult> = {
    failing: badge(t`failing`, 'bad'),
    active: badge(t`active`, 'good'),
    absent: badge(t`nobody is active`, 'bad'),
    unused: badge(t`not used`),
  }
  return badges[stateOfSubscriber(subscriber)]
}

function reasonOf({ unavailable }: Pipeline, part: Part): string {
  return unavailable.find((one) => one.part === part)?.reason ?? t`not known`
}

function unreadable(state: Pipeline, part: Part): Content {
  return html`${badge(t`not readable`, 'bad')} ${reasonOf(state, part)}`
}

function lakeLine(state: Pipeline): Content {
  const { lake } = state
  if (lake === null) return unreadable(state, 'lake')
  const { files, size_bytes, newest_file_at } = lake
  return html`${plural(files, t`${files} file`, t`${files} files`)}, ${sizeText(size_bytes)}${newest_file_at === null ? nothing : html`, newest ${time(newest_file_at)}`}`
}

function lastVerifyCard(state: Pipeline, mayRun: boolean): Content {
  const run = state.last_verify
  const title = t`Last verify`
  if (run !== null)
    return card(
      title,
      html`<p>${stateBadge(run.status)} ${agoText(run.finished_at ?? run.started_at)}, ${time(run.finished_at)}</p>
        ${note(run.output?.split('\n').at(-1))}
        <p><a href=${runAddress(run.id)}>Its findings and output</a></p>`,
    )
  if (state.unavailable.some(({ part }) => part === 'last_verify')) return card(title, html`<p>${unreadable(state, 'last_verify')}</p>`)
  const hint = mayRun
    ? t`verify compares orders, catalogue, topic, mails and lake. Run it below, or each night:`
    : t`verify compares orders, catalogue, topic, mails and lake. Run it each night:`
  return card(title, html`<p>${badge(t`never run`, 'waiting')} ${hint} <code>storefront verify</code></p>`)
}

function queuesCard(state: Pipeline): Content {
  type Queue = Schemas['PipelineQueue']
  const columns = [
    { title: t`Queue`, cell: ({ name }: Queue) => word(name) },
    { title: t`Queued`, number: true, cell: ({ queued }: Queue) => numberText(queued) },
    {
      title: t`Oldest`,
      cell: ({ oldest_untried_seconds: seconds }: Queue) => (seconds === 0 ? '–' : t`waits for ${durationText(seconds * 1_000)}`),
    },
  ]
  const { queues } = state
  return card(t`Queues`, queues === null ? html`<p>${unreadable(state, 'queues')}</p>` : table(t`Queues`, columns, queues))
}

function deadLettersCard(state: Pipeline): Content {
  type Letter = Schemas['PipelineDeadLetters']['newest'][number]
  const title = t`Dead letters`
  const letters = state.dead_letters
  if (letters === null) return card(title, html`<p>${unreadable(state, 'dead_letters')}</p>`)
  const columns = [
    { title: t`Event`, cell: ({ event_id }: Letter) => event_id },
    { title: t`Reason`, cell: ({ reason }: Letter) => reason },
    { title: t`Recorded`, cell: ({ recorded_at }: Letter) => time(recorded_at) },
  ]
  const found = letters.count === 0 ? badge(t`none`, 'good') : badge(t`${letters.count} to repair`, 'bad')
  return card(
    title,
    html`<p>${found} changes of orders of which no event can be made</p>
      ${letters.newest.length === 0 ? nothing : table(t`Newest dead letters`, columns, letters.newest)}`,
  )
}
