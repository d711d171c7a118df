import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Page } from 'playwright-core'
import { NO_CHROMIUM, openBrowser } from './chromium.ts'
import { assertUsable, NARROW, withoutRefusals } from './console-harness.ts'
import { login, mailFor } from './email-changes.ts'
import { freePort } from './free-port.ts'
import { createGuest, placeOrder } from './guests.ts'
import { CLIENT, startOidcProvider } from './oidc-providers.ts'
import { startShop } from './shop-process.ts'
import { type Account, type StoreOverrides, startStore } from './store.ts'

const NEXT = 'ada@new.example'

async function openShop(t: TestContext, view: { width?: number; isDark?: boolean } = {}, overrides: StoreOverrides = {}) {
  const [port, shopPort] = [overrides.port ?? (await freePort()), await freePort()]
  const origin = `http://localhost:${shopPort}/`
  const baseUrl = `http://localhost:${port}`
  const store = await startStore(t, { port, baseUrl, corsOrigins: [origin.slice(0, -1)], ...overrides })
  await startShop(t, shopPort, baseUrl)
  const { page, complaints } = await (await openBrowser(t)).open(view)
  await page.goto(origin)
  return { store, page, complaints, origin }
}

const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })
const newPassword = (page: Page) => page.getByRole('textbox', { name: 'New password' })
const ownAccount = (page: Page) => page.getByRole('dialog', { name: 'Your account' })

async function enter(page: Page, { email, password }: Pick<Account, 'email' | 'password'>): Promise<void> {
  await page.getByLabel('E-mail').fill(email)
  await page.getByLabel('Password').fill(password)
  await page.getByLabel('Password').press('Enter')
  await button(page, 'Sign out').waitFor()
}

async function signIn(page: Page, account: Pick<Account, 'email' | 'password'>): Promise<void> {
  await button(page, 'Sign in').click()
  await enter(page, account)
}

test('a customer changes the e-mail address by the mailed link, and the former mailbox takes the account back', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { store, page, complaints, origin } = await openShop(t, NARROW)
  const ada = await store.register()
  await signIn(page, ada)
  await store.pool.query(`update sessions set authenticated_at = now() - interval '11 minutes'`)
  await button(page, 'Account').press('Enter')
  await ownAccount(page).getByText(`${ada.email} (not confirmed)`).waitFor()
  await assertUsable(page, 'account')
  await page.getByLabel('New address').fill(NEXT)
  await page.getByLabel('New address').press('Enter')
  const proof = page.getByRole('dialog', { name: 'Confirm that it is you' })
  await assertUsable(page, 'proof')
  await proof.getByLabel('Password').fill('a wrong passphrase')
  await proof.getByLabel('Password').press('Enter')
  await proof.getByText('That is wrong, or was used already.').waitFor()
  await proof.getByLabel('Password').fill(ada.password)
  await proof.getByLabel('Password').press('Enter')
  await page.getByText('A mail with a link is on its way to the new address.').waitFor()
  await page.getByText(`${NEXT} waits to be confirmed`).waitFor()
  await page.getByLabel('New address').fill(ada.email)
  await page.getByLabel('New address').press('Enter')
  await page.getByRole('alert').getByText('The account has this address already.').waitFor()
  await assertUsable(page, 'a refused address')
  await page.keyboard.press('Escape')

  await page.goto('about:blank')
  const confirm = `${origin}#confirm-email=${await mailFor(store, NEXT, 'confirm_email')}`
  await page.goto(confirm)
  await page.getByText(`Your e-mail address is ${NEXT}.`).waitFor()
  assert.equal(page.url(), origin, 'the address has no token any more')
  await button(page, 'Account').click()
  await ownAccount(page).getByText(`${NEXT} (confirmed)`).waitFor()
  await page.keyboard.press('Escape')
  await page.goto(confirm)
  await page.getByText('The link was used already or is too old').waitFor()

  const revert = `${origin}#revert-email=${await mailFor(store, ada.email, 'email_changed')}`
  await page.goto(revert)
  const question = page.getByRole('dialog', { name: 'Change of your e-mail address' })
  await question.waitFor()
  await assertUsable(page, 'revert')
  // The first key that is pressed takes nothing back.
  await page.keyboard.press('Enter')
  await question.waitFor({ state: 'detached' })
  assert.equal((await login(store, { ...ada, email: NEXT })).status, 200)
  await page.goto(revert)
  await button(page, 'It was not me').click()
  await page.getByText('Your account has its former address').waitFor()
  await button(page, 'Sign in').waitFor()
  await page.goto(revert)
  await button(page, 'It was not me').click()
  await question.getByText('The link was used already or is too old').waitFor()
  await page.keyboard.press('Escape')

  await page.goto(`${origin}#reset-password=${await mailFor(store, ada.email, 'reset_password')}`)
  await newPassword(page).fill('quite another passphrase')
  await assertUsable(page, 'new password')
  await newPassword(page).press('Enter')
  await page.getByText('Your password is set. Sign in with it.').waitFor()
  await signIn(page, { email: ada.email, password: 'quite another passphrase' })
  assert.deepEqual(withoutRefusals(complaints), [])
})

