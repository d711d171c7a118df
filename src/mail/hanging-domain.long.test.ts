import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { onCleanup } from '../../test/cleanup.ts'
import { eventually } from '../../test/eventually.ts'
import { insertUser, startMailSubscriber } from '../../test/mail-harness.ts'
import { makeOrderEvent } from '../../test/order-event-factory.ts'
import { startSmtpServer } from '../../test/smtp-server.ts'
import { createSmtpMailer } from './smtp-mailer.ts'

async function startShop(t: TestContext) {
  const server = await startSmtpServer(t)
  const from = 'Shop <shop@example.com>'
  const mailer = createSmtpMailer({ url: server.url, from, replyTo: null })
  onCleanup(t, () => mailer.close())
  const { db, publish } = await startMailSubscriber(t, { mailer })
  const [good, bad] = [await insertUser(db, 'ada@good.example'), await insertUser(db, 'bob@tarpit.example')]
  const order = (userId: string, count: number) =>
    publish(Array.from({ length: count }, () => makeOrderEvent({ order: { user_id: userId } })))
  const countSent = async (userId: string) => {
    const { rowCount } = await db.pool.query(`select from email_deliveries where user_id = $1 and status = 'sent'`, [userId])
    return rowCount ?? 0
  }
  return { server, good, bad, order, countSent }
}

test('mails to others continue while the server of a new domain never answers', async (t) => {
  const { server, good, bad, order, countSent } = await startShop(t)
  server.hang('tarpit.example')
  // These are more mails than there are connections, and more than a process holds.
  await order(bad, 200)
  await order(good, 100)
  await eventually(async () => (await countSent(good)) === 100, { what: 'the mails of the other domain', timeoutMs: 25_000 })
  assert.equal(await countSent(bad), 0)
})

test('mails to others continue while the server of a domain that accepted mails before no longer answers', async (t) => {
  const { server, good, bad, order, countSent } = await startShop(t)
  await order(bad, 20)
  await order(good, 1)
  await eventually(async () => (await countSent(bad)) === 20 && (await countSent(good)) === 1)
  server.hang('tarpit.example')
  await order(bad, 200)
  await order(good, 100)
  await eventually(async () => (await countSent(good)) === 101, { what: 'the mails of the other domain', timeoutMs: 25_000 })
  assert.equal(await countSent(bad), 20)
})
