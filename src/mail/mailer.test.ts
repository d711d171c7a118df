import assert from 'node:assert/strict'
import { mkdir, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { simpleParser } from 'mailparser'
import { Authority, NO_CERTIFICATES } from '../../test/certificates.ts'
import { startSmtpServer } from '../../test/smtp-server.ts'
import { makeTestFolder } from '../../test/test-folder.ts'
import { createFileMailer } from './file-mailer.ts'
import { describeError, type Mail, MailRefused, toMessage } from './mailer.ts'
import { createSmtpMailer } from './smtp-mailer.ts'

const FROM = 'The Store <no-reply@store.example>'
const EVENT = '018f0000-0000-7000-8000-000000000001.3'

function makeMail(overrides: Partial<Mail> = {}): Mail {
  return {
    eventId: EVENT,
    to: { address: 'ada@example.com', name: 'Ada Lovelace' },
    subject: 'Your order SF-7 is on its way',
    text: 'We have shipped it. 2 × Täßchen',
    html: '<p>We have shipped it. 2 × Täßchen</p>',
    date: new Date('2026-03-01T10:00:00Z'),
    ...overrides,
  }
}

function makeDirectory(t: TestContext): string {
  return join(makeTestFolder(t, 'storefront-mail-'), 'mail')
}

test('an SMTP mail has both bodies and the headers that identify it', async (t) => {
  const server = await startSmtpServer(t)
  const mailer = createSmtpMailer({ url: server.url, from: FROM })
  t.after(() => mailer.close())
  await mailer.send(makeMail())
  const [mail] = server.mails
  assert.ok(mail)
  assert.equal(mail.text?.trim(), 'We have shipped it. 2 × Täßchen')
  assert.equal(String(mail.html).trim(), '<p>We have shipped it. 2 × Täßchen</p>')
  assert.equal(mail.subject, 'Your order SF-7 is on its way')
  assert.equal(mail.from?.text, '"The Store" <no-reply@store.example>')
  assert.deepEqual(mail.to && 'value' in mail.to && mail.to.value, [{ name: 'Ada Lovelace', address: 'ada@example.com' }])
  assert.equal(mail.messageId, `<${EVENT}@store.example>`)
  assert.deepEqual(mail.date, new Date('2026-03-01T10:00:00Z'))
  assert.equal(mail.headers.get('auto-submitted'), 'auto-generated')
  assert.equal(mail.headers.get('x-storefront-event'), EVENT)
  assert.match(mail.headerLines.map(({ line }) => line).join('\n'), /^List-ID: Your orders <orders\.store\.example>$/im)
})

test('trusts the configured authority, and names the missing setting if the authority is unknown', { skip: NO_CERTIFICATES }, async (t) => {
  const authority = new Authority(t)
  const server = await startSmtpServer(t, undefined, authority.issue('server'))
  const mailerFor = (caFile?: string) => {
    const mailer = createSmtpMailer({ url: server.url, from: FROM, ...(caFile === undefined ? {} : { caFile }) })
    t.after(() => mailer.close())
    return mailer
  }
  const message = /certificate.*; set SMTP_CA to the file of the authority that signed it$/
  for (const mailer of [mailerFor(), mailerFor(new Authority(t).caFile)]) {
    await assert.rejects(mailer.probe(), { message })
    await assert.rejects(mailer.send(makeMail()), { message })
  }
  assert.equal(server.mails.length, 0)
  const mailer = mailerFor(authority.caFile)
  await mailer.probe()
  await mailer.send(makeMail())
  assert.equal(server.mails.length, 1)
  assert.throws(
    () => createSmtpMailer({ url: server.url, from: FROM, caFile: '/no/such.pem' }),
    /^OperatorError: SMTP_CA: \/no\/such\.pem cannot be read/,
  )
})

test('line breaks in names and subjects add neither a header nor a recipient', async (t) => {
  const server = await startSmtpServer(t)
  const mailer = createSmtpMailer({ url: server.url, from: FROM })
  t.after(() => mailer.close())
  const attack = 'Ada\r\nBcc: eve@example.com\r\nX-Evil: 1\r\n\r\n<b>body</b>'
  await mailer.send(makeMail({ to: { address: 'ada@example.com', name: attack }, subject: attack }))
  await mailer.send(makeMail({ to: { address: 'ada@example.com', name: '"Ada" <eve@example.com>, Éve\n<eve@example.com>' } }))
  assert.equal(server.mails.length, 2)
  for (const mail of server.mails) {
    assert.ok(!mail.headerLines.some(({ line }) => /\r\n(?![ \t])/.test(line)))
    assert.ok(!mail.headers.has('bcc'))
    assert.ok(!mail.headers.has('x-evil'))
    assert.deepEqual(mail.to && 'value' in mail.to && mail.to.value.map(({ address }) => address), ['ada@example.com'])
    assert.equal(mail.text?.trim(), 'We have shipped it. 2 × Täßchen')
    assert.ok(mail.to && 'value' in mail.to && mail.to.value.every(({ name }) => !/[\r\n]/.test(name)))
  }
})

test('distinguishes permanently from temporarily refused recipients, and does not name the address', async (t) => {
  const server = await startSmtpServer(t)
  server.refuse('gone@example.com', { code: 550, text: '5.1.1 <gone@example.com> no such user' })
  server.refuse('busy@example.com', { code: 451, text: '4.7.1 greylisted, try later', times: 1 })
  const mailer = createSmtpMailer({ url: server.url, from: FROM })
  t.after(() => mailer.close())
  await assert.rejects(mailer.send(makeMail({ to: { address: 'gone@example.com', name: null } })), (error) => {
    assert.ok(error instanceof MailRefused)
    assert.match(error.message, /550 5\.1\.1 <\(address\)> no such user/)
    return true
  })
  const busy = makeMail({ to: { address: 'busy@example.com', name: null } })
  await assert.rejects(mailer.send(busy), (error) => !(error instanceof MailRefused))
  await mailer.send(busy)
  assert.equal(server.mails.length, 1)
})

test('an unavailable mail server does not count as a refusal of the mail', async (t) => {
  const server = await startSmtpServer(t)
  await server.stop()
  const mailer = createSmtpMailer({ url: server.url, from: FROM })
  t.after(() => mailer.close())
  await assert.rejects(mailer.send(makeMail()), (error) => !(error instanceof MailRefused) && /ECONNREFUSED/.test(describeError(error)))
})

test('a token or link in a mail file stays on one line, so it can be copied', async (t) => {
  const directory = makeDirectory(t)
  const mailer = createFileMailer({ directory, from: FROM })
  const link = `https://shop.example/account?from=mail#reset-password=${'t0ken='.repeat(40)}`
  await mailer.send(makeMail({ text: `Täßchen\n\n${link}\n` }))
  const readMail = () => readFile(join(directory, `${EVENT}.eml`))
  const written = await readMail()
  assert.ok(written.toString().split('\r\n').includes(link), written.toString())
  const mail = await simpleParser(written)
  assert.deepEqual([mail.text?.trim(), Boolean(mail.html)], [`Täßchen\n\n${link}`, true])
  const long = 'ß'.repeat(500)
  await mailer.send(makeMail({ text: `short\n${long}` }))
  const encoded = await readMail()
  assert.ok(
    encoded
      .toString('latin1')
      .split('\r\n')
      .every((line) => line.length <= 998),
    'RFC 5322, 2.1.1',
  )
  assert.equal((await simpleParser(encoded)).text?.trim(), `short\n${long}`)
  await mailer.close()
})

test('the file mailer writes one complete message, however often a mail is sent', async (t) => {
  const directory = makeDirectory(t)
  const mailer = createFileMailer({ directory, from: FROM })
  await mailer.send(makeMail())
  const first = await readFile(join(directory, `${EVENT}.eml`))
  await Promise.all([mailer.send(makeMail()), mailer.send(makeMail())])
  await mailer.close()
  assert.deepEqual(await readdir(directory), [`${EVENT}.eml`])
  assert.deepEqual(await readFile(join(directory, `${EVENT}.eml`)), first)
  const mail = await simpleParser(first)
  assert.equal(mail.messageId, `<${EVENT}@store.example>`)
  assert.equal(mail.text?.trim(), 'We have shipped it. 2 × Täßchen')
  assert.ok(mail.html)
  assert.ok(!/[^\r]\n/.test(first.toString()), 'RFC 5322 lines end in CRLF')
})

test('the file mailer leaves no partial file behind if it cannot write', async (t) => {
  const directory = makeDirectory(t)
  const mailer = createFileMailer({ directory, from: FROM })
  await mkdir(join(directory, `${EVENT}.eml`), { recursive: true })
  await assert.rejects(mailer.send(makeMail()), /EISDIR|ENOTEMPTY|EEXIST/)
  assert.deepEqual(await readdir(directory), [`${EVENT}.eml`])
})

test('the file mailer writes only into its own folder', async (t) => {
  const directory = makeDirectory(t)
  const mailer = createFileMailer({ directory, from: FROM })
  for (const eventId of ['../evil', '', '.hidden', 'a/b']) await assert.rejects(mailer.send(makeMail({ eventId })), /does not fit/)
})

test('creating a mailer with a sender without an address fails', () => {
  assert.throws(() => createFileMailer({ directory: 'mail', from: 'The Store' }), /MAIL_FROM/)
  assert.throws(() => createSmtpMailer({ url: 'smtp://127.0.0.1', from: 'The Store' }), /MAIL_FROM/)
  assert.equal(toMessage(makeMail(), { from: 'no-reply@store.example' }).messageId, `<${EVENT}@store.example>`)
})

test('every mailer sets a configured address for answers', async (t) => {
  const [directory, smtp, replyTo] = [makeDirectory(t), await startSmtpServer(t), 'Help <help@store.example>']
  const mailers = [createFileMailer({ directory, from: FROM, replyTo }), createSmtpMailer({ url: smtp.url, from: FROM, replyTo })]
  for (const mailer of mailers) {
    await mailer.send(makeMail())
    await mailer.close()
  }
  const file = await simpleParser(await readFile(join(directory, `${EVENT}.eml`)))
  for (const mail of [file, smtp.mails[0]]) assert.equal(mail?.replyTo?.text, '"Help" <help@store.example>')
  assert.equal(toMessage(makeMail(), { from: FROM }).replyTo, undefined)
})

test('a recorded reason is short, and contains neither an address nor an order link', () => {
  const link = `https://shop.example/order#${'Ab-_'.repeat(16)}`
  assert.equal(describeError(new Error(`550 spam: "${link}"`)), '550 spam: "https://shop.example/order#(token)"')
  const error = new Error(`550 <ada@example.com>: refused\r\n${'x'.repeat(1_000)}`)
  assert.match(describeError(error), /^550 <\(address\)>: refused x+$/)
  assert.equal(describeError(error).length, 300)
})
