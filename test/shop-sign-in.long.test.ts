import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Page } from 'playwright-core'
import { assertAccessible, NO_CHROMIUM, openBrowser } from './chromium.ts'
import { freePort } from './free-port.ts'
import { CLIENT, startOidcProvider } from './oidc-providers.ts'
import { addTotp, timeForCodes } from './second-factor.ts'
import { comeBack, startShop } from './shop-process.ts'
import { type StoreOverrides, startStore, type TestStore } from './store.ts'
import { addVirtualAuthenticator } from './virtual-authenticator.ts'

async function openShop(t: TestContext, port: number, overrides: StoreOverrides = {}) {
  const shopPort = await freePort()
  const origin = `http://localhost:${shopPort}`
  const baseUrl = `http://localhost:${port}`
  const store = await startStore(t, { port, baseUrl, corsOrigins: [origin], ...overrides })
  await startShop(t, shopPort, baseUrl)
  const { page, complaints } = await (await openBrowser(t)).open()
  await page.goto(origin)
  return { store, page, complaints }
}

const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })
const dialogOf = (page: Page) => page.getByRole('dialog', { name: 'Second factor' })

async function enterPassword(page: Page, { email, password }: { email: string; password: string }): Promise<void> {
  await button(page, 'Sign in').click()
  await page.getByLabel('E-mail').fill(email)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('dialog', { name: 'Sign in' }).getByRole('button', { name: 'Sign in', exact: true }).click()
  await dialogOf(page).waitFor()
}

async function enterCode(page: Page, code: string): Promise<void> {
  await page.getByLabel('Code of your authenticator app').fill(code)
  await page.getByLabel('Code of your authenticator app').press('Enter')
}

const proofsOf = async ({ pool }: TestStore) =>
  (await pool.query('select authenticated_by from sessions where revoked_at is null order by id desc limit 1')).rows[0]?.authenticated_by

const refusal = (status: string) => `error: Failed to load resource: the server responded with a status of ${status}`
const [FORBIDDEN, UNPROCESSABLE] = [refusal('403 (Forbidden)'), refusal('422 (Unprocessable Entity)')]

test('a customer with an authenticator app signs in with a code, a recovery code or a passkey after the password', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { store, page, complaints } = await openShop(t, await freePort())
  const ada = await store.register()
  const { codeAt, recoveryCodes } = await addTotp(store, ada.token, await timeForCodes())
  await addVirtualAuthenticator(page)

  await enterPassword(page, ada)
  await assertAccessible(page, 'second factor')
  assert.equal(await button(page, 'Use a passkey instead').isVisible(), false, 'there is none yet')
  await enterCode(page, 'AAAA-BBBB-CCCC-DDDD')
  await page.getByText('That is wrong, or was used already.').waitFor()
  await enterCode(page, codeAt(new Date()))
  await button(page, 'Sign out').waitFor()
  assert.deepEqual(await proofsOf(store), ['password', 'totp'])
  await button(page, 'Account').click()
  await button(page, 'Add a passkey').click()
  await page.getByText('From now on you can sign in with a passkey.').waitFor()
  await page.keyboard.press('Escape')

  await button(page, 'Sign out').click()
  await enterPassword(page, ada)
  await enterCode(page, recoveryCodes?.[0]?.toLowerCase() ?? '')
  await button(page, 'Sign out').waitFor()
  assert.deepEqual(await proofsOf(store), ['password', 'recovery_code'])

  await button(page, 'Sign out').click()
  await enterPassword(page, ada)
  await button(page, 'Use a passkey instead').click()
  await button(page, 'Sign out').waitFor()
  assert.deepEqual(await proofsOf(store), ['password', 'passkey'])
  assert.deepEqual(complaints, [FORBIDDEN, UNPROCESSABLE, FORBIDDEN, FORBIDDEN])
})

test('a customer who closes the question for the second factor is not signed in, and can begin again', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page } = await openShop(t, await freePort())
  const ada = await store.register()
  const { codeAt } = await addTotp(store, ada.token, await timeForCodes())
  await enterPassword(page, ada)
  await page.keyboard.press('Escape')
  const account = page.getByRole('dialog', { name: 'Sign in' })
  await account.getByRole('button', { name: 'Sign in', exact: true }).click()
  await enterCode(page, codeAt(new Date()))
  await button(page, 'Sign out').waitFor()
  assert.deepEqual(await proofsOf(store), ['password', 'totp'])
})

