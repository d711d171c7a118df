import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Page } from 'playwright-core'
import { NO_CHROMIUM } from './chromium.ts'
import { openConsoleOf, signIn, withoutRefusals } from './console-harness.ts'
import { eventually } from './eventually.ts'
import { registerOperator } from './register-operator.ts'
import { type Account, startStore } from './store.ts'

const store = await startStore({ after }, { isAdminFactorRequired: false })

const link = (page: Page, name: string) => page.getByRole('link', { name, exact: true })
const dialog = (page: Page, name: string) => page.getByRole('dialog', { name })

/** The screen of API keys, with the dialog that makes one, half filled in. */
async function beginKey(page: Page, address: string, name: string): Promise<void> {
  await page.goto(`${address}#settings?section=keys`)
  await page.getByRole('button', { name: 'Make a key' }).click()
  await dialog(page, 'Make an API key').getByLabel('Name').fill(name)
}

/** Signs in in the dialog above the screen. */
async function signInAbove(page: Page, { email, password }: Account): Promise<void> {
  const again = dialog(page, 'Sign in again')
  await again.getByLabel('E-mail').fill(email)
  await again.getByLabel('Password').fill(password)
  await again.getByRole('button', { name: 'Sign in', exact: true }).click()
}

/** Signs in as another tab does: the cookie is that of all tabs. */
async function signInElsewhere(page: Page, { email, password }: Account): Promise<void> {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ email, password }) }
  assert.equal(await page.evaluate(async (sent) => (await fetch('console/session', sent)).status, init), 200)
}

/** Ends an operator's sessions, and waits until the store refuses their tokens. */
async function endSessions({ id, token }: Account): Promise<void> {
  await store.pool.query('update sessions set revoked_at = now() where user_id = $1 and revoked_at is null', [id])
  await eventually(async () => (await store.call('GET', '/me', { token })).status === 401, { what: 'the end of the sessions' })
}

const keysNamed = async (name: string) =>
  (await store.pool.query('select count(*)::int as count from api_keys where name = $1', [name])).rows[0].count as number

test('the operator is asked before typed text is lost: by Escape, by Back, by a reload', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { page, address, complaints, show } = await openConsoleOf(t, store)
  await show('Customers')
  await beginKey(page, address, 'the till')
  const field = dialog(page, 'Make an API key').getByLabel('Name')

  await page.keyboard.press('Escape')
  await dialog(page, 'Close without sending?').getByRole('button', { name: 'Cancel' }).click()
  assert.equal(await field.inputValue(), 'the till')

  await page.goBack()
  await dialog(page, 'Leave without saving?').getByText('1 change is not saved.').waitFor()
  await dialog(page, 'Leave without saving?').getByRole('button', { name: 'Cancel' }).click()
  assert.equal(await field.inputValue(), 'the till')

  const asked: string[] = []
  page.once('dialog', (question) => {
    asked.push(question.type())
    void question.dismiss()
  })
  await page.evaluate('location.reload()').catch(() => {})
  await eventually(async () => asked.length > 0, { what: 'a question before the reload' })
  assert.deepEqual(asked, ['beforeunload'])
  assert.equal(await field.inputValue(), 'the till')

  await page.keyboard.press('Escape')
  await dialog(page, 'Close without sending?').getByRole('button', { name: 'Close', exact: true }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await link(page, 'Customers').click()
  await page.getByRole('heading', { level: 2, name: 'Customers' }).waitFor()
  assert.equal(await page.getByRole('dialog').count(), 0, 'nothing is left to lose')
  assert.deepEqual(complaints, [])
})

test('a secret that is shown once does not go without a question', { skip: NO_CHROMIUM }, async (t) => {
  const { page, address, complaints } = await openConsoleOf(t, store)
  await beginKey(page, address, 'the scale')
  await dialog(page, 'Make an API key').getByRole('checkbox').first().check()
  await dialog(page, 'Make an API key').getByRole('button', { name: 'Make the key' }).click()
  await page.getByRole('button', { name: 'I have stored it' }).waitFor()
  await link(page, 'Customers').click()
  await dialog(page, 'Leave without saving?').getByText('The key is shown only once.').waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'Sign out' }).click()
  await dialog(page, 'Leave without saving?').getByRole('button', { name: 'Cancel' }).click()
  await page.getByRole('button', { name: 'I have stored it' }).click()
  await link(page, 'Customers').click()
  await page.getByRole('heading', { level: 2, name: 'Customers' }).waitFor()
  assert.deepEqual(complaints, [])
})

test('a session that ends takes nothing that was typed: the operator signs in above it, and the form is sent', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { page, address, operator, complaints } = await openConsoleOf(t, store)
  await beginKey(page, address, 'the gate')
  const form = dialog(page, 'Make an API key')
  await form.getByRole('checkbox').first().check()
  const sent = await page.waitForRequest((request) => request.headers().authorization !== undefined)
  const token = sent.headers().authorization?.replace('Bearer ', '') ?? ''
  await store.pool.query('update sessions set revoked_at = now() where user_id = $1 and revoked_at is null', [operator.id])
  await eventually(async () => (await store.call('GET', '/me', { token })).status === 401, { what: 'the end of the session' })
  await form.getByRole('button', { name: 'Make the key' }).click()
  await dialog(page, 'Sign in again').getByText('What you entered stays.').waitFor({ timeout: 60_000 })
  assert.equal(await form.getByLabel('Name').inputValue(), 'the gate')
  await signInAbove(page, operator)
  await page.getByRole('button', { name: 'I have stored it' }).waitFor()
  assert.equal(await keysNamed('the gate'), 1)
  assert.deepEqual(withoutRefusals(complaints), [])
})

