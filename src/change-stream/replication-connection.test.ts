import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onCleanup } from '../../test/cleanup.ts'
import { eventually } from '../../test/eventually.ts'
import { insertOrders, makeStreamDatabase } from '../../test/stream-harness.ts'
import { openReplication, type StreamMessage } from './replication-connection.ts'
import { isOlderThanPublication, PUBLICATION } from './replication-slot.ts'

test('receives times in UTC and loses the slot after a silence, whatever options the address has', async (t) => {
  const db = await makeStreamDatabase(t)
  await insertOrders(db.pool, 1)
  const options = encodeURIComponent('-c wal_sender_timeout=10min -c timezone=Asia/Kolkata')
  const texts: string[] = []
  const connection = await openReplication(
    `${db.url}?options=${options}`,
    db.slotName,
    (message) => {
      if (message.kind === 'pgoutput') texts.push(message.message.toString('latin1'))
    },
    { publication: PUBLICATION, patienceSeconds: 1 },
  )
  onCleanup(t, () => connection.close())
  await eventually(async () => texts.some((text) => /\d\d:\d\d:\d\d(\.\d+)?\+00/.test(text)), { what: 'the order, its times in UTC' })
  assert.ok(!texts.some((text) => text.includes('+05:30')))
  // The reader sends nothing to the server, like a paused process.
  let end: string | undefined
  void connection.ended.then(
    () => {
      end = 'closed from here'
    },
    () => {
      end = 'ended by the server'
    },
  )
  assert.equal(await eventually(async () => end, { timeoutMs: 30_000, what: 'the end of the connection' }), 'ended by the server')
})

test('changes from before the publication end the stream, even on a server that only warns of them', async (t) => {
  const db = await makeStreamDatabase(t)
  await db.pool.query(`drop publication ${PUBLICATION}`)
  await insertOrders(db.pool, 2)
  await db.pool.query(`create publication ${PUBLICATION} for table orders`)
  await insertOrders(db.pool, 1)
  // This option must not switch off the warning.
  const url = `${db.url}?options=${encodeURIComponent('-c client_min_messages=error')}`
  let messages = 0
  const count = ({ kind, ...rest }: StreamMessage) => {
    if (kind === 'pgoutput' && 'message' in rest && rest.message.toString('latin1', 0, 1) === 'I') messages += 1
  }
  const connection = await openReplication(url, db.slotName, count, { publication: PUBLICATION })
  onCleanup(t, () => connection.close())
  const error = await connection.ended.then(
    () => assert.fail('it was not read to the end'),
    (error: unknown) => error,
  )
  assert.ok(await isOlderThanPublication(db.pool, { slotName: db.slotName, publication: PUBLICATION }, error), String(error))
  assert.equal(messages, 0, 'what comes after a gap is not delivered')
})
