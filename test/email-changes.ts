import assert from 'node:assert/strict'
import { readAccountMails } from './account-mails.ts'
import type { Account, Answer, TestStore } from './store.ts'

type Caller = Pick<TestStore, 'call'>
type Store = Pick<TestStore, 'call' | 'pool'>

export const requestChange = ({ call }: Caller, token: string, email: string): Promise<Answer> =>
  call('POST', '/me/email', { token, body: { email } })

export const confirmChange = ({ call }: Caller, session: string, token: string): Promise<Answer> =>
  call('POST', '/me/email/confirm', { token: session, body: { token } })

export const revertChange = ({ call }: Caller, token: string): Promise<Answer> => call('POST', '/auth/email/revert', { body: { token } })

export const login = ({ call }: Caller, { email, password }: Pick<Account, 'email' | 'password'>): Promise<Answer> =>
  call('POST', '/auth/login', { body: { email, password } })

/** The newest queued mail to an address of a store without the role email. */
export async function mailFor(store: Store, to: string, kind: string): Promise<string> {
  const mail = (await readAccountMails(store)).findLast((queued) => queued.kind === kind && queued.to === to)
  assert.ok(mail !== undefined, `no mail ${kind}`)
  return mail.token ?? ''
}

/** Asks for another address. Returns the tokens that were mailed to both. */
export async function askForChange(store: Store, { token, email }: Pick<Account, 'token' | 'email'>, to: string) {
  const { status, text } = await requestChange(store, token, to)
  assert.equal(status, 202, text)
  return { confirm: await mailFor(store, to, 'confirm_email'), notice: await mailFor(store, email, 'email_change_requested') }
}

/** Changes the address. Returns the tokens with which the holder of the former one reverts it. */
export async function changeEmail(store: Store, account: Pick<Account, 'token' | 'email'>, to: string) {
  const { confirm, notice } = await askForChange(store, account, to)
  const { status, text } = await confirmChange(store, account.token, confirm)
  assert.equal(status, 200, text)
  return { notice, revert: await mailFor(store, account.email, 'email_changed') }
}

/** Sets a password by the token that a reverted change has mailed, and logs in. */
export async function recover(store: Store, email: string, password = 'the passphrase of the owner'): Promise<string> {
  const token = await mailFor(store, email, 'reset_password')
  assert.equal((await store.call('POST', '/auth/password-reset/confirm', { body: { token, password } })).status, 204)
  const { status, json, text } = await login(store, { email, password })
  assert.equal(status, 200, text)
  return json.access_token
}