test('a refused call is not repeated for another operator, who has signed in in another tab', { skip: NO_CHROMIUM }, async (t) => {
  const other = await registerOperator(store)
  const { page, address, operator, complaints } = await openConsoleOf(t, store)
  await beginKey(page, address, 'the safe')
  const form = dialog(page, 'Make an API key')
  await form.getByRole('checkbox').first().check()
  let isFirst = true
  await page.route('**/admin/api-keys', async (route) => {
    if (isFirst && route.request().method() === 'POST') {
      isFirst = false
      await signInElsewhere(page, other)
      await endSessions(operator)
    }
    await route.continue()
  })
  await form.getByRole('button', { name: 'Make the key' }).click()
  await dialog(page, 'Sign in again').getByText('What you entered stays.').waitFor({ timeout: 60_000 })
  assert.equal(await keysNamed('the safe'), 0)
  await signInAbove(page, operator)
  await page.getByRole('button', { name: 'I have stored it' }).waitFor()
  const { rows } = await store.pool.query('select created_by from api_keys where name = $1', ['the safe'])
  assert.deepEqual(rows, [{ created_by: operator.id }])
  assert.deepEqual(withoutRefusals(complaints), [])
})

test('a page with nothing to lose starts again for another operator, who has signed in in another tab', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const other = await registerOperator(store, 'support')
  const { page, operator, complaints, show } = await openConsoleOf(t, store)
  await page.getByRole('banner').getByText('admin', { exact: true }).waitFor()
  /** The operator of each call, and when the page was loaded. */
  const sent: string[] = []
  page.on('request', (request) => {
    const claims = request.headers().authorization?.split('.')[1]
    if (request.isNavigationRequest()) sent.push('page')
    else if (claims !== undefined) sent.push(JSON.parse(Buffer.from(claims, 'base64url').toString()).sub)
  })
  await signInElsewhere(page, other)
  await endSessions(operator)
  await show('Customers')
  await page.getByRole('banner').getByText('support', { exact: true }).waitFor()
  assert.deepEqual([...new Set(sent.slice(0, sent.indexOf('page')))], [operator.id])
  assert.deepEqual(withoutRefusals(complaints), [])
})

test('the form of a product accepts no input while it is saved, and has the focus afterwards', { skip: NO_CHROMIUM }, async (t) => {
  const { page, address, complaints } = await openConsoleOf(t, store)
  const { id } = await store.addProduct({ name: 'Lamp' })
  const [asked, allowed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  await page.route(`**/admin/products/${id}`, async (route) => {
    if (route.request().method() === 'PATCH') {
      asked.resolve()
      await allowed.promise
    }
    await route.continue()
  })
  await page.goto(`${address}#products?product=${id}`)
  const name = page.getByLabel('Name', { exact: true })
  await name.fill('Blue lamp')
  await page.getByText('1 change', { exact: true }).waitFor()
  await name.press('Enter')
  await asked.promise
  const isTrue = (condition: string) => eventually(async () => (await page.evaluate(condition)) as boolean, { what: condition })
  await isTrue(`document.activeElement.closest('[inert]') === null`)
  await page.keyboard.type(' too late')
  assert.equal(await name.inputValue(), 'Blue lamp')
  allowed.resolve()
  await page.getByText('Blue lamp is saved.').waitFor()
  await isTrue(`document.activeElement.name === 'name'`)
  await page.keyboard.press('End')
  await page.keyboard.type(' of glass')
  await page.getByText('1 change', { exact: true }).waitFor()
  assert.equal(await name.inputValue(), 'Blue lamp of glass')
  assert.deepEqual(complaints, [])
})

test('after a lost answer the page does not claim that nothing was done', { skip: NO_CHROMIUM }, async (t) => {
  const { page, address } = await openConsoleOf(t, store)
  await beginKey(page, address, 'the door')
  const form = dialog(page, 'Make an API key')
  await form.getByRole('checkbox').first().check()
  await page.route('**/admin/api-keys', async (route) => {
    if (route.request().method() !== 'POST') return route.continue()
    await route.fetch()
    await route.abort()
  })
  await form.getByRole('button', { name: 'Make the key' }).click()
  await form.getByText('It may have done this all the same: look before you send it again.').waitFor()
  assert.equal(await keysNamed('the door'), 1)
  assert.equal(await form.getByLabel('Name').inputValue(), 'the door')
})

test('what is refused or answered by something else is said as it is', { skip: NO_CHROMIUM }, async (t) => {
  const { page, address, operator } = await openConsoleOf(t, store)
  await page.goto(`${address}#customers?customer=0199a0e0-0000-7000-8000-000000000000`)
  await page.getByRole('main').getByText('There is no such customer.').waitFor()
  await eventually(async () => (await page.getByText('Loading …').filter({ visible: true }).count()) === 0, {
    what: 'no text that promises an answer',
  })

  await page.route('**/console/session/refresh', (route) =>
    route.fulfill({
      status: 403,
      contentType: 'application/problem+json',
      body: '{"status":403,"code":"forbidden","detail":"Only the page of the console may do this."}',
    }),
  )
  await page.goto('about:blank')
  await page.goto(address)
  await page.getByText('Only the page of the console may do this.').waitFor()
  await page.unroute('**/console/session/refresh')
  await page.route('**/console/session', (route) => route.fulfill({ status: 502, contentType: 'text/html', body: '<html>Bad gateway' }))
  await page.getByLabel('E-mail').fill(operator.email)
  await page.getByLabel('Password').fill(operator.password)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await page.getByRole('alert').getByText('The store did not answer.').waitFor()
  await page.unroute('**/console/session')
  await signIn(page, operator)
})
