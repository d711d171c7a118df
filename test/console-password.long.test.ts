import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newestToken } from './account-mails.ts'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, NARROW, openConsole, signIn } from './console-harness.ts'

const PASSWORD = 'the passphrase of grace'

/** Chromium reports each refusal. */
const withoutRefusals = (complaints: string[]) => complaints.filter((text) => !/status of 422/.test(text))

test('an invited operator chooses a password by the mailed link, once, and signs in with it', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { store, page, operator, complaints, address } = await openConsole(t, NARROW)
  const email = 'grace@shop.example'
  const body = { email, role: 'support' }
  assert.equal((await store.call('POST', '/admin/operators', { token: operator.token, body })).status, 201)
  const link = `${address}#operator-invited=${await newestToken(store, 'operator_invited')}`
  const choose = async (password: string, repeated = password) => {
    await page.getByLabel('New password').fill(password)
    await page.getByLabel('The same again').fill(repeated)
    await page.getByRole('button', { name: 'Set the password' }).click()
  }
  // This tab has the console open already, as its own admin.
  await page.goto(link)
  await page.getByRole('heading', { name: 'Choose a password' }).waitFor()
  assert.equal(page.url(), address, 'the address has no token any more')
  assert.equal(await page.getByRole('navigation').count(), 0)
  await assertUsable(page, 'choose a password')
  await choose(PASSWORD, 'another')
  await page.getByText('The two are not the same.').waitFor()
  await choose('short')
  await page.getByRole('alert').getByText('characters').waitFor()
  await choose(PASSWORD)
  await page.getByText('Your password is set. Sign in with it.').waitFor()
  await signIn(page, { email, password: PASSWORD })
  await page.locator('#account span').getByText('support').waitFor()

  await page.goto('about:blank')
  await page.goto(link)
  await choose(PASSWORD)
  await page.getByText('The link was used already or is too old.').waitFor()
  await page.getByLabel('E-mail').fill(email)
  await page.getByRole('button', { name: 'Forgot password' }).click()
  await page.getByText('a mail with a link is on its way').waitFor()
  await assertUsable(page, 'sign in')
  await page.goto('about:blank')
  await page.goto(`${address}#reset-password=${await newestToken(store, 'reset_password')}`)
  await choose('quite another passphrase')
  await page.getByText('Your password is set.').waitFor()
  await signIn(page, { email, password: 'quite another passphrase' })
  assert.deepEqual(withoutRefusals(complaints), [])
})
