import { actionText, differenceTexts } from './activity-text.ts'
import { call, type Schemas, withQuery } from './api.ts'
import { customerAddress } from './customer-parts.ts'
import { button, type Child, create, timeElement } from './dom.ts'
import { keyedTable } from './keyed-table.ts'
import type { Names } from './names.ts'
import { orderAddress } from './order-parts.ts'
import { poll } from './poll.ts'
import type { ScreenContext } from './screen.ts'

type Activity = Schemas['Activity']
type Page = Schemas['ActivityPage']
type Context = Pick<ScreenContext, 'signal' | 'names' | 'report'>

const POLL_SECONDS = 5
const PAGE_SIZE = 20

/** The changes of one subject, which are asked for while it is unfolded. */
export function changesFoldOut(subject: Activity['subject'], context: Context & Pick<ScreenContext, 'may'>): HTMLElement | null {
  if (!context.may('activities:read')) return null
  const content = create('div')
  const element = create('details', { class: 'card' }, create('summary', {}, 'Changes'), content)
  let showing = new AbortController()
  element.addEventListener('toggle', () => {
    showing.abort()
    showing = new AbortController()
    const signal = AbortSignal.any([context.signal, showing.signal])
    const filters = { subject_type: subject.type, subject_id: subject.id }
    if (element.open) content.replaceChildren(...changeList(filters, { ...context, signal }, false))
  })
  return element
}

/** What operators, keys and commands have changed, newest first. The newest page keeps itself up to date. */
export function changeList(
  filters: Readonly<Record<string, string | null>>,
  { signal, names, report }: Context,
  hasSubjects = true,
): HTMLElement[] {
  const known = new Map<number, Activity>()
  let cursor: string | null = null
  const rows = keyedTable<Activity>('Changes', ['When', 'Who', 'What', ...(hasSubjects ? ['Of'] : []), 'Before → after', 'Request'], {
    keyOf: ({ id }) => String(id),
    cellsOf: (activity) => [
      timeElement(activity.at),
      activity.actor.type === 'system' ? 'a command' : names.actorElement(activity.actor),
      actionText(activity),
      ...(hasSubjects ? [subjectElement(activity, names)] : []),
      differenceList(activity),
      create('small', { class: 'muted' }, activity.request_id ?? '–'),
    ],
  })
  const count = create('p', { class: 'muted', attributes: { role: 'status' } })
  const older = button('Older changes', loadOlder)
  const path = (after?: string) => withQuery('/admin/activities', { ...filters, limit: PAGE_SIZE, cursor: after })

  function show(): void {
    rows.show([...known.values()].sort((a, b) => Date.parse(b.at) - Date.parse(a.at) || b.id - a.id))
    older.hidden = cursor === null
    count.textContent = known.size === 0 ? 'No changes.' : ''
  }

  /** Older pages stay, unless there are changes between them and the newest page. */
  function addNewest({ data, next_cursor }: Page): void {
    const isJoined = data.some(({ id }) => known.has(id))
    if (!isJoined) {
      known.clear()
      cursor = next_cursor
    }
    for (const activity of data) known.set(activity.id, activity)
    show()
  }

  async function loadOlder(): Promise<void> {
    if (cursor === null || older.disabled) return
    older.disabled = true
    const from = cursor
    try {
      const { data, next_cursor } = await call<Page>('GET', path(from), { signal })
      if (from !== cursor) return
      for (const activity of data) known.set(activity.id, activity)
      cursor = next_cursor
      show()
    } catch (error) {
      if (!signal.aborted) report(error)
    } finally {
      older.disabled = false
    }
  }

  older.hidden = true
  poll<Page>(path(), { seconds: POLL_SECONDS, signal, onChange: addNewest, onError: report })
  return [rows.element, create('div', { class: 'actions' }, older, count)]
}

function differenceList(activity: Activity): HTMLElement {
  return create('ul', { class: 'differences' }, ...differenceTexts(activity).map((text) => create('li', {}, text)))
}

const WORDS = { api_key: 'API key' } as Readonly<Record<string, string>>

/** What was changed: a link where the console shows it. */
function subjectElement({ subject: { type, id }, action }: Activity, names: Names): Child {
  if (id === null) return WORDS[type] ?? type
  const link = (href: string) => create('span', {}, `${type} `, create('a', { href }, id))
  switch (type) {
    case 'product':
      return link(withQuery('#products', { product: id }))
    case 'order':
      return link(orderAddress(id))
    case 'mail':
      return link(withQuery('#mails', { mail: id }))
    case 'webhook':
      return link(withQuery('#pipeline', { webhook: id }))
    case 'audit':
      return link(withQuery('#pipeline', { run: id }))
    case 'account':
      return /Customer$/.test(action) ? link(customerAddress(id)) : names.actorElement({ type: 'admin', id })
    case 'api_key':
      return names.actorElement({ type: 'key', id })
    default:
      return `${WORDS[type] ?? type} ${id}`
  }
}
