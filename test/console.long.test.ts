import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, NARROW, openConsole, signIn } from './console-harness.ts'
import { eventually } from './eventually.ts'

test('an operator signs in, stays signed in, and signs out', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, operator, complaints, address } = await openConsole(t, NARROW)
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  await assertUsable(page, 'overview')
  await page.reload()
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  assert.equal(
    await page.evaluate(() => (globalThis as { document?: { cookie: string } }).document?.cookie),
    '',
    'no script reads the cookie',
  )
  assert.equal(await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }])'), '[{},{}]')
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByText('You have signed out.').waitFor()
  await assertUsable(page, 'sign-in')
  await page.reload()
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  const { rows } = await store.pool.query('select count(*)::int as open from sessions where user_id = $1 and revoked_at is null', [
    operator.id,
  ])
  // The one of the test itself.
  assert.equal(rows[0].open, 1)
  await signIn(page, operator)
  assert.deepEqual(complaints, [])
  assert.equal(page.url().startsWith(address), true)
})

test('a customer is not let in, and the form says why', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page } = await openConsole(t)
  const customer = await store.register()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByLabel('E-mail').fill(customer.email)
  await page.getByLabel('Password').fill(customer.password)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByText('This account is no operator.').waitFor()
})

test('a refused poll is repeated at its usual pace, or when the store says, and its error goes away', { skip: NO_CHROMIUM }, async (t) => {
  const { page } = await openConsole(t)
  const refusals: { status: number; detail: string; headers: Record<string, string> }[] = [
    { status: 404, detail: 'There is nothing.', headers: {} },
    { status: 429, detail: 'Too many requests.', headers: { 'retry-after': '3' } },
  ]
  // This precedes the route: the jump wakes the page that is open.
  await page.clock.install()
  await page.clock.pauseAt(Date.now() + 60_000)
  let asked = 0
  await page.route('**/admin/figures*', (route) => {
    const refusal = refusals[asked++]
    if (refusal === undefined) return route.continue()
    const { status, headers, detail } = refusal
    return route.fulfill({
      status,
      headers,
      contentType: 'application/problem+json',
      body: JSON.stringify({ type: '/problems/refused', title: 'Refused', status, detail, code: 'refused', request_id: '1' }),
    })
  })
  await page.reload()
  const error = page.locator('.error')
  /** The time passes, and what the page sends then has arrived. */
  const pass = async (ms: number) => {
    await page.clock.runFor(ms)
    await page.evaluate("fetch('console').then((answer) => answer.text())")
  }
  await error.getByText('There is nothing.').waitFor()
  await pass(9_900)
  assert.equal(asked, 1)
  await pass(200)
  await error.getByText('Too many requests.').waitFor()
  // The refusal has arrived anywhere within the last 200 ms.
  await pass(2_700)
  assert.equal(asked, 2)
  await pass(500)
  await error.filter({ hasNotText: /./ }).waitFor({ state: 'attached' })
  assert.equal(asked, 3)
})

test('says "signed out" only when the store has ended the session, and tries until then', { skip: NO_CHROMIUM }, async (t) => {
  const { page, store, operator, complaints } = await openConsole(t)
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  const countOpen = async () =>
    (await store.pool.query('select count(*)::int as open from sessions where user_id = $1 and revoked_at is null', [operator.id])).rows[0]
      .open
  const before = await countOpen()
  const seen: string[] = []
  let isAway = true
  await page.route('**/console/session', async (route) => {
    seen.push(route.request().method())
    if (!isAway) return route.continue()
    return seen.length === 1 ? route.abort() : route.fulfill({ status: 503 })
  })
  page.on('request', (request) => {
    if (request.url().endsWith('/refresh')) seen.push('refresh')
  })
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByText('You are still signed in: the store has not ended your session.').waitFor()
  await assertUsable(page, 'not signed out')
  assert.equal(await page.getByText('You have signed out.').count(), 0)
  assert.equal(await countOpen(), before)
  await eventually(async () => seen.length >= 2, { what: 'a second attempt' })
  isAway = false
  await page.getByText('You have signed out.').waitFor()
  assert.equal(await countOpen(), before - 1)
  assert.deepEqual([...new Set(seen)], ['DELETE'])
  assert.deepEqual(
    complaints.filter((text) => !text.includes('Failed to load resource')),
    [],
  )
  await page.unroute('**/console/session')
  await signIn(page, operator)
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
})
