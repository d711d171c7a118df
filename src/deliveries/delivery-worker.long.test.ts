import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { onCleanup } from '../../test/cleanup.ts'
import {
  countStatements,
  DELIVERED,
  PARCELS,
  type Parcel,
  recording,
  send,
  sendTo,
  setUp,
  startQueue,
  states,
  times,
} from '../../test/delivery-harness.ts'
import { eventually } from '../../test/eventually.ts'
import { NO_RECEIVER } from './delivery-kind.ts'
import type { WorkOptions } from './delivery-worker.ts'

test('a new receiver gets its first delivery while healthy receivers with a backlog use all places', async (t) => {
  const { db, queue } = await setUp(t)
  const arrived = new Map<string, number>()
  const options: WorkOptions = { places: 64, share: { perReceiver: 10, suspects: 4, slowMs: 5_000 } }
  const worker = queue.work<Parcel>(
    PARCELS,
    options,
    recording(async ({ label }, report) => {
      await delay(50)
      arrived.set(label, (arrived.get(label) ?? 0) + 1)
      report('well')
      return DELIVERED
    }),
  )
  for (const [count, name] of [
    [6, 'six'],
    [9, 'nine'],
  ] as const) {
    const busy = Array.from({ length: count }, (_, index) => `${name} ${index}`)
    await sendTo(db, worker, busy)
    await eventually(async () => busy.every((receiver) => arrived.has(receiver)))
    await sendTo(
      db,
      worker,
      busy.flatMap((receiver) => times(1_000, receiver)),
    )
    await eventually(async () => busy.every((receiver) => (arrived.get(receiver) ?? 0) > 30), { what: 'each of those with a backlog' })
    await sendTo(db, worker, [`new to ${name}`])
    await eventually(async () => arrived.has(`new to ${name}`), { what: `the first delivery beside ${name}` })
    for (const receiver of busy) assert.ok((arrived.get(receiver) ?? 0) < 800, `${receiver} had a backlog`)
  }
})

test('a new receiver gets its first delivery while slow receivers with a backlog use all places for suspects', async (t) => {
  const { db, queue } = await setUp(t)
  const arrived = new Map<string, number>()
  const slow = ['a one', 'b two', 'c three', 'd four']
  const worker = queue.work<Parcel>(
    PARCELS,
    { places: 64, share: { perReceiver: 10, suspects: 4, slowMs: 100 } },
    recording(async ({ label }, report) => {
      // This is longer than the time between two polls.
      if (slow.includes(label)) await delay(3_000)
      arrived.set(label, (arrived.get(label) ?? 0) + 1)
      report('well')
      return DELIVERED
    }),
  )
  await sendTo(db, worker, slow)
  await eventually(async () => slow.every((receiver) => arrived.has(receiver)))
  await sendTo(
    db,
    worker,
    slow.flatMap((receiver) => times(25, receiver)),
  )
  // A poll has announced all of them once more.
  await eventually(async () => slow.every((receiver) => (arrived.get(receiver) ?? 0) > 2), { what: 'each of the slow ones' })
  await sendTo(db, worker, ['z new'])
  await eventually(async () => arrived.has('z new'), { what: 'the first delivery beside them' })
  for (const receiver of slow) assert.ok((arrived.get(receiver) ?? 0) < 20, `${receiver} had a backlog`)
})

test('a new receiver whose delivery finds no free place costs no statements until a place is free', async (t) => {
  const { db, queue } = await setUp(t)
  const gate = Promise.withResolvers<void>()
  t.after(() => gate.resolve())
  const arrived = new Map<string, number>()
  const worker = queue.work<Parcel>(
    PARCELS,
    { places: 4, share: { perReceiver: 4, suspects: 2, slowMs: 600_000 } },
    recording(async ({ label }, report) => {
      arrived.set(label, (arrived.get(label) ?? 0) + 1)
      if ((arrived.get('busy') ?? 0) > 1) await gate.promise
      report('well')
      return DELIVERED
    }),
  )
  await sendTo(db, worker, ['busy'])
  await eventually(async () => (await db.pool.query(`select from parcels where status = 'queued'`)).rowCount === 0)
  await sendTo(db, worker, times(4, 'busy'))
  await eventually(async () => arrived.get('busy') === 5)
  await sendTo(db, worker, ['new'])
  const countOf = countStatements(db)
  await delay(2_000)
  const statements = countOf()
  assert.ok(statements < 20, `${statements} statements`)
  gate.resolve()
  await eventually(async () => arrived.has('new'))
})

