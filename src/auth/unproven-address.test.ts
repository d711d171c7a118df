import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { collectLog } from '../../test/logs.ts'
import { assertProblem, faults } from '../../test/problem.ts'
import { startSmtpServer, type TestSmtpServer } from '../../test/smtp-server.ts'
import { type StoreOverrides, startStore, type TestStore } from '../../test/store.ts'
import { warnAboutSettings } from '../app/warn-about-settings.ts'
import { readConfig } from '../config.ts'

const PASSWORD = 'a long enough passphrase'
const STRANGERS = 'the passphrase of eve'
/** Text that a spammer would want in a mail. The first word identifies each. */
const WORDS = {
  name: 'Bargainia Galore',
  recipient: 'Recipientia Galore',
  line1: 'Streetia 1',
  note: 'Notia Galore',
  reference: 'Referentia 1',
}

async function startMailingStore(t: TestContext, overrides: StoreOverrides = {}) {
  const smtp = await startSmtpServer(t)
  const store = await startStore(t, { roles: ['api', 'stream', 'email'], smtpUrl: smtp.url, ...overrides })
  return { store, smtp }
}

const mailNumber = (smtp: TestSmtpServer, count: number, subject: RegExp) =>
  eventually(async () => smtp.mails.filter((mail) => subject.test(mail.subject ?? ''))[count - 1] ?? false, {
    what: `mail ${count} about ${subject}`,
  })

const tokenIn = (mail: { text?: string | undefined }): string => /^[A-Za-z0-9_-]{43}$/m.exec(mail.text ?? '')?.[0] ?? ''

async function order(store: TestStore, token: string, reference: string): Promise<void> {
  const { id } = await store.addProduct()
  await store.ok('POST', '/orders', {
    token,
    body: {
      items: [{ product_id: id, quantity: 1 }],
      shipping_address: { name: WORDS.recipient, line1: WORDS.line1, city: 'Wien', postal_code: '1010', country: 'AT', phone: '+43 1' },
      note: WORDS.note,
      client_reference: reference,
    },
  })
}

test('an order mail to an unverified address contains no text by the customer; a reset by mail verifies the address', async (t) => {
  const { store, smtp } = await startMailingStore(t)
  const [eve, bob] = [await store.register({ name: WORDS.name }), await store.register({ name: 'Bob' })]
  await order(store, eve.token, WORDS.reference)
  await order(store, bob.token, WORDS.reference)
  const isTo = (email: string) => (mail: { to?: unknown }) => JSON.stringify(mail.to).includes(email)
  await mailNumber(smtp, 2, /^We have received/)
  const first = smtp.mails.find(isTo(eve.email)) ?? assert.fail('no mail')
  const whole = [first.headerLines.map(({ line }) => line).join('\n'), first.text, first.html].join('\n')
  assert.match(whole, /Hello,/)
  for (const text of Object.values(WORDS)) assert.ok(!whole.includes(text.split(' ')[0] ?? text), text)

  await store.call('POST', '/auth/password-reset', { body: { email: eve.email } })
  const token = tokenIn(await mailNumber(smtp, 1, /^Set a new password/))
  await store.ok('POST', '/auth/password-reset/confirm', { body: { token, password: PASSWORD } })
  const json = await store.ok('POST', '/auth/login', { body: { email: eve.email, password: PASSWORD } })
  await order(store, json.access_token, 'another')
  const second = await mailNumber(smtp, 3, /^We have received/)
  assert.match(second.text ?? '', new RegExp(`Hello ${WORDS.name},`))
  assert.ok(JSON.stringify(second.to).includes(WORDS.name))
  for (const text of [WORDS.recipient, WORDS.line1, WORDS.note, 'another']) assert.ok(!String(second.text).includes(text), text)
  const { rows } = await store.pool.query('select id from users where email_verified_at is not null')
  assert.deepEqual(rows, [{ id: eve.id }], 'and no other account')
})

test("refuses a link in an account's name until its address is proven, and allows it in text that no mail to others contains", async (t) => {
  const store = await startStore(t)
  const ada = await store.register({ name: 'Ada' })
  const { id } = await store.addProduct()
  for (const name of ['Win at http://evil.example', 'www.evil.example', 'evil.example/x', 'ｗｗｗ．evil．example', 'evil。com']) {
    const register = await store.call('POST', '/auth/register', { body: { email: 'eve@example.com', password: PASSWORD, name } })
    assert.deepEqual(faults(assertProblem(register, 422, 'invalid_body', name)), ['#/name'])
    const rename = await ada.call('PATCH', '/me', { body: { name } })
    assert.deepEqual(faults(assertProblem(rename, 422, 'invalid_body', name)), ['#/name'])
  }
  const { rows } = await store.pool.query('select name from users')
  assert.deepEqual(rows, [{ name: 'Ada' }])

  const address = { name: 'Booking.com B.V.', line1: 'www.example.com', city: 'Amsterdam', postal_code: '1017 CE', country: 'NL' }
  const placed = await ada.call('POST', '/orders', {
    body: { items: [{ product_id: id, quantity: 1 }], shipping_address: address },
  })
  assert.deepEqual(placed.json.shipping_address, address)
  await ada.ok('POST', '/me/addresses', { body: { address } })
  await store.pool.query('update users set email_verified_at = now()')
  const renamed = await ada.call('PATCH', '/me', { body: { name: address.name } })
  assert.equal(renamed.json.name, address.name, 'only in mails to herself')
})