test('a customer signs in with a provider, after it with the code where the account has an app, and sees a refusal', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const port = await freePort()
  const { issuer, state } = await startOidcProvider(t, { redirectUri: `http://localhost:${port}/auth/oidc/acme/callback` })
  const { store, page, complaints } = await openShop(t, port, { oidcProviders: [{ id: 'acme', name: 'Acme', issuer, ...CLIENT }] })
  const signIn = async () => {
    await button(page, 'Sign in').click()
    await button(page, 'Sign in with Acme').click()
  }
  state.isDenying = true
  await signIn()
  await page.getByText('You are not signed in: it was declined there.').waitFor()
  state.isDenying = false
  state.person = { sub: 'grace', email: 'grace@example.com', email_verified: true, name: 'Grace' }
  await signIn()
  await button(page, 'Sign out').waitFor()
  assert.equal(new URL(page.url()).hash, '', 'no code stays in the address')
  assert.deepEqual(await proofsOf(store), ['oidc'])
  await page.reload()
  await button(page, 'Sign out').click()
  await button(page, 'Sign in').waitFor()

  const grace = (await store.pool.query(`select id from users where email = 'grace@example.com'`)).rows[0].id
  const ada = await store.register()
  const { codeAt } = await addTotp(store, ada.token, await timeForCodes())
  await store.pool.query('update totp_authenticators set user_id = $1 where user_id = $2', [grace, ada.id])
  await signIn()
  await dialogOf(page).waitFor()
  await page.getByText('Nothing matches.').waitFor({ state: 'attached' })
  await enterCode(page, codeAt(new Date()))
  await button(page, 'Sign out').waitFor()
  assert.deepEqual(await proofsOf(store), ['oidc', 'totp'])
  assert.deepEqual(complaints, [FORBIDDEN])
})

test('a customer comes back from a provider to the orders, and to the order that was begun', { skip: NO_CHROMIUM }, async (t) => {
  const port = await freePort()
  const { issuer, state } = await startOidcProvider(t, { redirectUri: `http://localhost:${port}/auth/oidc/acme/callback` })
  const { store, page, complaints } = await openShop(t, port, { oidcProviders: [{ id: 'acme', name: 'Acme', issuer, ...CLIENT }] })
  state.person = { sub: 'grace', email: 'grace@example.com', email_verified: true, name: 'Grace' }
  const origin = new URL(page.url()).origin
  await page.goto(`${origin}/orders`)
  await button(page, 'Sign in with Acme').click()
  await page.getByText('No orders yet.').waitFor()
  await button(page, 'Sign out').click()
  await button(page, 'Sign in').waitFor()

  await store.addProduct({ name: 'Lamp' })
  await page.goto(`${origin}/products/lamp`)
  await button(page, 'Add to basket').click()
  await page.goto(`${origin}/checkout`)
  await page.getByLabel('I have an account').check()
  await button(page, 'Other ways to sign in').click()
  await button(page, 'Sign in with Acme').click()
  const signedIn = page.getByText('grace@example.com', { exact: false })
  await signedIn.waitFor()
  // The header changes who orders, too.
  await button(page, 'Not you? Sign out').click()
  await page.getByLabel('Order without an account').waitFor()
  await button(page, 'Sign in').click()
  await button(page, 'Sign in with Acme').click()
  await signedIn.waitFor()
  for (const [label, text] of Object.entries({ Name: 'Grace', Street: 'Ring 1', 'Postal code': '1010', City: 'Wien' }))
    await page.getByLabel(label, { exact: true }).fill(text)
  await page.getByLabel('Country').selectOption('AT')
  await button(page, 'Order').click()
  await page.getByText(/^Thank you/).waitFor()
  const { rows } = await store.pool.query('select users.role, users.email from orders join users on users.id = orders.user_id')
  assert.deepEqual(rows, [{ role: 'customer', email: 'grace@example.com' }])
  assert.deepEqual(complaints, [])
})

