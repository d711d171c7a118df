import { ACTIONS } from './activity-text.ts'
import type { Schemas } from './api.ts'
import { withQuery } from './api.ts'
import { changeList } from './changes.ts'
import { create } from './dom.ts'
import { choice } from './form.ts'
import { toInstant, toLocalTime } from './order-filters.ts'
import type { ScreenContext } from './screen.ts'

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
    create('a', { href: '#pipeline' }, '← Pipeline'),
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
  const id = create('input', { name: 'subject_id', value: subject_id ?? '', size: 20, maxLength: 100, autocomplete: 'off' })
  const time = (name: string, value: string | null) => create('input', { name, type: 'datetime-local', value: toLocalTime(value ?? '') })
  const form = create(
    'form',
    { class: 'filters', attributes: { role: 'search', 'aria-label': 'Changes' } },
    create('label', {}, 'By ', who),
    create('label', {}, 'What ', what),
    create('label', {}, 'Of ', type),
    create('label', {}, 'Id ', id),
    create('label', {}, 'From ', time('from', from)),
    create('label', {}, 'Before ', time('to', to)),
    create('button', { type: 'submit', class: 'primary' }, 'Search'),
    Object.values(filters).some((value) => value !== null) && create('a', { href: addressOf({}) }, 'Clear filters'),
  )
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    const data = new FormData(form)
    const given = NAMES.map((name) => [name, String(data.get(name) ?? '').trim()] as const)
    const values = given.map(([name, text]) => [name, name === 'from' || name === 'to' ? toInstant(text) : text])
    location.hash = addressOf(Object.fromEntries(values))
  })
  return form
}

function addressOf(filters: Readonly<Record<string, string>>): string {
  return withQuery('#pipeline', { changes: 1, ...filters })
}

/** A value of the address that is in no list, such as the name of a command, is a choice of its own. */
function withOwn(options: readonly (readonly [string, string])[], value: string | null): readonly (readonly [string, string])[] {
  return value === null || options.some(([known]) => known === value) ? options : [...options, [value, value]]
}
