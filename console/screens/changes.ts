import { addressOf } from '../kit/address.ts'
import { api, type Schemas } from '../kit/api.ts'
import { follow } from '../kit/follow.ts'
import type { Option } from '../kit/form.ts'
import { type Column, type Content, html, note, nothing, table, time } from '../kit/html.ts'
import { plural, t, word } from '../kit/language.ts'
import { resourceList } from '../kit/resource-list.ts'
import type { Screen, ScreenContext } from '../kit/screen.ts'
import { ACTIONS, actionText, differenceTexts } from './activity-text.ts'
import { customerAddress, orderAddress } from './parts.ts'

type Activity = Schemas['Activity']
type Subject = Activity['subject']
type Names = ScreenContext['names']

const SECONDS = 5
const SHOWN = 20

const SUBJECTS: Record<Subject['type'], string> = {
  product: t`products`,
  category: t`categories`,
  order: t`orders`,
  account: t`accounts`,
  api_key: t`API keys`,
  mail: t`mails`,
  webhook: t`webhooks`,
  audit: t`audits`,
  lake: t`the lake`,
  store: t`the store`,
}

/** `#changes`: all changes by operators, API keys and commands. */
export const changeList: Screen = {
  title: t`Changes`,
  scopes: ['activities:read'],
  open(context) {
    const { names, update } = context
    const people: Option[] = [['system', t`commands`]]
    void names.list().then((known) => {
      people.push(...known)
      update()
    })
    return resourceList<Activity>(
      {
        title: t`Changes`,
        screen: 'changes',
        seconds: SECONDS,
        ask: (query, init) => api.GET('/admin/activities', { ...init, params: { query } }),
        keyOf,
        filters: [
          { name: 'actor', label: t`By`, kind: 'choice', options: people },
          { name: 'action', label: t`What`, kind: 'choice', options: Object.entries(ACTIONS) },
          { name: 'subject_type', label: t`Of`, kind: 'choice', options: Object.entries(SUBJECTS) },
          { name: 'subject_id', label: t`Id` },
          { name: 'from', label: t`From`, kind: 'time' },
          { name: 'to', label: t`Before`, kind: 'time' },
        ],
        columns: [
          ...columnsOf(names),
          { title: t`Of`, cell: (activity) => subject(activity, names) },
          { title: t`Request`, cell: ({ request_id }) => html`<small class="muted">${request_id ?? '–'}</small>` },
        ],
        words: {
          count: (count) => plural(count, t`${count} change`, t`${count} changes`),
          none: t`No changes yet: what operators, API keys and commands change is listed here.`,
          noMatch: t`No change matches.`,
        },
      },
      context,
    )
  },
}

/** The newest changes of one subject. They are requested while the section is unfolded. */
export function changes(
  { type, id }: Subject,
  context: Pick<ScreenContext, 'may' | 'names' | 'signal' | 'report' | 'update'>,
): () => Content {
  if (!context.may('activities:read')) return () => nothing
  const filters = { subject_type: type, subject_id: id ?? '' }
  const query = { ...filters, limit: SHOWN }
  const ask = (init: object) => api.GET('/admin/activities', { ...init, params: { query } })
  const newest = follow<Schemas['ActivityPage']>(context, ask, { seconds: SECONDS })
  const onToggle = ({ currentTarget }: Event) => ((currentTarget as HTMLDetailsElement).open ? newest.refresh() : newest.stop())
  const shown = ({ data }: Schemas['ActivityPage']) =>
    data.length === 0
      ? note(t`No changes.`)
      : html`${table(t`Changes`, columnsOf(context.names), data, keyOf)}<p><a href=${addressOf('changes', filters)}>All of these changes</a></p>`
  return () => html`<details class="card" @toggle=${onToggle}><summary>Changes</summary>${newest.show(shown)}</details>`
}

const keyOf = ({ id }: Activity) => String(id)

function columnsOf(names: Names): Column<Activity>[] {
  return [
    { title: t`When`, cell: ({ at }) => time(at) },
    { title: t`Who`, cell: ({ actor }) => (actor.type === 'system' ? t`a command` : names.actor(actor)) },
    { title: t`What`, cell: actionText },
    {
      title: t`Before → after`,
      cell: (activity) => html`<ul class="differences">${differenceTexts(activity).map((text) => html`<li>${text}</li>`)}</ul>`,
    },
  ]
}

/** The changed subject, with a link if the console has a screen for it. */
function subject({ subject: { type, id }, action }: Activity, names: Names): Content {
  const what = type === 'api_key' ? t`API key` : word(type)
  if (id === null) return what
  const linked = (href: string) => html`${what} <a href=${href}>${id}</a>`
  switch (type) {
    case 'product':
      return linked(addressOf('products', { product: id }))
    case 'order':
      return linked(orderAddress(id))
    case 'mail':
      return linked(addressOf('mails', { mail: id }))
    case 'webhook':
      return linked(addressOf('settings', { section: 'webhooks', webhook: id }))
    case 'audit':
      return linked(addressOf('pipeline', { run: id }))
    case 'account':
      return /Customer$/.test(action) ? linked(customerAddress(id)) : names.actor({ type: 'admin', id })
    case 'api_key':
      return names.actor({ type: 'key', id })
    default:
      return `${what} ${id}`
  }
}
