import { ACTIONS, actionText, differenceTexts } from './activity-text.ts'
import { call, poll, restartable, type Schemas, withQuery } from './api.ts'
import { customerAddress } from './customer-parts.ts'
import { actions, type Child, create, keyedTable, link, timeElement } from './dom.ts'
import { choice, labelled, searchForm, textInput } from './form.ts'
import type { Names } from './names.ts'
import { orderAddress } from './order-parts.ts'
import { moreButton } from './paged-list.ts'
import type { ScreenContext } from './screen.ts'
import { toInstant, toLocalTime } from './times.ts'

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
  const filters = { subject_type: subject.type, subject_id: subject.id }
  const show = restartable(context.signal, (signal) => {
    if (element.open) content.replaceChildren(...changeList(filters, { ...context, signal }, false))
  })
  element.addEventListener('toggle', () => show())
  return element
}

/** What operators, keys and commands have changed, newest first. The newest page keeps itself up to date. */
function changeList(
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
  const older = moreButton('Older changes', loadOlder, (error) => signal.aborted || report(error))
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
    if (cursor === null) return
    const from = cursor
    const { data, next_cursor } = await call<Page>('GET', path(from), { signal })
    if (from !== cursor) return
    for (const activity of data) known.set(activity.id, activity)
    cursor = next_cursor
    show()
  }

  poll<Page>(path(), { seconds: POLL_SECONDS, signal, onChange: addNewest, onError: report })
  return [rows.element, actions(older, count)]
}

function differenceList(activity: Activity): HTMLElement {
  return create('ul', { class: 'differences' }, ...differenceTexts(activity).map((text) => create('li', {}, text)))
}

const WORDS = { api_key: 'API key' } as Readonly<Record<string, string>>

/** What was changed: a link where the console shows it. */
function subjectElement({ subject: { type, id }, action }: Activity, names: Names): Child {
  if (id === null) return WORDS[type] ?? type
  const linked = (href: string) => create('span', {}, `${type} `, link(href, id))
  switch (type) {
    case 'product':
      return linked(withQuery('#products', { product: id }))
    case 'order':
      return linked(orderAddress(id))
    case 'mail':
      return linked(withQuery('#mails', { mail: id }))
    case 'webhook':
      return linked(withQuery('#pipeline', { webhook: id }))
    case 'audit':
      return linked(withQuery('#pipeline', { run: id }))
    case 'account':
      return /Customer$/.test(action) ? linked(customerAddress(id)) : names.actorElement({ type: 'admin', id })
    case 'api_key':
      return names.actorElement({ type: 'key', id })
    default:
      return `${WORDS[type] ?? type} ${id}`
  }
}

type SubjectType = Schemas['Activity']['subject']['type']

const NAMES = ['actor', 'action', 'subject_type', 'subject_id', 'from', 'to'] as const
type Filters = Record<(typeof NAMES)[number], string | null>
const SUBJECTS: Record<SubjectType, string> = {
  product: 'products',
  category: 'categories',
  order: 'orders',
  account: 'accounts',
  api_key: 'API keys',
  mail: 'mails',
  webhook: 'webhooks',
  audit: 'audits',
  lake: 'the lake',
  store: 'the store',
}

/** `#pipeline?changes=1`: everything that operators, keys and commands have changed. The address has the filters. */
export function showChanges(root: HTMLElement, context: ScreenContext): void {
  const filters = Object.fromEntries(NAMES.map((name) => [name, context.parameters.get(name)])) as Filters
  root.append(
    link('#pipeline', '← Pipeline'),
    create('h2', {}, 'Pipeline: changes'),
    filterForm(filters, context),
    ...changeList(filters, context),
  )
}

function filterForm(filters: Filters, { names }: Pick<ScreenContext, 'names'>): HTMLElement {
  const { actor, action, subject_type, subject_id, from, to } = filters
  const who = choice(
    { name: 'actor' },
    withOwn(
      [
        ['', 'everybody'],
        ['system', 'commands'],
      ],
      actor,
    ),
    actor ?? '',
  )
  void names.list().then((known) => {
    for (const [id, name] of known) {
      const option = [...who.options].find(({ value }) => value === id)
      if (option === undefined) who.append(create('option', { value: id }, name))
      else option.textContent = name
    }
  })
  const what = choice({ name: 'action' }, withOwn([['', 'everything'], ...Object.entries(ACTIONS)], action), action ?? '')
  const type = choice({ name: 'subject_type' }, [['', 'everything'], ...Object.entries(SUBJECTS)], subject_type ?? '')
  const id = textInput('subject_id', { value: subject_id ?? '', size: 20, maxLength: 100 })
  const time = (name: string, value: string | null) => create('input', { name, type: 'datetime-local', value: toLocalTime(value ?? '') })
  const onSearch = ({ from = '', to = '', ...others }: Record<string, string>) => {
    location.hash = addressOf({ ...others, from: toInstant(from), to: toInstant(to) })
  }
  return searchForm(
    'Changes',
    onSearch,
    labelled('By', who),
    labelled('What', what),
    labelled('Of', type),
    labelled('Id', id),
    labelled('From', time('from', from)),
    labelled('Before', time('to', to)),
    create('button', { type: 'submit', class: 'primary' }, 'Search'),
    Object.values(filters).some((value) => value !== null) && link(addressOf({}), 'Clear filters'),
  )
}

function addressOf(filters: Readonly<Record<string, string>>): string {
  return withQuery('#pipeline', { changes: 1, ...filters })
}

/** A value of the address that is in no list, such as the name of a command, is a choice of its own. */
function withOwn(options: readonly (readonly [string, string])[], value: string | null): readonly (readonly [string, string])[] {
  return value === null || options.some(([known]) => known === value) ? options : [...options, [value, value]]
}
