import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
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
  readerPid,
  startStream,
  untilHeld,
} from '../../test/stream-harness.ts'
import { makeGate } from '../../test/topic-harness.ts'
import type { Commit } from './slot-reader.ts'

test('a stop right after the start leaves the slot free', async (t) => {
  const db = await makeStreamDatabase(t)
  for (let round = 0; round < 5; round++) {
    const stream = await startStream(t, db, async () => {})
    await stream.stop()
  }
  await eventually(async () => (await readerPid(db)) === null, { what: 'a free slot' })
})

test('stop waits for the batch in flight, confirms it, and leaves the rest to the next stream', async (t) => {
  const gate = makeGate(t)
  const db = await makeStreamDatabase(t)
  const first: Commit[] = []
  const stream = await startStream(t, db, async (commits) => {
    first.push(...commits)
    await gate.pass()
  })
  const taken = await insertOrders(db.pool, 2)
  await gate.entered
  const left = await insertOrders(db.pool, 1)
  let stopped = false
  const stop = stream.stop().then(() => {
    stopped = true
  })
  await db.pool.query('select 1')
  assert.equal(stopped, false)
  gate.open()
  await stop
  await eventually(async () => (await readerPid(db)) === null)
  assert.equal(await confirmedPosition(db), endOf(first.at(-1)))

  const second: Commit[] = []
  await startStream(t, db, async (commits) => void second.push(...commits))
  await eventually(async () => second.length > 0)
  assert.deepEqual([idsOf(first), idsOf(second)], [[taken], [left]])
})

test('stops reading at its limits while the handler is busy, and loses nothing', async (t) => {
  const gate = makeGate(t)
  const db = await makeStreamDatabase(t)
  const batches: Commit[][] = []
  await startStream(t, db, async (commits) => {
    batches.push(commits)
    await gate.pass()
  })
  const sent = [await insertOrders(db.pool, 1)]
  await gate.entered
  // The first 24 commits are below the reader's limits. Of all 60, the server keeps those that fit into no socket
  // buffer.
  for (let commit = 0; commit < 24; commit++) sent.push(await insertOrders(db.pool, 300))
  const taken = await currentPosition(db)
  for (let commit = 0; commit < 36; commit++) sent.push(await insertOrders(db.pool, 300))
  await untilHeld(db, taken)
  gate.open()
  await eventually(async () => batches.flat().length >= sent.length)
  assert.deepEqual(idsOf(batches.flat()), sent)
  const sizes = batches.map((commits) => idsOf(commits).flat().length)
  assert.ok(Math.max(...sizes) < 9_000, `batches of ${sizes.join(', ')} changes`)
})

test('delivers a commit of thousands of changes as a whole, even if the connection breaks meanwhile', async (t) => {
  const gate = makeGate(t)
  const db = await makeStreamDatabase(t)
  const seen: Commit[] = []
  await startStream(t, db, async (commits) => {
    await gate.pass()
    seen.push(...commits)
  })
  const small = await insertOrders(db.pool, 1)
  await gate.entered
  const large = await insertOrders(db.pool, 5_000)
  await breakReader(db)
  gate.open()
  await eventually(async () => seen.at(-1)?.changes.length === 5_000)
  assert.deepEqual(idsOf(seen.slice(-2)), [small, large])
})

test("a keep-alive that arrives while a failed batch's connection is closing confirms nothing", async (t) => {
  const gate = makeGate(t)
  const db = await makeStreamDatabase(t)
  const end: (this: pg.Client) => Promise<void> = pg.Client.prototype.end
  // The test decides when the close returns. Meanwhile the server continues to send keep-alives.
  t.mock.method(pg.Client.prototype, 'end', async function (this: pg.Client & { connectionParameters: { replication?: string } }) {
    if (this.connectionParameters.replication !== undefined) await gate.pass()
    return end.call(this)
  })
  const seen: Commit[] = []
  const refuse = async (commits: Commit[]) => {
    seen.push(...commits)
    throw new Error('the topic is unavailable')
  }
  await startStream(t, db, refuse, { patienceSeconds: 1 })
  await eventually(async () => (await readerPid(db)) ?? undefined, { what: 'an active reader' })
  await insertOrders(db.pool, 1)
  await gate.entered
  // The first reply may have been sent before the failure.
  for (let answers = 0; answers < 2; answers++) {
    const before = await lastReply(db)
    await eventually(async () => (await lastReply(db)) !== before, { what: 'an answer to a keep-alive' })
  }
  assert.ok((await confirmedPosition(db)) < endOf(seen[0]))
})

test('delivers a transaction above the limit in parts, and confirms none of it before its end', async (t) => {
  const db = await makeStreamDatabase(t)
  const ROWS = 35_000
  const seen: string[] = []
  const sizes: number[] = []
  const parts: { commit: Commit; confirmed: bigint }[] = []
  let failures = 0
  await startStream(t, db, async (commits) => {
    const ids = idsOf(commits).flat()
    sizes.push(ids.length)
    // After a failure in the middle, the whole transaction is delivered again.
    if (seen.length > ROWS / 2 && failures++ === 0) throw new Error('the topic is unavailable')
    const confirmed = await confirmedPosition(db)
    parts.push(...commits.map((commit) => ({ commit, confirmed })))
    seen.push(...ids)
  })
  const [small, large, last] = [await insertOrders(db.pool, 1), await insertOrders(db.pool, ROWS), await insertOrders(db.pool, 1)]
  await eventually(async () => seen.at(-1) === last[0], { what: 'the last order', timeoutMs: 120_000 })
  assert.ok(failures > 0)
  assert.ok(Math.max(...sizes) <= 21_000, `batches of ${sizes.join(', ')} changes`)
  assert.deepEqual([...new Set(seen)], [...small, ...large, ...last])
  assert.deepEqual(seen.slice(-ROWS - 1), [...large, ...last], 'all of it came again')
  const ofLarge = parts.filter(({ commit }) => commit.changes.some(({ record }) => record.id !== small[0] && record.id !== last[0]))
  assert.ok(ofLarge.length > 3)
  const end = endOf(ofLarge.at(-1)?.commit)
  for (const { commit, confirmed } of ofLarge) {
    assert.ok(endOf(commit) <= end)
    assert.ok(confirmed < end, 'none of it is confirmed before all of it is stored')
  }
})
