import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openDeadWire } from '../../test/dead-wire.ts'
import { eventually } from '../../test/eventually.ts'
import { idsOf, insertOrders, makeStreamDatabase, startStream } from '../../test/stream-harness.ts'
import { ServerSilent } from './replication-connection.ts'

test('a stream whose server falls silent fails, and delivers the next order on a new connection', async (t) => {
  const db = await makeStreamDatabase(t)
  const wire = await openDeadWire(t, db.url)
  const seen: string[] = []
  const stream = await startStream(t, { ...db, url: wire.url }, async (commits) => void seen.push(...idsOf(commits).flat()), {
    silenceMs: 3_000,
    patienceSeconds: 2,
  })
  const [first = ''] = await insertOrders(db.pool, 1)
  await eventually(async () => seen.includes(first), { what: 'the first order' })
  wire.die()
  await eventually(async () => stream.state === 'failing', { what: 'a stream that fails' })
  assert.ok(stream.failure instanceof ServerSilent)
  wire.recover()
  const [second = ''] = await insertOrders(db.pool, 1)
  await eventually(async () => seen.includes(second), { what: 'the order after the silence' })
})

test('a stream that is idle for longer than a silent server may be stays on its connection', async (t) => {
  const db = await makeStreamDatabase(t)
  let openings = 0
  const onOpened = () => {
    openings += 1
  }
  const stream = await startStream(t, db, async () => {}, { silenceMs: 8_000, onOpened })
  await eventually(async () => stream.state === 'active')
  const since = performance.now()
  await eventually(async () => performance.now() - since > 18_000)
  assert.deepEqual([stream.state, openings], ['active', 1])
})

test('a standby whose server falls silent takes over later', async (t) => {
  const db = await makeStreamDatabase(t)
  const active = await startStream(t, db, async () => {})
  await eventually(async () => active.state === 'active')
  const wire = await openDeadWire(t, db.url)
  const seen: string[] = []
  const standby = await startStream(t, { ...db, url: wire.url }, async (commits) => void seen.push(...idsOf(commits).flat()))
  await eventually(async () => standby.state === 'standby' && wire.open() > 0, { what: 'one that stands by' })
  wire.die()
  await eventually(async () => wire.open() > 0, { what: 'an attempt on the dead wire' })
  wire.recover()
  await active.stop()
  const [order = ''] = await insertOrders(db.pool, 1)
  await eventually(async () => seen.includes(order), { what: 'the order from the standby', timeoutMs: 90_000 })
})
