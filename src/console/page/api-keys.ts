import { KEY_SCOPES, SCOPES } from '#scopes'
import { call, pathOf, type Schemas, send, withQuery } from './api.ts'
import { openFormDialog } from './dialog.ts'
import { actions, button, type Child, create, keyedTable, note, timeElement } from './dom.ts'
import { choice, field, textInput } from './form.ts'
import { pagedList } from './paged-list.ts'
import type { ScreenContext } from './screen.ts'
import { shownSecret } from './shown-secret.ts'
import { stateBadge } from './state-badge.ts'
import { dayOf, toInstant } from './times.ts'

type ApiKey = Schemas['ApiKey']

const POLL_SECONDS = 10
const REASONS = {
  revoked: '',
  maker_deleted: 'its maker was deleted',
  maker_demoted: 'its maker is no operator any more',
} as const satisfies Record<NonNullable<ApiKey['revoked_reason']>, string>

/** `#account?keys=1`: the keys of machines, newest first, also those that have ended: histories name them. */
export function showApiKeys(root: HTMLElement, context: ScreenContext): void {
  const { signal, userId, names, tell } = context
  const shown = shownSecret({ tell })
  const columns = ['Key', 'State', 'May', 'Made by', 'Made', 'Expires', 'Last used', 'Change']
  const rows = keyedTable<ApiKey>('API keys', columns, {
    keyOf: ({ id }) => id,
    cellsOf: (key) => [
      create('span', {}, key.name, create('br'), create('code', { class: 'key' }, `storefront_key_${key.id.replaceAll('-', '')}_…`)),
      stateCell(key),
      create('ul', { class: 'scopes' }, ...key.scopes.map((scope) => create('li', {}, scope))),
      key.created_by === null ? 'a command' : names.actorElement({ type: 'admin', id: key.created_by }),
      timeElement(key.created_at),
      key.expires_at === null ? 'never' : timeElement(key.expires_at),
      key.last_used_at === null ? 'never' : timeElement(key.last_used_at),
      actions(...buttons(key)),
    ],
  })
  const list = pagedList(
    {
      ...{ path: '/admin/api-keys', seconds: POLL_SECONDS, rows },
      addressOf: (page) => withQuery('#account', { keys: 1, ...page }),
      words: { more: 'Older keys', none: 'No keys yet.' },
    },
    context,
  )
  const onShown: OnShown = ({ id, name, key }, control) => {
    names.forget()
    list.refresh()
    const hint = 'This key is shown only this time, and the store keeps only a hash of it. Store it where the machine can read it.'
    shown.show({ id, what: 'key', heading: `The key ${name}`, hint, text: key }, control)
  }

  function buttons(key: ApiKey): HTMLButtonElement[] {
    const named = (element: HTMLButtonElement) => Object.assign(element, { ariaLabel: `${element.textContent} ${key.name}` })
    // Another person must not learn the new secret, because the key ends with its maker's account.
    const canRotate = key.state === 'active' && key.created_by === userId
    return [
      ...(canRotate ? [named(button('Rotate', () => askForRotation(key, { signal, onShown })))] : []),
      ...(key.state === 'revoked' ? [] : [named(button('Revoke', () => askToRevoke(key)))]),
    ]
  }

  function askToRevoke({ id, name }: ApiKey): void {
    const onSubmit = async () => {
      await send('POST', pathOf`/admin/api-keys/${id}/revoke`)
      shown.hide(id)
      tell(`The key ${name} is revoked.`)
      list.refresh()
    }
    openFormDialog(
      { title: `Revoke ${name}?`, submit: 'Revoke', signal, onSubmit },
      create('p', {}, 'The store refuses it within a second, with both of its secrets. This cannot be undone.'),
    )
  }

  root.append(
    create('h2', {}, 'Account: API keys'),
    note(
      'For machines such as a till, a warehouse or an accounting program. Give each machine its own key with only the scopes that it needs.',
    ),
    actions(button('Make a key', () => askForNewKey(context, onShown))),
    shown.element,
    ...list.elements,
  )
}

function stateCell({ state, revoked_at, revoked_reason, previous_secret_expires_at }: ApiKey): Child {
  const reason = revoked_reason === null ? '' : REASONS[revoked_reason]
  return create(
    'span',
    {},
    stateBadge(state),
    revoked_at !== null && create('small', { class: 'muted' }, ' ', timeElement(revoked_at), reason === '' ? '' : `, ${reason}`),
    state === 'active' &&
      previous_secret_expires_at !== null &&
      create('small', { class: 'muted' }, ' the secret before until ', timeElement(previous_secret_expires_at)),
  )
}

type NewApiKey = Schemas['NewApiKey']
/** Shows the text of a key, this once. The control is one of the dialog that asked for it. */
type OnShown = (key: NewApiKey, control: HTMLElement) => void

const DAY_MS = 86_400_000
/** The store accepts two years. */
const MAX_DAYS = 730
const USUAL_DAYS = 365
const OVERLAPS = [
  ['3600', 'an hour'],
  ['86400', 'a day'],
  ['604800', 'a week'],
  ['0', 'not at all: it ends now'],
] as const

/** Asks for the name, the scopes and the end of a new key. A key can do no more than its maker. */
function askForNewKey({ signal, may }: Pick<ScreenContext, 'signal' | 'may'>, onShown: OnShown): void {
  const name = textInput('name', { required: true, maxLength: 100 })
  const end = create('input', { type: 'date', name: 'expires', value: dayIn(USUAL_DAYS), min: dayIn(0), max: dayIn(MAX_DAYS) })
  const boxes = KEY_SCOPES.filter(may).map((scope) =>
    create(
      'label',
      { class: 'choice' },
      create('input', { type: 'checkbox', name: 'scopes', value: scope }),
      ' ',
      create('code', {}, scope),
      ` ${SCOPES[scope]}`,
    ),
  )
  const onSubmit = async (data: FormData) => {
    const scopes = data.getAll('scopes')
    if (scopes.length === 0) throw new Error('Choose at least one thing that the key may do.')
    const expires_at = end.value === '' ? null : toInstant(`${end.value}T23:59:59`)
    const key = await call<NewApiKey>('POST', '/admin/api-keys', { body: { name: name.value.trim(), scopes, expires_at } })
    onShown(key, name)
  }
  openFormDialog(
    { title: 'Make an API key', submit: 'Make the key', signal, onSubmit },
    field('Name', name, 'The machine or the service. Not a person: the name stays when the person leaves.'),
    create('fieldset', { class: 'scopes' }, create('legend', {}, 'What it may do'), ...boxes),
    field('Expires', end, 'The key expires at the end of this day, within two years. Empty: never.'),
  )
}

/** Asks how long the present secret stays valid beside the new one. */
function askForRotation({ id, name }: Schemas['ApiKey'], { signal, onShown }: Pick<ScreenContext, 'signal'> & { onShown: OnShown }): void {
  const overlap = choice({ name: 'overlap' }, OVERLAPS, '86400')
  const onSubmit = async () => {
    const body = { overlap_seconds: Number(overlap.value) }
    const key = await call<NewApiKey>('POST', pathOf`/admin/api-keys/${id}/rotate`, { body })
    onShown(key, overlap)
  }
  openFormDialog(
    { title: `Rotate ${name}`, submit: 'Rotate', signal, onSubmit },
    create('p', {}, 'The key gets another secret. Name, scopes and expiry stay. A secret that an earlier rotation left ends now.'),
    field('The present secret stays valid for', overlap, 'During this time you can change the machines one after the other.'),
  )
}

function dayIn(days: number): string {
  return dayOf(new Date(Date.now() + days * DAY_MS))
}
