import assert from 'node:assert/strict'
import { test } from 'node:test'
import pino from 'pino'
import { eventually } from '../../test/eventually.ts'
import { startSmtpServer } from '../../test/smtp-server.ts'
import { startSecondProcess, startStore, TEST_SECRET } from '../../test/store.ts'
import { createEncryption } from '../auth/store-secret.ts'
import { StaffMails } from './staff-mails.ts'

test('two processes together send the staff each new order at once, a lost mail a minute later, and nothing about staff mails', async (t) => {
  const smtp = await startSmtpServer(t)
  const staffMails = { to: ['away@store.example', 'staff@store.example'], orders: 'at_once', language: 'es' } as const
  const roles = ['api', 'stream', 'email'] as const
  const store = await startStore(t, { roles, smtpUrl: smtp.url, staffMails })
  await startSecondProcess(t, store, { roles })
  smtp.refuse('away@store.example', { code: 550, text: 'no such user' })
  const [ada, bob] = [await store.register(), await store.register({ email: 'bob@gone.example' })]
  smtp.refuse('bob@gone.example', { code: 550, text: 'no such user www.evil.example' })
  const product = await store.addProduct({ name: 'A lamp', stock: 1 })
  const other = await store.addProduct({ name: 'A pot', stock: 1 })
  const place = async (token: string, { id }: { id: string }) => {
    const json = await store.ok('POST', '/orders', { token, body: { items: [{ product_id: id, quantity: 1 }] } })
    return json
  }
  const ofStaff = () => smtp.mails.filter(({ to }) => [to].flat().some((each) => each?.text === 'staff@store.example'))
  const staffGets = (count: number) =>
    eventually(async () => ofStaff().length === count && ofStaff(), { what: `${count} mails to the staff` })
  // The first rounds have noted what there was before.
  await eventually(async () => (await store.pool.query('select from staff_mails where examined_at is null')).rowCount === 0)

  const order = await place(ada.token, product)
  const mail = (await staffGets(2)).find(({ subject }) => subject === `Nuevo pedido ${order.number}`)
  assert.ok(mail)
  assert.ok(mail.text?.includes(`http://localhost:3000/console#orders?order=${order.id}\n`), String(mail.text))
  assert.match(mail.headerLines.map(({ line }) => line).join('\n'), /^List-ID: For the staff <staff\.[\w.]+>$/im)

  const lost = await place(bob.token, other)
  await eventually(async () => (await store.pool.query(`select from email_deliveries where status = 'failed'`)).rowCount === 1)
  // Runs the next minute of a process.
  const next = () => {
    const encryption = createEncryption(TEST_SECRET, 'account mail')
    const staff = new StaffMails({ ...staffMails, pool: store.pool, encryption, logger: pino({ level: 'silent' }), now: () => new Date() })
    return staff.queueDue()
  }
  await store.pool.query(`update staff_mails set mailed_at = mailed_at - interval '1 minute'`)
  await Promise.all([next(), next()])
  const subjects = (await staffGets(5)).map(({ subject }) => subject).toSorted()
  const received = `No recibido: Hemos recibido su pedido ${lost.number}`
  assert.deepEqual(
    subjects,
    ['Agotado: A lamp', 'Agotado: A pot', received, `Nuevo pedido ${lost.number}`, `Nuevo pedido ${order.number}`].toSorted(),
  )
  assert.ok(ofStaff().every(({ text, html }) => !/bob@|evil|no such/.test(`${text}${html}`)))

  await eventually(async () => (await store.pool.query('select from account_mails')).rowCount === 0)
  await store.pool.query(`update staff_mails set mailed_at = mailed_at - interval '1 minute'`)
  await next()
  assert.equal((await store.pool.query('select from account_mails')).rowCount, 0, 'a staff mail that was refused is told to nobody')
})

test('nothing is noted without the setting, or without the role email', async (t) => {
  const smtp = await startSmtpServer(t)
  const store = await startStore(t, { roles: ['api', 'stream', 'email'], smtpUrl: smtp.url })
  const customer = await store.register()
  const { id } = await store.addProduct()
  await customer.call('POST', '/orders', { body: { items: [{ product_id: id, quantity: 1 }] } })
  await eventually(async () => smtp.mails.length === 1)
  const staffMails = { to: ['staff@store.example'], orders: 'at_once', language: 'en' } as const
  await startSecondProcess(t, store, { roles: ['api', 'stream'], staffMails })
  const { rows } = await store.pool.query(
    `select (select count(*)::int from staff_notices) as notices, (select count(examined_at)::int from staff_mails) as examined`,
  )
  assert.deepEqual(rows, [{ notices: 0, examined: 0 }])
})
