import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { changeEmail, recover, revertChange } from '../../../test/email-changes.ts'
import { Browser, SHOP } from '../../../test/oidc-browser.ts'
import { CLIENT, type Person, startOidcProvider } from '../../../test/oidc-providers.ts'
import { startStore } from '../../../test/store.ts'

const { issuer, state } = await startOidcProvider({ after }, { redirectUri: 'http://localhost:3000/auth/oidc/acme/callback' })
const store = await startStore({ after }, { oidcProviders: [{ id: 'acme', name: 'Acme', issuer, ...CLIENT }], corsOrigins: [SHOP] })
const newAddress = () => `${randomUUID()}@new.example`

/**
 * Signs a person in. Returns the account and its session's token, or the reason why the provider's answer was refused.
 */
async function signIn(person: Person): Promise<{ id: string; email: string; token: string; error: string | null }> {
  state.person = person
  const browser = new Browser(store)
  const start = await browser.start()
  const outcome = browser.outcome(await browser.comeBack(await browser.visit(start.headers.location ?? '')))
  if (outcome.code === undefined) return { id: '', email: '', token: '', error: outcome.error ?? '' }
  const { json } = await browser.exchange(outcome.code)
  return { id: json.user.id, email: json.user.email, token: json.access_token, error: null }
}

const someone = (): Person => {
  const sub = randomUUID()
  return { sub, email: `${sub}@example.com`, email_verified: true, name: 'Ada Lovelace' }
}

test('an account without a password changes its address after a sign-in, and its provider still signs in, even after a revert', async () => {
  const ada = someone()
  const account = await signIn(ada)
  const email = newAddress()
  const { revert } = await changeEmail(store, account, email)
  const again = await signIn(ada)
  assert.deepEqual([again.id, again.email], [account.id, email])
  // The provider was linked more than a week ago.
  await store.pool.query(`update oidc_identities set linked_at = linked_at - interval '8 days' where user_id = $1`, [account.id])
  assert.equal((await revertChange(store, revert)).status, 204)
  assert.equal((await signIn(ada)).email, ada.email)
  assert.ok(await recover(store, ada.email ?? ''))
})

test('a provider cannot create an account with a reserved address, or link it', async () => {
  const ada = someone()
  const registered = await store.register({ email: ada.email })
  const { revert } = await changeEmail(store, registered, newAddress())
  assert.equal((await signIn(ada)).error, 'failed')
  assert.equal((await store.pool.query('select from oidc_identities where subject = $1', [ada.sub])).rowCount, 0)
  assert.equal((await revertChange(store, revert)).status, 204)
  assert.equal((await signIn(ada)).id, registered.id)
})