test('a mailed token creates an account only with the password of its own registration', async (t) => {
  const { store, smtp } = await startMailingStore(t, { roles: ['api', 'email'], isEmailVerificationRequired: true, isRateLimited: true })
  const from = '203.0.113.7'
  const register = (password: string) => store.call('POST', '/auth/register', { body: { email: 'ada@example.com', password }, from })
  const verify = (body: object, client = from) => store.call('POST', '/auth/verify-email', { body, from: client })
  assert.equal((await register(STRANGERS)).status, 202)
  assert.equal((await register(PASSWORD)).status, 202)
  const [first, second] = [await mailNumber(smtp, 1, /^Please confirm/), await mailNumber(smtp, 2, /^Please confirm/)]
  assert.match(first.text ?? '', /password/)
  const { rows } = await store.pool.query('select token_hash from pending_registrations order by expires_at, token_hash')
  assert.equal(rows.length, 2)

  for (const token of [tokenIn(first), tokenIn(second)]) {
    assert.deepEqual(faults(assertProblem(await verify({ token }), 422, 'invalid_body')), ['#/password'])
    assertProblem(await verify({ token, password: 'neither of the two' }), 401, 'invalid_credentials')
  }
  assert.equal((await store.pool.query('select from users')).rowCount, 0, 'nothing was made')
  const answers = await Promise.all([tokenIn(first), tokenIn(second)].map((token) => verify({ token, password: PASSWORD })))
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 401], 'only under the token of this password')
  const opened = answers.find(({ status }) => status === 200)
  assert.equal(opened?.json.user.email, 'ada@example.com')
  const made = await store.pool.query('select email_verified_at is not null as is_proven from users')
  assert.deepEqual(made.rows, [{ is_proven: true }])
  for (const mail of [first, second]) {
    assertProblem(await verify({ token: tokenIn(mail), password: STRANGERS }), 422, 'invalid_one_time_token', 'all of them are used up')
  }
})

test('password guesses with a mailed token are slowed down like those at a login', async (t) => {
  const { store, smtp } = await startMailingStore(t, { roles: ['api', 'email'], isEmailVerificationRequired: true, isRateLimited: true })
  await store.call('POST', '/auth/register', { body: { email: 'ada@example.com', password: PASSWORD }, from: '198.51.100.20' })
  const token = tokenIn(await mailNumber(smtp, 1, /^Please confirm/))
  const guess = (password: string, from = '203.0.113.7') => store.call('POST', '/auth/verify-email', { body: { token, password }, from })
  const guesses = await Promise.all(Array.from({ length: 30 }, (_, i) => guess(`guess number ${i}`)))
  const tried = guesses.filter(({ status }) => status === 401).length
  assert.ok(tried >= 5 && tried <= 7, `${tried} were tried`)
  assert.equal(guesses.filter(({ status }) => status === 429).length, 30 - tried)
  assert.equal((await guess(PASSWORD, '198.51.100.20')).status, 200, 'the owner, from elsewhere: wrong guesses use no token up')
})

test('the start warns if mails are sent and addresses are not verified', () => {
  const warnings = (settings: Record<string, string>) => {
    const { logger, entries: lines } = collectLog<{ level: number; msg: string }>()
    warnAboutSettings(readConfig(settings), logger)
    return lines.filter(({ level }) => level === 40).map(({ msg }) => msg)
  }
  const [warning = '', ...others] = warnings({ SMTP_URL: 'smtp://mail.example' })
  assert.match(warning, /EMAIL_VERIFICATION/)
  assert.deepEqual(others, [])
  assert.deepEqual(warnings({ SMTP_URL: 'smtp://mail.example', EMAIL_VERIFICATION: 'required' }), [])
  assert.deepEqual(warnings({}), [], 'mails are files')
  assert.deepEqual(warnings({ SMTP_URL: 'smtp://mail.example', ROLES: 'email' }), [], 'only the API makes accounts')
})
