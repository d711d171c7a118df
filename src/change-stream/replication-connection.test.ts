import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onCleanup } from '../../test/cleanup.ts'
import { eventually } from '../../test/eventually.ts'
import { insertOrders, makeStreamDatabase } from '../../test/stream-harness.ts'
import { openReplication } from './replication-connection.ts'
import { PUBLICATION } from './replication-slot.ts'

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
  // It sends nothing to the server, like a paused process.
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
