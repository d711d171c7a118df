import { KEY_SCOPES, SCOPES } from '../../src/http/scopes.ts'
import { api, read, type Schemas, type Scope } from '../kit/api.ts'
import { openFormDialog } from '../kit/dialog.ts'
import { choice, entered, field } from '../kit/form.ts'
import { type Content, html, note, nothing, time } from '../kit/html.ts'
import { plural, t, word } from '../kit/language.ts'
import { resourceList } from '../kit/resource-list.ts'
import type { ScreenContext } from '../kit/screen.ts'
import { dayOf, toInstant } from '../kit/times.ts'
import { stateBadge } from './parts.ts'
import { shownSecret } from './secret.ts'

type ApiKey = Schemas['ApiKey']

const SECONDS = 10
const DAY_MS = 86_400_000
/** The store accepts at most two years. */
const MAX_DAYS = 730
const USUAL_DAYS = 365
const REASONS = {
  revoked: '',
  maker_deleted: t`, its maker was deleted`,
  maker_demoted: t`, its maker is no operator any more`,
} as const satisfies Record<NonNullable<ApiKey['revoked_reason']>, string>
const OVERLAPS = [
  ['3600', t`an hour`],
  ['86400', t`a day`],
  ['604800', t`a week`],
  ['0', t`not at all: it ends now`],
] as const

/** API keys, newest first. Ended keys are included, because histories name them. */
export function apiKeys(context: ScreenContext): () => Content {
  const { signal, userId, names, may, tell } = context
  const secret = shownSecret(context)
  const show = ({ id, name, key }: Schemas['NewApiKey']) => {
    names.forget()
    list.refresh()
    const hint = t`This key is shown only this time, and the store keeps only a hash of it. Store it where the machine can read it.`
    secret.show({ id, what: t`key`, heading: t`The key ${name}`, hint, text: key })
  }

  /** A key can do no more than its creator. */
  function askForNewKey(): void {
    const onSubmit = async (data: FormData) => {
      const { name = '', expires = '' } = entered(data)
      const scopes = data.getAll('scopes') as Exclude<Scope, 'access:write'>[]
      if (scopes.length === 0) throw new Error(t`Choose at least one thing that the key may do.`)
      const expires_at = expires === '' ? null : toInstant(`${expires}T23:59:59`)
      show(await read(api.POST('/admin/api-keys', { body: { name, scopes, expires_at } })))
    }
    const boxes = KEY_SCOPES.filter(may).map(
      (scope) =>
        html`<label class="choice"><input type="checkbox" name="scopes" value=${scope}> <code>${scope}</code> ${word(SCOPES[scope])}</label>`,
    )
    const end = html`<input type="date" name="expires" value=${dayIn(USUAL_DAYS)} min=${dayIn(0)} max=${dayIn(MAX_DAYS)}>`
    openFormDialog(
      { title: t`Make an API key`, submit: t`Make the key`, signal, onSubmit },
      () => () =>
        html`
        ${field(t`Name`, html`<input name="name" required maxlength="100">`, t`The machine or the service. Not a person: the name stays when the person leaves.`)}
        <fieldset class="scopes"><legend>What it may do</legend>${boxes}</fieldset>
        ${field(t`Expires`, end, t`The key expires at the end of this day, within two years. Empty: never.`)}`,
    )
  }

  /** Asks how long the present secret stays valid along with the new one. */
  function askForRotation({ id, name }: ApiKey): void {
    const onSubmit = async (data: FormData) => {
      const body = { overlap_seconds: Number(data.get('overlap')) }
      show(await read(api.POST('/admin/api-keys/{id}/rotate', { params: { path: { id } }, body })))
    }
    const hint = t`During this time you can change the machines one after the other.`
    openFormDialog(
      { title: t`Rotate ${name}`, submit: t`Rotate`, signal, onSubmit },
      () => () =>
        html`
        <p>The key gets another secret. Name, scopes and expiry stay. A secret that an earlier rotation left ends now.</p>
        ${field(t`The present secret stays valid for`, choice({ name: 'overlap' }, OVERLAPS, '86400'), hint)}`,
    )
  }

  function askToRevoke({ id, name }: ApiKey): void {
    const onSubmit = async () => {
      await api.POST('/admin/api-keys/{id}/revoke', { params: { path: { id } } })
      secret.hide(id)
      tell(t`The key ${name} is revoked.`)
      list.refresh()
    }
    openFormDialog(
      { title: t`Revoke ${name}?`, submit: t`Revoke`, danger: true, signal, onSubmit },
      () => () => html`<p>The store refuses it within a second, with both of its secrets. This cannot be undone.</p>`,
    )
  }

  const buttons = (key: ApiKey) => {
    if (key.state === 'revoked') return nothing
    // A key ends with its creator's account, so nobody else may rotate it and learn the new secret.
    const canRotate = key.state === 'active' && key.created_by === userId
    return html`<div class="actions">
      ${canRotate ? html`<button type="button" aria-label=${t`Rotate ${key.name}`} @click=${() => askForRotation(key)}>Rotate</button>` : nothing}
      <button type="button" class="danger" aria-label=${t`Revoke ${key.name}`} @click=${() => askToRevoke(key)}>Revoke</button></div>`
  }

  const list = resourceList<ApiKey>(
    {
      title: t`API keys`,
      screen: 'settings',
      fixed: { section: 'keys' },
      seconds: SECONDS,
      ask: (query, init) => api.GET('/admin/api-keys', { ...init, params: { query } }),
      keyOf: ({ id }) => id,
      columns: [
        { title: t`Key`, cell: ({ name, id }) => html`${name}<br><code class="secret">storefront_key_${id.replaceAll('-', '')}_…</code>` },
        { title: t`State`, cell: stateCell },
        { title: t`May`, cell: ({ scopes }) => html`<ul class="scopes">${scopes.map((scope) => html`<li>${scope}</li>`)}</ul>` },
        {
          title: t`Made by`,
          cell: ({ created_by }) => (created_by === null ? t`a command` : names.actor({ type: 'admin', id: created_by })),
        },
        { title: t`Made`, cell: ({ created_at }) => time(created_at) },
        { title: t`Expires`, cell: ({ expires_at }) => (expires_at === null ? html`<span>never</span>` : time(expires_at)) },
        { title: t`Last used`, cell: ({ last_used_at }) => (last_used_at === null ? html`<span>never</span>` : time(last_used_at)) },
        { title: t`Change`, cell: buttons },
      ],
      words: {
        count: (count) => plural(count, t`${count} key`, t`${count} keys`),
        none: t`No keys yet. A machine that calls the store needs one.`,
        noMatch: t`No keys.`,
      },
      intro: () =>
        html`${note(
          t`For machines such as a till, a warehouse or an accounting program. Give each machine its own key with only the scopes that it needs.`,
        )}${secret()}`,
      actions: () => html`<button type="button" class="primary" @click=${askForNewKey}>Make a key</button>`,
    },
    context,
  )
  return list
}

function stateCell({ state, revoked_at, revoked_reason, previous_secret_expires_at }: ApiKey): Content {
  const until = state === 'active' ? previous_secret_expires_at : null
  return html`${stateBadge(state)}
    ${revoked_at === null ? nothing : html`<small class="muted">${time(revoked_at)}${revoked_reason === null ? '' : REASONS[revoked_reason]}</small>`}
    ${until === null ? nothing : html`<small class="muted">the secret before until ${time(until)}</small>`}`
}

function dayIn(days: number): string {
  return dayOf(new Date(Date.now() + days * DAY_MS))
}
