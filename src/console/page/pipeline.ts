import { SUBSCRIBERS } from '#subscribers'
import { poll, type Schemas } from './api.ts'
import { auditsCard } from './audits.ts'
import { showChanges } from './changes.ts'
import { badge, card, create, link, note, replaceChildren, table, timeElement } from './dom.ts'
import type { Screen } from './screen.ts'
import { stateBadge } from './state-badge.ts'
import { webhooksCard } from './webhooks.ts'

type Pipeline = Schemas['Pipeline']
type Part = Schemas['PipelineGap']['part']

/** `#pipeline` is the state of it, `#pipeline?changes=1` what was changed by operators, keys and commands. */
export const pipeline: Screen = {
  title: 'Pipeline',
  scopes: ['pipeline:read'],
  open(root, context) {
    const mayReadChanges = context.may('activities:read')
    if (mayReadChanges && context.parameters.has('changes')) return showChanges(root, context)
    const changes = create('p', {}, link('#pipeline?changes=1', 'Changes by operators and keys'))
    const path = create('ol', { class: 'stages', ariaLabel: 'From an order to mails, webhooks and lake' })
    const details = create('div', { class: 'cards' })
    root.append(create('h2', {}, 'Pipeline'), ...(mayReadChanges ? [changes] : []), path, details)
    const below = [auditsCard(context), ...(context.may('webhooks:read') ? [webhooksCard(context)] : [])]
    // They would move under a click when what is above them appears.
    const showBelow = () => {
      if (below.some(({ isConnected }) => !isConnected)) root.append(...below)
    }
    poll<Pipeline>('/admin/pipeline', {
      seconds: 3,
      signal: context.signal,
      onError(error) {
        context.report(error)
        showBelow()
      },
      onChange(state) {
        replaceChildren(path, ...stagesOf(state))
        replaceChildren(details, lastVerifyCard(state, context.may('pipeline:repair')), queuesCard(state), deadLettersCard(state))
        showBelow()
      },
    })
  },
}

/** One stage of the path: its state as a word and a colour, and a line of figures. */
function stage(name: string, state: HTMLElement, ...lines: (string | HTMLElement | null)[]): HTMLElement {
  return create(
    'li',
    { class: 'stage card' },
    create('h3', {}, name),
    state,
    ...lines.map((line) => line && create('p', { class: 'muted' }, line)),
  )
}

function stagesOf(state: Pipeline): HTMLElement[] {
  const { slot, topic, subscribers, queues } = state
  const unknown = (name: string, part: Part) => stage(name, badge('not readable', 'bad'), reasonOf(state, part))
  return [
    slot === null
      ? unknown('Replication slot', 'slot')
      : stage(
          'Replication slot',
          slot.lost_reason === null ? badge('healthy', 'good') : badge('lost', 'bad'),
          slot.lost_reason === null ? `retains ${bytesText(slot.retained_bytes)} of PostgreSQL's log` : slot.lost_reason,
          slot.name,
        ),
    slot === null
      ? unknown('Change stream', 'slot')
      : stage(
          'Change stream',
          slot.is_active ? badge('reading', 'good') : badge('no reader', 'bad'),
          slot.lag_bytes === null ? null : `${bytesText(slot.lag_bytes)} behind`,
        ),
    topic === null
      ? unknown('Topic', 'topic')
      : stage(
          'Topic',
          badge(topic.store === 'nats' ? 'in NATS' : 'in PostgreSQL', 'good'),
          `newest message ${count(topic.newest_sequence)}${topic.epoch === 0 ? '' : ` of epoch ${topic.epoch}`}`,
        ),
    ...(subscribers === null
      ? [unknown('Subscribers', 'subscribers')]
      : subscribers.map((subscriber) => {
          const { name, lag_events, is_active } = subscriber
          const queue = queues?.find((one) => one.name === name)
          return stage(
            `Subscriber: ${SUBSCRIBERS.find((one) => one.name === name)?.makes ?? name}`,
            stateOf(subscriber),
            lag_events === null
              ? is_active
                ? 'no position yet'
                : 'never active'
              : lag_events === 0
                ? 'up to date'
                : `${count(lag_events)} messages behind`,
            queue === undefined ? null : `${count(queue.queued)} queued`,
            name === 'lake' ? lakeLine(state) : null,
          )
        })),
  ]
}

