import { pathOf, type Schemas, send, withQuery } from './api.ts'
import { askForNewKey, askForRotation } from './api-key-dialogs.ts'
import { openFormDialog } from './dialog.ts'
import { button, type Child, create, note, timeElement } from './dom.ts'
import { keyedTable } from './keyed-table.ts'
import { pagedList } from './paged-list.ts'
import type { ScreenContext } from './screen.ts'
import { shownKey } from './shown-key.ts'
import { stateBadge } from './state-badge.ts'

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
  const shown = shownKey({ tell })
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
      create('div', { class: 'actions' }, ...buttons(key)),
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
  const onShown = (key: Schemas['NewApiKey']) => {
    names.forget()
    list.refresh()
    return shown.show(key)
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
    note('For machines: a till, a warehouse, an accounting program. One key each, with no more than it needs.'),
    create(
      'div',
      { class: 'actions' },
      button('Make a key', () => askForNewKey(context, onShown)),
    ),
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
