import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setConnectable, terminateBackends } from '../../test/database.ts'
import { eventually } from '../../test/eventually.ts'
import {
  breakReader,
  confirmedPosition,
  currentPosition,
  endOf,
  idsOf,
  insertOrders,
  lastReply,
  makeStreamDatabase,
  moveOrder,
  readerPid,
  startStream,
} from '../../test/stream-harness.ts'
import { makeGate } from '../../test/topic-harness.ts'
import { inTransaction } from '../db/transaction.ts'
import type { Commit } from './slot-reader.ts'

/** Collects the commits that the handler receives. */
class Commits {
  readonly all: Commit[] = []
  readonly handle = async (commits: Commit[]) => void this.all.push(...commits)

  async until(count: number): Promise<void> {
    await eventually(async () => this.all.length >= count, { what: `${count} commits` })
  }
}

test('delivers whole commits in commit order', async (t) => {
  const db = await makeStreamDatabase(t)
  const seen = new Commits()
  await startStream(t, db, seen.handle)
  const early = await db.pool.connect()
  await early.query('begin')
  const committedLast = await insertOrders(early, 2)
  const committedFirst = await inTransaction(db.pool, async (tx) => [...(await insertOrders(tx, 3)), ...(await insertOrders(tx, 1))])
  await early.query('commit')
  early.release()
  await seen.until(2)
  assert.deepEqual(idsOf(seen.all), [committedFirst, committedLast])
  assert.ok(endOf(seen.all[0]) < endOf(seen.all[1]))
  assert.match(seen.all[0]?.position ?? '', /^\d+\.1\/[0-9a-f]{16}$/)
})

test('delivers the commits from before its start, and nothing that was rolled back', async (t) => {
  const db = await makeStreamDatabase(t)
  const before = await insertOrders(db.pool, 1)
  await assert.rejects(
    inTransaction(db.pool, async (tx) => {
      await insertOrders(tx, 5)
      throw new Error('changed my mind')
    }),
  )
  const kept = await inTransaction(db.pool, async (tx) => {
    await tx.query('savepoint undone')
    await insertOrders(tx, 1)
    await tx.query('rollback to undone')
    return insertOrders(tx, 1)
  })
  const seen = new Commits()
  await startStream(t, db, seen.handle)
  const end = await insertOrders(db.pool, 1)
  await eventually(async () => seen.all.at(-1)?.changes[0]?.record.id === end[0])
  assert.deepEqual(idsOf(seen.all), [before, kept, end])
})

test('an update contains the whole order, with its 600 unchanged lines, and the previous status', async (t) => {
  const db = await makeStreamDatabase(t)
  const [id = ''] = await insertOrders(db.pool, 1, 600)
  await moveOrder(db.pool, id, 'confirmed')
  await db.pool.query('delete from orders where id = $1', [id])
  const [end] = await insertOrders(db.pool, 1)
  const seen = new Commits()
  await startStream(t, db, seen.handle)
  await eventually(async () => seen.all.at(-1)?.changes[0]?.record.id === end)
  const changes = seen.all.flatMap((commit) => commit.changes).filter(({ record }) => record.id === id)
  assert.deepEqual(
    changes.map(({ record, previous }) => [record.version, record.status, previous?.status, record.items.length]),
    [
      [1, 'pending', undefined, 600],
      [2, 'confirmed', 'pending', 600],
    ],
  )
  assert.deepEqual(changes[1]?.record.items, changes[0]?.record.items)
  assert.ok(changes[1]?.record.created_at instanceof Date)
})

test('confirms a position only after the handler has returned for everything up to it', async (t) => {
  const gate = makeGate(t)
  const db = await makeStreamDatabase(t)
  const seen = new Commits()
  await startStream(
    t,
    db,
    async (commits) => {
      if (seen.all.length > 0) await gate.pass()
      await seen.handle(commits)
    },
    { patienceSeconds: 6 },
  )
  await insertOrders(db.pool, 1)
  await seen.until(1)
  await eventually(async () => (await confirmedPosition(db)) >= endOf(seen.all[0]))
  await insertOrders(db.pool, 1)
  await gate.entered
  await insertOrders(db.pool, 1)
  // The reader reports its confirmed position every two seconds, and when the server asks.
  for (let answers = 0; answers < 2; answers++) {
    const last = (await lastReply(db)) ?? ''
    await eventually(async () => ((await lastReply(db)) ?? '') > last, { what: 'an answer to the server' })
  }
  const held = await confirmedPosition(db)
  gate.open()
  await seen.until(3)
  assert.ok(held < endOf(seen.all[1]))
  await eventually(async () => (await confirmedPosition(db)) >= endOf(seen.all[2]))
})

// The server's patience in this test. A stalled machine pauses for less, and the test takes a little longer.
const IMPATIENCE_SECONDS = 6

/** Waits longer than the server's patience, and asserts that the reader keeps its connection. */
async function assertPatient(db: Awaited<ReturnType<typeof makeStreamDatabase>>): Promise<void> {
  const pid = await readerPid(db)
  const since = performance.now()
  while (performance.now() - since < 1_200 * IMPATIENCE_SECONDS) {
    const last = (await lastReply(db)) ?? ''
    await eventually(async () => ((await lastReply(db)) ?? '') > last, { what: 'an answer to the server' })
  }
  assert.equal(await readerPid(db), pid)
}

