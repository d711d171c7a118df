import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { newestToken } from './account-mails.ts'
import { makeKey } from './api-keys.ts'
import { NO_CHROMIUM, untilQuiet } from './chromium.ts'
import { assertUsable, HOSTILE, NARROW, openConsole, withoutRefusals } from './console-harness.ts'
import { registerOperator } from './register-operator.ts'
import { addTotp, timeForCodes } from './second-factor.ts'
import type { TestStore } from './store.ts'

const rowOf = (page: Page, text: string) => page.getByRole('row').filter({ hasText: text })
const dialog = (page: Page, name: string) => page.getByRole('dialog', { name })
const shownKeyOf = async (page: Page, name: string) => {
  await page.getByRole('heading', { level: 3, name: `The key ${name}` }).waitFor()
  return (await page.getByText(/^storefront_key_[0-9a-f]{32}_\w{43}_\w{6}$/).textContent()) ?? ''
}
const statusWith = async ({ call }: Pick<TestStore, 'call'>, token: string) => (await call('GET', '/admin/orders', { token })).status

test('an operator makes a key, copies it this once, rotates and revokes it, with the keyboard', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { store, page, operator, complaints } = await openConsole(t, NARROW)
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
  await makeKey(store, ['stock:read'], { name: 'Of a command' })
  await page.getByRole('link', { name: 'Settings', exact: true }).press('Enter')
  await page.getByRole('link', { name: 'API keys' }).press('Enter')
  await page.getByRole('heading', { level: 2, name: 'API keys' }).waitFor()
  await rowOf(page, 'Of a command').getByText('a command', { exact: true }).waitFor()
  assert.equal(await page.getByRole('button', { name: 'Rotate Of a command' }).count(), 0, 'only its maker rotates a key')
  await assertUsable(page, 'the keys')

  await page.getByRole('button', { name: 'Make a key' }).press('Enter')
  const making = dialog(page, 'Make an API key')
  await making.getByLabel('Name').fill(HOSTILE)
  await assertUsable(page, 'the form for a key')
  await making.getByRole('button', { name: 'Make the key' }).press('Enter')
  await making.getByText('Choose at least one thing').waitFor()
  assert.equal(await making.getByRole('checkbox', { name: 'access:write' }).count(), 0, 'no key manages access')
  await making.getByRole('checkbox', { name: 'orders:read' }).press('Space')
  await making.getByRole('checkbox', { name: 'stock:write' }).press('Space')
  await making.getByLabel('Expires').fill('')
  await making.getByRole('button', { name: 'Make the key' }).press('Enter')
  const key = await shownKeyOf(page, HOSTILE)
  assert.equal(await page.evaluate(`document.activeElement.querySelector('h3').textContent`), `The key ${HOSTILE}`)
  await assertUsable(page, 'a new key')
  await page.getByRole('button', { name: 'Copy the key' }).press('Enter')
  await page.getByText('The key is copied.').waitFor()
  assert.equal(await page.evaluate('navigator.clipboard.readText()'), key)
  assert.equal(await statusWith(store, key), 200)
  const row = rowOf(page, HOSTILE)
  for (const text of ['orders:read', 'stock:write', 'active', operator.email]) await row.getByText(text, { exact: true }).waitFor()
  assert.equal(await row.getByText('never', { exact: true }).count(), 2, 'neither expires nor was used when it was made')

  await page.getByRole('button', { name: 'I have stored it' }).press('Enter')
  assert.ok(!(await page.content()).includes(key))
  await page.reload()
  await row.waitFor()
  assert.ok(!(await page.content()).includes(key), 'the store does not have it')

  await page.getByRole('button', { name: `Rotate ${HOSTILE}` }).press('Enter')
  const rotating = dialog(page, `Rotate ${HOSTILE}`)
  await assertUsable(page, 'the rotation of a key')
  await rotating.getByRole('button', { name: 'Rotate' }).press('Enter')
  const second = await shownKeyOf(page, HOSTILE)
  await row.getByText('the secret before until').waitFor()
  assert.deepEqual([await statusWith(store, key), await statusWith(store, second)], [200, 200])
  await page.getByRole('button', { name: `Rotate ${HOSTILE}` }).press('Enter')
  await rotating.getByLabel('The present secret').selectOption('not at all: it ends now')
  await rotating.getByRole('button', { name: 'Rotate' }).press('Enter')
  await row.getByText('the secret before until').waitFor({ state: 'detached' })
  const third = await shownKeyOf(page, HOSTILE)
  assert.deepEqual([await statusWith(store, second), await statusWith(store, third)], [401, 200])

  await page.getByRole('button', { name: `Revoke ${HOSTILE}` }).press('Enter')
  await page.keyboard.press('Escape')
  assert.equal(await statusWith(store, third), 200, 'not without a confirmation')
  await page.getByRole('button', { name: `Revoke ${HOSTILE}` }).press('Enter')
  await assertUsable(page, 'the question before a key is revoked')
  await dialog(page, `Revoke ${HOSTILE}?`).getByRole('button', { name: 'Revoke' }).press('Enter')
  await row.getByText('revoked', { exact: true }).waitFor()
  assert.equal(await statusWith(store, third), 401)
  assert.ok(!(await page.content()).includes(third), 'a key that has ended is not shown any more')
  assert.equal(await row.getByRole('button').count(), 0)
  assert.equal(await page.locator('main script, main img').count(), 0)
  assert.deepEqual(complaints, [])
})

