import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertAccessible, NO_CHROMIUM, openBrowser } from './chromium.ts'
import { freePort } from './free-port.ts'
import { startShop } from './shop-process.ts'
import { startStore } from './store.ts'
import { addVirtualAuthenticator } from './virtual-authenticator.ts'

test('a customer adds a passkey and signs in with it, without a password, until it is removed', { skip: NO_CHROMIUM }, async (t) => {
  const [port, shopPort] = [await freePort(), await freePort()]
  const origin = `http://localhost:${shopPort}`
  const store = await startStore(t, { port, baseUrl: `http://localhost:${port}`, corsOrigins: [origin] })
  await startShop(t, shopPort, `http://localhost:${port}`)
  const { page, complaints } = await (await openBrowser(t)).open()
  await addVirtualAuthenticator(page)
  await page.goto(origin)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await assertAccessible(page, 'account')
  await page.getByLabel('E-mail').fill('ada@example.com')
  await page.getByLabel('Password').fill('correct horse battery')
  await page.getByRole('button', { name: 'Create an account' }).click()
  await page.getByRole('button', { name: 'Account', exact: true }).click()
  await page.getByRole('button', { name: 'Add a passkey' }).click()
  await page.getByText('From now on you can sign in with a passkey.').waitFor()
  await assertAccessible(page, 'signed in')
  await page.keyboard.press('Escape')

  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('button', { name: 'Use a passkey' }).click()
  await page.getByRole('button', { name: 'Sign out' }).waitFor()
  const { rows } = await store.pool.query(`select authenticated_by from sessions where revoked_at is null`)
  assert.deepEqual(rows, [{ authenticated_by: ['passkey'] }])

  await page.getByRole('button', { name: 'Sign out' }).click()
  await store.pool.query('delete from passkeys')
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('button', { name: 'Use a passkey' }).click()
  await page.getByText('This passkey is no longer one of your account.').waitFor()
  assert.deepEqual(complaints, ['error: Failed to load resource: the server responded with a status of 422 (Unprocessable Entity)'])
})
