import assert from 'node:assert/strict'
import { test } from 'node:test'
import pino from 'pino'
import { onCleanup } from '../../test/cleanup.ts'
import { createTestDatabase } from '../../test/database.ts'
import { eventually } from '../../test/eventually.ts'
import { collectLog } from '../../test/logs.ts'
import { createEncryption } from '../auth/store-secret.ts'
import { inTransaction } from '../db/transaction.ts'
import { DeliveryQueue } from '../deliveries/delivery-queue.ts'
import { createAccountMailWorker, queueAccountMail } from './account-mail.ts'
import { MailRefused } from './mailer.ts'

test('an account mail that cannot be decrypted waits, and no attempt is counted', async (t) => {
  const { pool } = await createTestDatabase(t)
  const logger = pino({ level: 'silent' })
  const [store, process] = ['the secret of the store, long enough', 'another secret, which is long enough'].map((secret) =>
    createEncryption(secret, 'account mail'),
  ) as [ReturnType<typeof createEncryption>, ReturnType<typeof createEncryption>]
  const expiresAt = new Date(Date.now() + 3_600_000)
  await inTransaction(pool, (tx) => queueAccountMail(tx, store, { kind: 'confirm_email', to: 'ada@example.com', token: 'x', expiresAt }))
  const deliveries = new DeliveryQueue({ pool, logger })
  const mailer = { connections: 16, send: () => assert.fail('it was sent'), close: async () => {} }
  const render = () => assert.fail('it was read')
  const worker = createAccountMailWorker({ deliveries, mailer, encryption: process, render, logger, now: () => new Date() })
  onCleanup(t, () => deliveries.stop())
  await deliveries.start()
  await worker.start()
  const mail = await eventually(
    async () => {
      const { rows } = await pool.query('select attempts, last_error, due_at > now() + interval $$20 seconds$$ as waits from account_mails')
      return rows[0].last_error !== null && rows[0]
    },
    { what: 'the reason' },
  )
  assert.deepEqual(mail, { attempts: 0, last_error: 'not decrypted', waits: true })
})

test('a refused staff mail is counted separately and logged with its address, and a customer mail is logged without it', async (t) => {
  const { pool } = await createTestDatabase(t)
  const { logger, lines } = collectLog()
  const encryption = createEncryption('the secret of the store, long enough', 'account mail')
  const deliveries = new DeliveryQueue({ pool, logger })
  const tried: string[] = []
  const worker = createAccountMailWorker({
    ...{ deliveries, encryption, logger, now: () => new Date() },
    mailer: { connections: 16, send: () => Promise.reject(new MailRefused('550 no')), close: async () => {} },
    render: () => ({ subject: '', text: '', html: '' }),
    onTried: (kind, outcome) => tried.push(`${kind} ${outcome}`),
  })
  onCleanup(t, () => deliveries.stop())
  const notices = { count: 0, list: [] }
  await inTransaction(pool, async (tx) => {
    for (const [to, ms] of [
      ['staff@store.example', 3_600_000],
      ['late@store.example', -1],
    ] as const)
      await queueAccountMail(tx, encryption, { kind: 'staff_orders', to, notices, expiresAt: new Date(Date.now() + ms) })
    const expiresAt = new Date(Date.now() + 3_600_000)
    await queueAccountMail(tx, encryption, { kind: 'confirm_email', to: 'ada@example.com', token: 'x', expiresAt })
  })
  await deliveries.start()
  await worker.start()
  await eventually(async () => tried.length === 3, { what: 'three attempts' })
  assert.deepEqual(tried.toSorted(), ['account failed', 'staff failed', 'staff failed'])
  const addresses = lines.map((line) => JSON.parse(line).address).filter((address) => address !== undefined)
  assert.deepEqual(addresses.toSorted(), ['late@store.example', 'staff@store.example'])
  assert.ok(!lines.join('').includes('ada@'))
})
