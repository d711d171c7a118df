import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, NARROW, openConsole, signIn, withoutRefusals } from './console-harness.ts'
import { login, mailFor, requestChange } from './email-changes.ts'

const NEXT = 'grace@new.example'
const SIGN_IN = 'Sign in with the present e-mail address of your account.'

test('an operator changes the e-mail address by the mailed link, and the former mailbox reverts it', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { store, page, operator, complaints, address } = await openConsole(t, NARROW)
  await page.getByRole('link', { name: 'Account', exact: true }).click()
  await page.getByText(operator.email).waitFor()
  await page.getByText('not proven').waitFor()
  await assertUsable(page, 'account')
  await store.pool.query(`update sessions set authenticated_at = now() - interval '11 minutes'`)
  await page.getByRole('button', { name: 'Change the e-mail address' }).click()
  await page.getByLabel('New e-mail address').fill(operator.email)
  await page.getByRole('button', { name: 'Continue' }).click()
  const proof = page.getByRole('dialog', { name: 'Confirm that it is you' })
  await proof.getByLabel('Password').fill(operator.password)
  await proof.getByRole('button', { name: 'Confirm' }).click()
  await page.getByRole('alert').getByText('is the address of the account').waitFor()
  await assertUsable(page, 'another address')
  await page.getByLabel('New e-mail address').fill(NEXT)
  await page.keyboard.press('Enter')
  await page.getByText('A mail with a link is on its way to the new address.').waitFor()
  await page.getByText(NEXT).waitFor()

  const link = `${address}#confirm-email=${await mailFor(store, NEXT, 'confirm_email')}`
  await page.goto(link)
  await page.getByText(`Your e-mail address is ${NEXT}.`).waitFor()
  await page.getByText('proven', { exact: true }).waitFor()
  await page.getByRole('heading', { level: 2, name: 'Account' }).waitFor()
  assert.equal(page.url(), `${address}#account`, 'the address has no token any more')
  await page.goto(link)
  await page.getByText('The link was used already or is too old').waitFor()
  await assertUsable(page, 'a link that was used')

  const revert = `${address}#revert-email=${await mailFor(store, operator.email, 'email_changed')}`
  await page.goto(revert)
  await page.getByRole('heading', { name: 'Change of your e-mail address' }).waitFor()
  assert.equal(page.url(), address)
  await assertUsable(page, 'revert')
  assert.equal((await login(store, { ...operator, email: NEXT })).status, 200, 'opening the page reverts nothing')
  await page.getByRole('button', { name: 'It was not me' }).press('Enter')
  await page.getByText('Your account has its former address').waitFor()
  await page.goto(revert)
  await page.getByRole('button', { name: 'It was not me' }).click()
  await page.getByText('The link was used already or is too old').waitFor()

  await page.goto(`${address}#reset-password=${await mailFor(store, operator.email, 'reset_password')}`)
  await page.getByLabel('New password').fill('quite another passphrase')
  await page.getByLabel('The same again').fill('quite another passphrase')
  await page.getByRole('button', { name: 'Set the password' }).click()
  await page.getByText('Your password is set.').waitFor()
  await signIn(page, { email: operator.email, password: 'quite another passphrase' })
  assert.deepEqual(withoutRefusals(complaints), [])
})

test('a link that is opened where nobody is signed in asks for the sign-in first; a proof of the own address works alike', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { store, page, operator, complaints, address } = await openConsole(t)
  await page.getByRole('link', { name: 'Account', exact: true }).click()
  await page.getByRole('button', { name: 'Prove the address' }).click()
  await page.getByText('A mail with a link is on its way to your address.').waitFor()
  const proof = await mailFor(store, operator.email, 'confirm_email')
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByText('You have signed out.').waitFor()
  await page.goto(`${address}#confirm-email=${proof}`)
  await page.getByText(SIGN_IN).waitFor()
  await assertUsable(page, 'sign in')
  await signIn(page, operator)
  await page.getByText(`Your e-mail address is ${operator.email}.`).waitFor()
  await page.getByText('proven', { exact: true }).waitFor()
  assert.equal(await page.getByRole('button', { name: 'Prove the address' }).count(), 0)

  // The confirmation does not reach the store at first.
  const { json } = await login(store, operator)
  assert.equal((await requestChange(store, json.access_token, NEXT)).status, 202)
  const calls = '**/me/email/confirm'
  await page.route(calls, (route) => route.abort())
  const tried = page.waitForRequest(calls)
  await page.goto(`${address}#confirm-email=${await mailFor(store, NEXT, 'confirm_email')}`)
  await tried
  await page.unroute(calls)
  await page.getByText(`Your e-mail address is ${NEXT}.`).waitFor()
  assert.deepEqual(
    withoutRefusals(complaints).filter((text) => !text.includes('net::ERR_FAILED')),
    [],
  )
})
