import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { totpCode, totpStepOf } from '../src/auth/factors/totp.ts'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, NARROW, openConsole, signIn } from './console-harness.ts'
import { freePort } from './free-port.ts'
import { registerOperator } from './register-operator.ts'
import { addVirtualAuthenticator } from './virtual-authenticator.ts'

/** Passkeys belong to the host, and their page must have the origin of BASE_URL. */
async function settings() {
  const port = await freePort()
  return { port, baseUrl: `http://localhost:${port}` }
}

const codesOn = async (page: Page) => {
  await page.getByRole('heading', { name: 'Recovery codes' }).waitFor()
  return page.locator('.codes code').allTextContents()
}

async function signOut(page: Page): Promise<void> {
  if (await page.getByRole('button', { name: 'I have stored them' }).isVisible())
    await page.getByRole('button', { name: 'I have stored them' }).click()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByText('You have signed out.').waitFor()
}

/** Chromium reports each refusal, such as the question for the second factor. */
const withoutRefusals = (complaints: string[]) => complaints.filter((text) => !/status of (403|422)/.test(text))

test('an operator sets up a passkey and signs in with it, alone and after the password', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { store, page, operator, complaints } = await openConsole(t, NARROW, await settings())
  const removeAuthenticator = await addVirtualAuthenticator(page)
  await page.getByRole('link', { name: 'Account', exact: true }).click()
  await page.getByText('Your password alone signs you in.').waitFor()
  await assertUsable(page, 'account')
  await page.getByRole('button', { name: 'Add a passkey' }).click()
  await page.getByLabel('Name').fill('Laptop')
  await page.getByRole('button', { name: 'Continue' }).click()
  const codes = await codesOn(page)
  assert.equal(codes.length, 10)
  await page.getByRole('cell', { name: 'Laptop', exact: true }).waitFor()
  await assertUsable(page, 'account with a passkey')

  await signOut(page)
  await page.getByRole('button', { name: 'Use a passkey' }).click()
  await page.getByRole('navigation', { name: 'Screens' }).waitFor()
  await signOut(page)
  await page.getByLabel('E-mail').fill(operator.email)
  await page.getByLabel('Password').fill(operator.password)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { name: 'Second step' }).waitFor()
  await assertUsable(page, 'second step')
  await page.getByRole('button', { name: 'Use a passkey' }).click()
  await page.getByRole('navigation', { name: 'Screens' }).waitFor()
  const { rows } = await store.pool.query(
    'select authenticated_by from sessions where user_id = $1 and revoked_at is null order by created_at desc limit 1',
    [operator.id],
  )
  assert.deepEqual(rows[0].authenticated_by, ['password', 'passkey'])

  // The device is lost: a recovery code signs in, and the passkey is removed.
  await signOut(page)
  await removeAuthenticator()
  await page.getByLabel('E-mail').fill(operator.email)
  await page.getByLabel('Password').fill(operator.password)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByLabel('Recovery code').fill('AAAA-AAAA')
  await page.getByRole('button', { name: 'Continue' }).click()
  await page.getByText('The code or the passkey is wrong').waitFor()
  await page.getByLabel('Recovery code').fill(codes[0] ?? '')
  await page.getByRole('button', { name: 'Continue' }).click()
  await page.getByRole('navigation', { name: 'Screens' }).waitFor()
  await page.getByRole('link', { name: 'Account', exact: true }).click()
  await page.getByRole('button', { name: 'Remove the passkey Laptop' }).click()
  await page.getByRole('button', { name: 'Remove', exact: true }).click()
  await page.getByText('No passkeys.').waitFor()
  await signOut(page)
  await signIn(page, operator)
  assert.deepEqual(withoutRefusals(complaints), [])
})

test('an operator sets up an authenticator app, and proves again who they are before a run', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, operator, complaints, show } = await openConsole(t, {}, await settings())
  await page.getByRole('link', { name: 'Account', exact: true }).click()
  await page.getByRole('button', { name: 'Set up an authenticator app' }).click()
  await page.getByRole('img', { name: 'QR code' }).waitFor()
  await assertUsable(page, 'authenticator app')
  const secret = (await page.locator('.secret').textContent()) ?? ''
  const code = (steps: number) => totpCode(secret, totpStepOf(new Date()) + steps)
  await page.getByLabel('Code of the app').fill(code(-1))
  await page.getByRole('button', { name: 'Confirm' }).click()
  assert.equal((await codesOn(page)).length, 10)

  await signOut(page)
  await page.getByLabel('E-mail').fill(operator.email)
  await page.getByLabel('Password').fill(operator.password)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByLabel('Code of your app, or a recovery code').fill(code(0))
  await page.getByRole('button', { name: 'Continue' }).click()
  await page.getByRole('navigation', { name: 'Screens' }).waitFor()

  await store.pool.query(`update sessions set authenticated_at = now() - interval '11 minutes'`)
  await show('Pipeline')
  await page.getByRole('button', { name: 'Run verify' }).click()
  await page.getByRole('dialog', { name: 'Run verify?' }).getByRole('button', { name: 'Run verify' }).click()
  const dialog = page.getByRole('dialog', { name: 'Confirm that it is you' })
  await dialog.waitFor()
  await assertUsable(page, 'fresh proof')
  await dialog.getByLabel('Code of your app, or a recovery code').fill(code(1))
  await dialog.getByRole('button', { name: 'Confirm' }).click()
  await dialog.waitFor({ state: 'detached' })
  const { rows } = await store.pool.query(
    `select count(*)::int as fresh from sessions where authenticated_at > now() - interval '1 minute'`,
  )
  assert.equal(rows[0].fresh, 1)
  assert.deepEqual(
    complaints.filter((text) => !text.includes('Failed to load resource')),
    [],
  )
})

test('an admin without a second factor is led to setting one up as soon as another one has one', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page } = await openConsole(t, {}, await settings())
  await addVirtualAuthenticator(page)
  const first = await registerOperator(store)
  await store.pool.query(
    `insert into passkeys (id, user_id, credential_id, public_key, sign_count, transports, name)
    values (gen_random_uuid(), $1, 'AAAA', '', 0, '{}', 'Key')`,
    [first.id],
  )
  await page.reload()
  await page.getByRole('heading', { level: 2, name: 'Account' }).waitFor()
  await page.getByRole('button', { name: 'Add a passkey' }).click()
  await page.getByRole('button', { name: 'Continue' }).click()
  await codesOn(page)
  await page.getByRole('button', { name: 'I have stored them' }).click()
  await page.getByRole('link', { name: 'Orders', exact: true }).click()
  await page.getByRole('heading', { level: 2, name: 'Orders' }).waitFor()
})