test('keeps its connection while it is slow before the first commits', async (t) => {
  const gate = makeGate(t)
  const db = await makeStreamDatabase(t)
  const seen = new Commits()
  await insertOrders(db.pool, 1)
  const start = await confirmedPosition(db)
  await startStream(t, db, seen.handle, { patienceSeconds: IMPATIENCE_SECONDS, onOpened: () => gate.pass() })
  await gate.entered
  await assertPatient(db)
  assert.equal(await confirmedPosition(db), start)
  assert.equal(seen.all.length, 0)
  gate.open()
  await seen.until(1)
})

test('keeps its connection while the handler is slow with the first commits', async (t) => {
  const gate = makeGate(t)
  const db = await makeStreamDatabase(t)
  const seen = new Commits()
  await insertOrders(db.pool, 1)
  await startStream(
    t,
    db,
    async (commits) => {
      await gate.pass()
      await seen.handle(commits)
    },
    { patienceSeconds: IMPATIENCE_SECONDS },
  )
  await gate.entered
  await assertPatient(db)
  const held = await confirmedPosition(db)
  gate.open()
  await insertOrders(db.pool, 1)
  await seen.until(2)
  assert.equal(seen.all.length, 2)
  assert.ok(held < endOf(seen.all[0]))
})

test('after the handler throws, delivers the same commits again, in order and without gaps', async (t) => {
  const db = await makeStreamDatabase(t)
  const calls: string[][] = []
  const stored: string[] = []
  const stream = await startStream(t, db, async (commits) => {
    const ids = idsOf(commits).flat()
    calls.push(ids)
    if (calls.length < 3) throw new Error('the topic is unavailable')
    stored.push(...ids)
  })
  const first = await insertOrders(db.pool, 1)
  await eventually(async () => stream.state === 'failing')
  const rest = [...(await insertOrders(db.pool, 2)), ...(await insertOrders(db.pool, 1))]
  await eventually(async () => stored.length >= 4)
  assert.deepEqual(stored, [...first, ...rest])
  assert.deepEqual([calls[0]?.[0], calls[1]?.[0]], [first[0], first[0]])
  await eventually(async () => stream.state === 'active')
})

test('stays failing until the commits on which the handler failed are stored', async (t) => {
  const db = await makeStreamDatabase(t)
  const seen: string[] = []
  const stream = await startStream(t, db, async () => {
    seen.push(stream.state)
    if (seen.length < 4) throw new Error('the topic is unavailable')
  })
  await eventually(async () => stream.state === 'active')
  await insertOrders(db.pool, 1)
  await eventually(async () => seen.length === 4 && stream.state === 'active')
  assert.deepEqual(seen, ['active', 'failing', 'failing', 'failing'])
})

test('stops failing after another process has stored the commits on which its own handler failed', async (t) => {
  const db = await makeStreamDatabase(t)
  const stream = await startStream(t, db, async () => {
    throw new Error('the topic is unavailable from here')
  })
  await insertOrders(db.pool, 1)
  await eventually(async () => stream.state === 'failing')
  const seen = new Commits()
  const other = await startStream(t, db, seen.handle)
  await seen.until(1)
  await eventually(async () => stream.state === 'standby')
  await other.stop()
  await eventually(async () => stream.state === 'active')
})

test('a second stream is on standby, and takes over when the first one stops', async (t) => {
  const db = await makeStreamDatabase(t)
  const [first, second] = [new Commits(), new Commits()]
  const active = await startStream(t, db, first.handle)
  await eventually(async () => active.state === 'active')
  const standby = await startStream(t, db, second.handle)
  await eventually(async () => standby.state === 'standby')
  const before = await insertOrders(db.pool, 1)
  await first.until(1)
  await active.stop()
  const after = await insertOrders(db.pool, 1)
  await second.until(1)
  assert.deepEqual([idsOf(first.all), idsOf(second.all)], [[before], [after]])
  assert.deepEqual([active.state, standby.state], ['stopped', 'active'])
})

test("a standby stream takes over, with the commits in flight, when the first one's connection breaks", async (t) => {
  const gate = makeGate(t)
  const db = await makeStreamDatabase(t)
  const second = new Commits()
  const active = await startStream(t, db, () => gate.pass())
  await eventually(async () => active.state === 'active')
  await startStream(t, db, second.handle)
  const order = await insertOrders(db.pool, 1)
  await gate.entered
  await breakReader(db)
  await second.until(1)
  gate.open()
  await eventually(async () => active.state === 'standby')
  assert.deepEqual(idsOf(second.all), [order])
})

test('the position of a slot without changes advances while other tables are written', async (t) => {
  const db = await makeStreamDatabase(t)
  const stream = await startStream(t, db, async () => assert.fail('no order was changed'), { patienceSeconds: 1 })
  await eventually(async () => stream.state === 'active')
  await db.pool.query(`insert into topic_subscribers (name, sequence) select 'reader ' || n, n from generate_series(1, 1000) as n`)
  const written = await currentPosition(db)
  await eventually(async () => (await confirmedPosition(db)) >= written, { what: 'a confirmed position past the other writes' })
})

test('continues at its position after an outage of the database', async (t) => {
  const db = await makeStreamDatabase(t)
  const seen = new Commits()
  const stream = await startStream(t, db, seen.handle)
  const before = await insertOrders(db.pool, 1)
  await seen.until(1)
  await eventually(async () => (await confirmedPosition(db)) >= endOf(seen.all[0]))
  await setConnectable(db, false)
  await terminateBackends(db)
  await eventually(async () => stream.state === 'failing')
  await setConnectable(db, true)
  const after = await eventually(() => insertOrders(db.pool, 1).catch(() => undefined))
  await seen.until(2)
  assert.deepEqual(idsOf(seen.all), [before, after])
  assert.equal(stream.state, 'active')
})