test('signing out, and a session that ended elsewhere, leave nothing of the customer on the page', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page } = await openShop(t, await freePort())
  const ada = await store.register()
  const product = await store.addProduct({ name: 'Lamp' })
  const { json } = await store.call('POST', '/orders', { token: ada.token, body: { items: [{ product_id: product.id, quantity: 1 }] } })
  const { origin } = new URL(page.url())
  const signIn = async () => {
    await page.getByLabel('E-mail').fill(ada.email)
    await page.getByLabel('Password').fill(ada.password)
    await page.getByLabel('Password').press('Enter')
  }
  const lamp = page.getByText('1 × Lamp')
  await page.goto(`${origin}/orders`)
  await signIn()
  await lamp.waitFor()
  await page.evaluate(`sessionStorage.setItem('order-link', 'x'); sessionStorage.setItem('shop.typed', '{"city":"Wien"}')`)
  await button(page, 'Sign out').click()
  await page.waitForURL(`${origin}/`)
  assert.equal(await page.evaluate(`['order-link', 'shop.typed'].some((key) => sessionStorage.getItem(key) !== null)`), false)

  const endSessions = () => store.pool.query('update sessions set revoked_at = now() where revoked_at is null')
  const nothing = page.getByRole('main').getByText(/^Sign in to see your orders?\.$/)
  const signInFromHeader = async () => {
    await button(page, 'Sign in').click()
    await signIn()
    await page.getByText(json.number).first().waitFor()
  }
  for (const path of ['/orders', `/order?id=${json.id}`]) {
    await page.goto(origin + path)
    await page.getByRole('dialog', { name: 'Sign in' }).waitFor()
    await page.keyboard.press('Escape')
    await nothing.waitFor()
    await signInFromHeader()
    await endSessions()
    await nothing.waitFor()
    assert.equal(await page.getByText(json.number).count(), 0, path)
    await signInFromHeader()
    await endSessions()
    await page.reload()
    await nothing.waitFor()
    await signInFromHeader()
    // Another page of the tab has ended the session, and the customer goes back.
    await page.evaluate(`sessionStorage.clear()`)
    await comeBack(page)
    await page.getByRole('dialog', { name: 'Sign in' }).waitFor()
    assert.equal(await page.getByText(json.number).count(), 0, path)
  }
  await page.evaluate(`localStorage.setItem('shop.basket', '[{"id":"${product.id}","price":{"amount":1,"currency":"EUR"},"quantity":1}]')`)
  for (const path of ['/checkout', '/']) {
    await page.goto(origin)
    await button(page, 'Sign in').click()
    await signIn()
    await button(page, 'Sign out').waitFor()
    await page.goto(origin + path)
    await button(page, 'Account').click()
    await page.getByText(`${ada.email} (`).waitFor()
    await page.evaluate(`sessionStorage.clear()`)
    await comeBack(page)
    await button(page, 'Sign in').waitFor()
    assert.equal(await page.getByText(ada.email).count(), 0, path)
  }
})

test('a double click opens one dialog', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page } = await openShop(t, await freePort())
  const ada = await store.register()
  await store.addProduct({ name: 'Lamp' })
  const { origin } = new URL(page.url())
  const assertOne = async (name: string) => {
    const { promise, resolve } = Promise.withResolvers<void>()
    await page.route('**/auth/oidc', (route) => promise.then(() => route.continue()))
    await button(page, name).dblclick()
    resolve()
    await page.getByRole('dialog').waitFor()
    await page.unrouteAll({ behavior: 'wait' })
    assert.equal(await page.locator('dialog').count(), 1, name)
    await page.keyboard.press('Escape')
    await page.locator('dialog').waitFor({ state: 'detached' })
    assert.equal(await page.evaluate('document.activeElement.textContent'), name, 'the focus is where it was')
  }
  await page.goto(`${origin}/products/lamp`)
  await button(page, 'Add to basket').click()
  await page.goto(`${origin}/checkout`)
  await page.getByLabel('I have an account').check()
  await assertOne('Other ways to sign in')
  await assertOne('Sign in')
  await button(page, 'Sign in').click()
  const dialog = page.getByRole('dialog', { name: 'Sign in' })
  await dialog.getByLabel('E-mail').fill(ada.email)
  await dialog.getByLabel('Password').fill(ada.password)
  await dialog.getByLabel('Password').press('Enter')
  await button(page, 'Sign out').waitFor()
  await assertOne('Account')
})

test('tabs that the browser has duplicated stay signed in, and sign out together', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page } = await openShop(t, await freePort())
  const ada = await store.register()
  await button(page, 'Sign in').click()
  await page.getByLabel('E-mail').fill(ada.email)
  await page.getByLabel('Password').fill(ada.password)
  await page.getByLabel('Password').press('Enter')
  await button(page, 'Sign out').waitFor()
  const { origin } = new URL(page.url())
  const tokens = `sessionStorage.getItem('storefront.tokens')`
  const copy = await page.context().newPage()
  await copy.goto(origin)
  const stranger = await page.context().newPage()
  await stranger.goto(origin)
  await copy.evaluate(`sessionStorage.setItem('storefront.tokens', ${JSON.stringify(await page.evaluate(tokens))})`)
  await copy.reload()
  await button(copy, 'Sign out').waitFor()
  for (const tab of [page, copy, page]) {
    // The access token is refused, so the tab refreshes it. Its predecessor counts as stolen.
    await tab.evaluate(`sessionStorage.setItem('storefront.tokens', ${tokens}.replace(/"access_token":"[^"]+"/, '"access_token":"x"'))`)
    await button(tab, 'Account').click()
    await tab.getByText(`${ada.email} (`).waitFor()
    await tab.keyboard.press('Escape')
    await store.pool.query(`update refresh_tokens set rotated_at = rotated_at - interval '1 minute'`)
  }
  await button(stranger, 'Sign in').waitFor()
  await button(page, 'Sign out').click()
  await button(copy, 'Sign in').waitFor()
})