test('a long lock on the rows of one receiver ends no lease of other rows, and no delivery is made twice', async (t) => {
  const { db, queue } = await setUp(t)
  const other = await startQueue(t, db)
  const gate = Promise.withResolvers<void>()
  t.after(() => gate.resolve())
  const runs = new Map<string, number>()
  const make = recording(async ({ label }, report) => {
    runs.set(label, (runs.get(label) ?? 0) + 1)
    if (label !== 'quick') await gate.promise
    report('well')
    return DELIVERED
  })
  const share = { perReceiver: 4, suspects: 8, slowMs: 600_000 }
  const worker = queue.work<Parcel>(PARCELS, { places: 16, share }, make)
  await sendTo(db, worker, ['locked', 'held', 'quick'])
  await eventually(async () => runs.size === 3)
  other.work<Parcel>(PARCELS, { places: 16, share }, make)
  const connection = await db.pool.connect()
  onCleanup(t, () => connection.release(true))
  await connection.query(`begin; select from parcels where receiver = 'locked' for update`)
  await delay(20_000)
  await sendTo(db, worker, ['quick'])
  await eventually(async () => runs.get('quick') === 2, { what: 'one beside the lock' })
  gate.resolve()
  await eventually(async () => (await states(db)).held === 'delivered')
  // The lease of the locked delivery has ended, so another process may make it, but not this one.
  await other.stop()
  await connection.query('commit')
  await eventually(async () => (await states(db)).locked === 'delivered')
  assert.deepEqual(Object.fromEntries(runs), { locked: 1, held: 1, quick: 2 })
})

for (const change of [
  `delete from parcels where lease is not null`,
  `update parcels set status = 'failed', lease = null where lease is not null`,
]) {
  test(`deliveries that wait in memory do not begin after the next heartbeat: ${change.slice(0, 6)}`, async (t) => {
    const { db, queue } = await setUp(t)
    const gate = Promise.withResolvers<void>()
    t.after(() => gate.resolve())
    let begun = 0
    const worker = queue.work<Parcel>(
      PARCELS,
      { places: 16, share: { perReceiver: 2, suspects: 8, slowMs: 600_000 } },
      recording(async (_parcel, report) => {
        if (begun++ > 0) await gate.promise
        report('well')
        return DELIVERED
      }),
    )
    await sendTo(db, worker, ['shop'])
    await eventually(async () => (await states(db)).shop === 'delivered')
    await sendTo(db, worker, times(10, 'shop'))
    const isTaken = async () => (await db.pool.query('select from parcels where lease is not null')).rowCount === 10
    await eventually(isTaken, { what: 'eight that wait' })
    await db.pool.query(change)
    await delay(6_000)
    gate.resolve()
    await delay(1_000)
    assert.equal(begun, 3)
  })
}

test('deliveries that waited in a paused process are given back, and no attempt is counted', async (t) => {
  const { db, queue } = await setUp(t)
  const gate = Promise.withResolvers<void>()
  t.after(() => gate.resolve())
  const attempts: number[] = []
  const worker = queue.work<Parcel>(
    PARCELS,
    { places: 16, share: { perReceiver: 2, suspects: 8, slowMs: 600_000 } },
    recording(async (parcel, report) => {
      attempts.push(parcel.attempts)
      if (attempts.length > 1) await gate.promise
      report('well')
      return DELIVERED
    }),
  )
  await sendTo(db, worker, ['shop'])
  await eventually(async () => (await states(db)).shop === 'delivered')
  await sendTo(db, worker, times(10, 'shop'))
  await eventually(async () => (await db.pool.query('select from parcels where lease is not null')).rowCount === 10)
  // No timer of this process runs meanwhile.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 16_000)
  gate.resolve()
  await eventually(async () => (await db.pool.query(`select from parcels where status = 'queued'`)).rowCount === 0)
  assert.equal(attempts.length, 11, 'none is made twice')
  assert.equal(Math.max(...attempts), 1)
})

test('due deliveries are made while the correction of times is slow, or fails', async (t) => {
  const { db, queue } = await setUp(t)
  await send(db, ['ahead'], () => 'ahead')
  await db.pool.query(
    `update parcels set due_at = now() + interval '1 day', due_set_at = now() + interval '1 day';
    create function refuse() returns trigger language plpgsql as $$ begin perform pg_sleep(4); raise exception 'no'; end $$;
    create trigger refuse before update of due_set_at on parcels for each row execute function refuse()`,
  )
  const made = new Set<string>()
  queue.work<Parcel>(
    PARCELS,
    { places: 4 },
    recording(async ({ label }) => {
      made.add(label)
      return DELIVERED
    }),
  )
  await delay(500)
  await send(db, ['due'], () => NO_RECEIVER)
  const began = performance.now()
  await eventually(async () => made.has('due'))
  assert.ok(performance.now() - began < 3_500, 'the poll found it')
  await delay(5_000)
  await send(db, ['later'], () => NO_RECEIVER)
  await eventually(async () => made.has('later'))
})