function stateOf({ is_active, state }: Schemas['PipelineSubscriber']): HTMLElement {
  if (state === 'failing') return badge('failing', 'bad')
  return is_active ? badge('active', 'good') : badge('nobody is active', 'bad')
}

function reasonOf({ unavailable }: Pipeline, part: Part): string {
  return unavailable.find((one) => one.part === part)?.reason ?? 'not known'
}

/** Why a part of the state is not shown. */
function unreadable(state: Pipeline, part: Part, tag: 'p' | 'span' = 'p'): HTMLElement {
  return create(tag, {}, badge('not readable', 'bad'), ` ${reasonOf(state, part)}`)
}

function lakeLine(state: Pipeline): HTMLElement {
  const { lake } = state
  if (lake === null) return unreadable(state, 'lake', 'span')
  const files = `${count(lake.files)} files, ${bytesText(lake.size_bytes)}`
  return create(
    'span',
    {},
    files,
    lake.newest_file_at === null ? '' : ', newest ',
    lake.newest_file_at === null ? null : timeElement(lake.newest_file_at),
  )
}

function lastVerifyCard(state: Pipeline, mayRun: boolean): HTMLElement {
  const run = state.last_verify
  const title = 'Last verify'
  if (run !== null)
    return card(
      title,
      create('p', {}, stateBadge(run.status), ` ${ageText(run.finished_at ?? run.started_at)}, `, timeElement(run.finished_at)),
      note(run.output?.split('\n').at(-1) ?? ''),
      create('p', {}, link(`#pipeline?run=${run.id}`, 'Its findings and output')),
    )
  if (state.unavailable.some(({ part }) => part === 'last_verify')) return card(title, unreadable(state, 'last_verify'))
  const hint = ` verify compares orders, catalogue, topic, mails and lake. Run it ${mayRun ? 'below, or ' : ''}each night: `
  return card(title, create('p', {}, badge('never run', 'waiting'), hint, create('code', {}, 'storefront verify')))
}

function queuesCard(state: Pipeline): HTMLElement {
  const { queues } = state
  const rows = (queues ?? []).map(({ name, queued, oldest_untried_seconds }) => [
    name,
    count(queued),
    oldest_untried_seconds === 0 ? '–' : `waits for ${durationText(oldest_untried_seconds)}`,
  ])
  return card('Queues', queues === null ? unreadable(state, 'queues') : table('Queues', ['Queue', { number: 'Queued' }, 'Oldest'], rows))
}

function deadLettersCard(state: Pipeline): HTMLElement {
  const title = 'Dead letters'
  const letters = state.dead_letters
  if (letters === null) return card(title, unreadable(state, 'dead_letters'))
  const found = letters.count === 0 ? badge('none', 'good') : badge(`${count(letters.count)} to repair`, 'bad')
  const rows = letters.newest.map(({ event_id, reason, recorded_at }) => [event_id, reason, timeElement(recorded_at)])
  return card(
    title,
    create('p', {}, found, ' changes of orders of which no event can be made'),
    rows.length > 0 && table('Newest dead letters', ['Event', 'Reason', 'Recorded'], rows),
  )
}

function count(value: number): string {
  return value.toLocaleString()
}

function bytesText(bytes: number | null): string {
  if (bytes === null) return '–'
  const units = ['byte', 'kilobyte', 'megabyte', 'gigabyte', 'terabyte']
  const power = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(bytes) / 3))
  return (bytes / 1_000 ** power).toLocaleString(undefined, {
    style: 'unit',
    unit: units[power] ?? 'byte',
    unitDisplay: power === 0 ? 'long' : 'short',
    maximumFractionDigits: 1,
  })
}

function durationText(seconds: number): string {
  const [value, unit] =
    seconds < 120
      ? [seconds, 's']
      : seconds < 7_200
        ? [seconds / 60, 'min']
        : seconds < 172_800
          ? [seconds / 3_600, 'h']
          : [seconds / 86_400, 'days']
  return `${Math.round(Number(value))} ${unit}`
}

function ageText(time: string): string {
  return `${durationText(Math.max(0, (Date.now() - Date.parse(time)) / 1_000))} ago`
}