test('a customer proves the address where nobody is signed in, and has the orders without an account', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, complaints, origin } = await openShop(t)
  const ada = await store.register()
  const { json: order } = await placeOrder(store, (await createGuest(store, ada.email)).token, await store.addProduct())
  await signIn(page, ada)
  await button(page, 'Account').click()
  await button(page, 'Confirm this address').click()
  await page.getByText('A mail with a link is on its way.').waitFor()
  await page.keyboard.press('Escape')
  await button(page, 'Sign out').click()
  await button(page, 'Sign in').waitFor()

  const link = `${origin}#confirm-email=${await mailFor(store, ada.email, 'confirm_email')}`
  await page.goto(link)
  await page.getByText('Sign in with the present e-mail address of your account.').waitFor()
  await assertUsable(page, 'sign in for a link')
  await page.keyboard.press('Escape')
  await page.getByText('The address is not confirmed: open the link again, and sign in.').waitFor()
  await page.goto(link)
  await enter(page, ada)
  await page.getByText(`Your e-mail address is ${ada.email}.`).waitFor()
  await page.getByRole('link', { name: 'Orders', exact: true }).click()
  await page.getByRole('list', { name: 'Orders' }).getByText(order.number).waitFor()
  assert.deepEqual(withoutRefusals(complaints), [])
})

test('a customer who has forgotten the password sets another one; a guest has only an address', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, complaints, origin } = await openShop(t)
  const ada = await store.register()
  await button(page, 'Sign in').click()
  await page.getByLabel('E-mail').fill(ada.email)
  await button(page, 'Forgot password').click()
  await page.getByText('If there is an account with this address, a mail with a link is on its way.').waitFor()
  await assertUsable(page, 'forgot password')
  await page.keyboard.press('Escape')
  await page.goto(`${origin}#reset-password=${await mailFor(store, ada.email, 'reset_password')}`)
  await newPassword(page).fill('quite another passphrase')
  await button(page, 'Set the password').click()
  await page.getByText('Your password is set. Sign in with it.').waitFor()
  await signIn(page, { email: ada.email, password: 'quite another passphrase' })

  await button(page, 'Sign out').click()
  await store.addProduct({ name: 'Lamp' })
  await page.goto(`${origin}products/lamp`)
  await button(page, 'Add to basket').click()
  await page.goto(`${origin}checkout`)
  const guest = { 'E-mail': 'guest@example.com', Name: 'Guest', Street: 'Ring 1', 'Postal code': '1010', City: 'Wien' }
  for (const [label, value] of Object.entries(guest)) await page.getByLabel(label, { exact: true }).fill(value)
  await page.getByLabel('Country').selectOption('AT')
  await button(page, 'Order').click()
  await page.getByText(/^Thank you: order/).waitFor()
  await button(page, 'Account').click()
  await ownAccount(page).getByText('guest@example.com').waitFor()
  assert.equal(await page.getByLabel('New address').isVisible(), false)
  await assertUsable(page, 'account of a guest')
  assert.deepEqual(withoutRefusals(complaints), [])
})

test('a registration is completed by the mailed link and its password', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, complaints, origin } = await openShop(t, {}, { isEmailVerificationRequired: true })
  await button(page, 'Sign in').click()
  await page.getByLabel('E-mail').fill(NEXT)
  await page.getByLabel('Password').fill('correct horse battery')
  await button(page, 'Create an account').click()
  await page.getByText('A mail with a link to confirm the address is on its way.').waitFor()
  await page.goto('about:blank')
  await page.goto(`${origin}#verify-email=${await mailFor(store, NEXT, 'verify_email')}`)
  const question = page.getByRole('dialog', { name: 'Confirm your e-mail address' })
  await question.getByLabel('Password').fill('a wrong passphrase')
  await button(page, 'Confirm').click()
  await question.getByText('The password is wrong.').waitFor()
  await question.getByLabel('Password').fill('correct horse battery')
  await button(page, 'Confirm').click()
  await page.getByText('Your account is ready, and you are signed in.').waitFor()
  await button(page, 'Sign out').waitFor()
  assert.deepEqual(withoutRefusals(complaints), [])
})

test('a customer adds a provider, signs in with it, and removes it', { skip: NO_CHROMIUM }, async (t) => {
  const port = await freePort()
  const { issuer, state } = await startOidcProvider(t, { redirectUri: `http://localhost:${port}/auth/oidc/acme/callback` })
  const oidcProviders = [{ id: 'acme', name: 'Acme', issuer, ...CLIENT }]
  const { store, page, complaints } = await openShop(t, {}, { port, oidcProviders })
  const ada = await store.register()
  await signIn(page, ada)
  const add = async () => {
    await button(page, 'Account').click()
    await button(page, 'Add Acme').click()
  }
  state.isDenying = true
  await add()
  await page.getByText('Nothing was added to your account.').waitFor()
  state.isDenying = false
  state.person = { sub: 'ada', email: 'another@id.example', email_verified: false }
  // The way to the provider takes longer than the proof counts.
  await store.pool.query(`update sessions set authenticated_at = now() - interval '11 minutes'`)
  await add()
  const proof = page.getByRole('dialog', { name: 'Confirm that it is you' })
  await proof.getByLabel('Password').fill(ada.password)
  await proof.getByLabel('Password').press('Enter')
  await page.getByText('It is added to your account').waitFor()

  await button(page, 'Sign out').click()
  await button(page, 'Sign in').click()
  await button(page, 'Sign in with Acme').click()
  await button(page, 'Sign out').waitFor()
  const { rows } = await store.pool.query('select authenticated_by from sessions where user_id = $1 order by id desc limit 1', [ada.id])
  assert.deepEqual(rows, [{ authenticated_by: ['oidc'] }])
  await button(page, 'Account').click()
  await button(page, 'Remove Acme').click()
  await page.getByText('You no longer sign in with Acme.').waitFor()
  await button(page, 'Add Acme').waitFor()
  await assertUsable(page, 'providers')
  assert.deepEqual((await store.pool.query('select from oidc_identities')).rowCount, 0)
  assert.deepEqual(withoutRefusals(complaints), [])
})