test('an admin invites an operator, changes the role, resets the factors and removes it', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { store, page, operator, complaints } = await openConsole(t, NARROW)
  const [customer, email, password] = [await store.register(), 'grace@shop.example', 'the passphrase of grace']
  await page.getByRole('link', { name: 'Settings', exact: true }).press('Enter')
  await page.getByRole('heading', { level: 2, name: 'Operators' }).waitFor()
  await rowOf(page, operator.email).getByText('This is you.').waitFor()
  assert.equal(await rowOf(page, operator.email).getByRole('button').count(), 0, 'nobody changes their own role')

  const invite = async (address: string, role: string) => {
    const inviting = dialog(page, 'Invite an operator')
    if ((await inviting.count()) === 0) await page.getByRole('button', { name: 'Invite an operator' }).press('Enter')
    await inviting.getByLabel('E-mail').fill(address)
    await inviting.getByRole('combobox', { name: 'Role' }).selectOption(role)
    await inviting.getByRole('button', { name: 'Invite' }).press('Enter')
    return inviting
  }
  const refused = await invite(customer.email, 'warehouse')
  await refused.getByText('Nobody has proven that this account belongs to the holder of its address.').waitFor()
  await refused.getByText('Set and adjust stock.').waitFor()
  await assertUsable(page, 'a refused invitation')
  await invite(operator.email, 'support')
  await refused.getByText("This account is an operator's already, with the role admin.").waitFor()
  await invite(email, 'warehouse')
  await page.getByText(`${email} is invited by a mail.`).waitFor()
  const row = rowOf(page, email)
  await row.getByText('invited', { exact: true }).waitFor()
  await assertUsable(page, 'the operators')
  await page.getByRole('button', { name: `Mail a link again: ${email}` }).press('Enter')
  await page.getByText('a mail with a link is on its way').waitFor()

  const body = { token: await newestToken(store, 'operator_invited'), password }
  assert.equal((await store.call('POST', '/auth/password-reset/confirm', { body })).status, 204)
  await page.getByRole('button', { name: `Change role: ${email}` }).press('Enter')
  const changing = dialog(page, `Change the role of ${email}`)
  assert.equal(await changing.getByRole('combobox', { name: 'Role' }).inputValue(), 'warehouse')
  await changing.getByRole('combobox', { name: 'Role' }).selectOption('support')
  await assertUsable(page, 'the role of an operator')
  await changing.getByRole('button', { name: 'Change the role' }).press('Enter')
  await page.getByText(`${email} has the role support.`).waitFor()
  await row.getByText('support', { exact: true }).waitFor()
  await row.getByText('active', { exact: true }).waitFor()

  const login = await store.call('POST', '/auth/login', { body: { email, password } })
  assert.equal(login.json.user.role, 'support')
  await addTotp(store, login.json.access_token, await timeForCodes())
  await page.reload()
  await row.getByText('set up', { exact: true }).waitFor()
  // Who has signed in long ago proves again who they are.
  await store.pool.query(`update sessions set authenticated_at = now() - interval '11 minutes'`)
  await page.getByRole('button', { name: `Reset second factors: ${email}` }).press('Enter')
  const resetting = dialog(page, `Reset the second factors of ${email}?`)
  await assertUsable(page, 'the question before factors are reset')
  await resetting.getByRole('button', { name: 'Reset' }).press('Enter')
  const proving = dialog(page, 'Confirm that it is you')
  await proving.getByLabel('Password').fill(operator.password)
  await proving.getByRole('button', { name: 'Confirm' }).press('Enter')
  await page.getByText(`${email} signs in with the password alone now.`).waitFor()
  await row.getByText('none', { exact: true }).waitFor()
  assert.equal((await store.call('POST', '/auth/login', { body: { email, password } })).status, 200)

  await page.getByRole('button', { name: `Remove: ${email}` }).press('Enter')
  await dialog(page, `Remove ${email}?`).getByRole('button', { name: 'Cancel' }).press('Enter')
  await page.getByRole('button', { name: `Remove: ${email}` }).press('Enter')
  await dialog(page, `Remove ${email}?`).getByRole('button', { name: 'Remove' }).press('Enter')
  await row.waitFor({ state: 'detached' })
  const { json } = await store.call('POST', '/auth/login', { body: { email, password } })
  assert.equal(json.user.role, 'customer')
  assert.deepEqual(withoutRefusals(complaints), [])
})

