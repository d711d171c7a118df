import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { type SmtpStep, startScriptedSmtpServer } from '../../test/scripted-smtp-server.ts'
import { describeError, type Mail, MailRefused } from './mailer.ts'
import { createSmtpMailer, type SmtpMailer } from './smtp-mailer.ts'

const MAIL: Mail = {
  eventId: '018f0000-0000-7000-8000-000000000001.3',
  to: { address: 'ada@example.com', name: null },
  subject: 'Your order SF-7 is on its way',
  text: 'We have shipped it.',
  html: '<p>We have shipped it.</p>',
  date: new Date('2026-03-01T10:00:00Z'),
}

async function setUp(t: TestContext, query = '') {
  const server = await startScriptedSmtpServer(t)
  const open = (): SmtpMailer => {
    const mailer = createSmtpMailer({ url: `${server.url}${query}`, from: 'The Store <no-reply@store.example>' })
    t.after(() => mailer.close())
    return mailer
  }
  return { server, open }
}

/** How a try ends when one step of it is answered so. */
async function outcome(t: TestContext, step: SmtpStep, answer: string): Promise<{ isRefused: boolean; reason: string }> {
  const { server, open } = await setUp(t)
  server.answer(step, answer)
  const error = await open()
    .send(MAIL)
    .then(
      () => assert.fail('the mail went out'),
      (error: unknown) => error,
    )
  return { isRefused: error instanceof MailRefused, reason: describeError(error) }
}

const PERMANENT = '550 5.7.1 no'
const STEPS: SmtpStep[] = ['greeting', 'EHLO', 'AUTH', 'MAIL', 'RCPT', 'DATA', 'body']
const ABOUT_THE_MAIL: SmtpStep[] = ['RCPT', 'DATA', 'body']

for (const step of STEPS) {
  const isFinal = ABOUT_THE_MAIL.includes(step)
  test(`5xx to ${step} ${isFinal ? 'refuses the mail permanently' : 'needs an operator, so the mail waits'}`, async (t) => {
    const steps = step === 'EHLO' ? (['EHLO', 'HELO'] as const) : [step]
    const { server, open } = await setUp(t)
    for (const each of steps) server.answer(each, PERMANENT)
    await assert.rejects(open().send(MAIL), (error) => {
      assert.equal(error instanceof MailRefused, isFinal, describeError(error))
      assert.match(describeError(error), /no/)
      return true
    })
  })

  test(`421 to ${step} is no refusal`, async (t) => {
    const { isRefused, reason } = await outcome(t, step, '421 4.3.2 shutting down')
    assert.equal(isRefused, false, reason)
  })

  test(`a connection that ends at ${step} is no refusal`, async (t) => {
    const { isRefused, reason } = await outcome(t, step, 'cut')
    assert.equal(isRefused, false, reason)
  })
}

test('if the connection is cut between DATA and 250, the same message is sent again', async (t) => {
  const { server, open } = await setUp(t)
  server.answerOnce('body', 'cut')
  const mailer = open()
  await mailer.send(MAIL).catch(() => mailer.send(MAIL))
  assert.deepEqual(server.messageIds, Array(2).fill(`<${MAIL.eventId}@store.example>`))
})

test('an attempt ends in a limited time even if the server keeps to the timeout of each step, and its connection is not reused', async (t) => {
  const { server } = await setUp(t)
  const mailer = createSmtpMailer({ url: `${server.url}?maxConnections=1`, from: 'The Store <no-reply@store.example>', attemptMs: 500 })
  t.after(() => mailer.close())
  // The server begins an answer with two lines and never completes it.
  server.answerOnce('MAIL', '250-wait\r\n250-wait')
  await assert.rejects(mailer.send(MAIL), /the mail server took longer than 0.5 s/)
  await mailer.send(MAIL)
  assert.equal(server.messageIds.length, 1)
})

for (const [query, connections] of [
  ['', 16],
  ['?maxConnections=3', 3],
] as const) {
  test(`a slow server gets ${connections} mails at once with the address "…${query}", and then the others`, async (t) => {
    const { server, open } = await setUp(t, query)
    const mailer = open()
    const answer = Promise.withResolvers<string>()
    server.answer('body', answer.promise)
    const sending = Array.from({ length: 20 }, (_, i) => mailer.send({ ...MAIL, eventId: `${i}.1` }))
    await eventually(async () => server.messageIds.length >= connections, { what: 'a mail on each connection' })
    await mailer.probe()
    assert.equal(server.messageIds.length, connections)
    answer.resolve('250 2.0.0 taken')
    await Promise.all(sending)
    assert.equal(new Set(server.messageIds).size, 20)
  })
}