test('the removal of an operator who is none any more is refused in words', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page } = await openConsole(t)
  const other = await registerOperator(store, 'support')
  await page.goto(`${page.url()}#settings?section=operators`)
  await page.getByRole('button', { name: `Remove: ${other.email}` }).press('Enter')
  await store.pool.query(`update users set role = 'customer' where id = $1`, [other.id])
  await dialog(page, `Remove ${other.email}?`).getByRole('button', { name: 'Remove' }).press('Enter')
  await page.getByText('There is no such operator.').waitFor()
  await page.keyboard.press('Escape')
  await rowOf(page, other.email).waitFor({ state: 'detached' })
})

test('more keys than a page are listed page by page', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, complaints } = await openConsole(t)
  for (let number = 1; number <= 51; number++) await makeKey(store, ['stock:read'], { name: `Scanner ${number}.` })
  await page.goto(`${page.url()}#settings?section=keys`)
  await page.getByText('Scanner 51.').waitFor()
  assert.equal(await page.getByText('Scanner 1.', { exact: true }).count(), 0)
  await page.getByRole('link', { name: 'Next page' }).press('Enter')
  await rowOf(page, 'Scanner 1.').waitFor()
  assert.equal(await page.getByText('Scanner 51.').count(), 0)
  await page.getByRole('link', { name: 'First page' }).press('Enter')
  await page.getByText('Scanner 51.').waitFor()
  assert.deepEqual(complaints, [])
})

test('a role that does not manage access sees neither operators nor keys, and asks for nothing else', { skip: NO_CHROMIUM }, async (t) => {
  const { page, address, complaints } = await openConsole(t, {}, { role: 'support' })
  const asked: string[] = []
  page.on('request', (request) => asked.push(new URL(request.url()).pathname))
  for (const [hash, heading] of [
    ['#account', 'Account'],
    ['#settings?section=keys', 'Mail templates'],
    ['#settings?section=operators', 'Mail templates'],
    ['#settings?section=webhooks', 'Mail templates'],
  ] as const) {
    await page.goto('about:blank')
    await page.goto(`${address}${hash}`)
    await page.getByRole('heading', { level: 2, name: heading, exact: true }).waitFor()
    await untilQuiet(page)
    assert.equal(await page.getByRole('link', { name: /Operators|API keys|Webhooks/ }).count(), 0, hash)
    assert.equal(await page.getByRole('button', { name: /Make a key|Invite|Add an endpoint/ }).count(), 0, hash)
  }
  assert.deepEqual(
    asked.filter((path) => path.startsWith('/admin/') && !path.startsWith('/admin/mail-templates')),
    [],
  )
  assert.deepEqual(complaints, [])
})
