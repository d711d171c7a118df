import assert from 'node:assert/strict'
import os from 'node:os'
import { test } from 'node:test'
import { onCleanup } from '../../test/cleanup.ts'
import {
  DELIVERED,
  logger,
  PARCELS,
  type Parcel,
  RETRY,
  recording,
  send,
  setUp,
  startQueue,
  states,
  WORK,
  waitForStates,
} from '../../test/delivery-harness.ts'
import { eventually, Stopwatch } from '../../test/eventually.ts'
import { collectLog } from '../../test/logs.ts'
import { createPool, type Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { NO_RECEIVER } from './delivery-kind.ts'
import { DeliveryQueue } from './delivery-queue.ts'

test('stores the outcome of each delivery separately', async (t) => {
  const { db, queue } = await setUp(t)
  await send(db, ['broken', 'done', 'failed', 'throws'])
  const runs: Record<string, number> = {}
  queue.work<Parcel>(
    PARCELS,
    WORK,
    recording(async ({ label }) => {
      const run = (runs[label] ?? 0) + 1
      runs[label] = run
      if (label === 'broken') return run < 3 ? RETRY : DELIVERED
      if (label === 'throws' && run === 1) throw new Error('a bug')
      return label === 'failed' ? { to: 'failed', reason: 'moved away' } : DELIVERED
    }),
  )
  await waitForStates(db, { broken: 'delivered', done: 'delivered', failed: 'failed', throws: 'delivered' })
  assert.deepEqual(runs, { broken: 3, done: 1, failed: 1, throws: 2 })
  const { rows } = await db.pool.query('select label, attempts, last_error from parcels order by label')
  assert.deepEqual(
    rows.map((row) => Object.values(row)),
    [
      ['broken', 3, null],
      ['done', 1, null],
      ['failed', 1, 'moved away'],
      ['throws', 2, null],
    ],
  )
})

test('a worker that is woken finds a delivery at once', async (t) => {
  const { db, queue } = await setUp(t)
  const ran = new Map<string, number>()
  const stopwatch = new Stopwatch(t)
  const worker = queue.work<Parcel>(
    PARCELS,
    WORK,
    recording(async ({ label }) => {
      ran.set(label, stopwatch.ms)
      return DELIVERED
    }),
  )
  // A worker that is not woken looks every two seconds, and one of several deliveries would wait for that.
  let longest = 0
  for (let attempt = 0; attempt < 3; attempt++) {
    longest = 0
    for (let parcel = 0; parcel < 4; parcel++) {
      const label = `${attempt}.${parcel}`
      await send(db, [label])
      const woken = stopwatch.ms
      worker.wake([NO_RECEIVER])
      await eventually(async () => ran.has(label))
      longest = Math.max(longest, (ran.get(label) ?? Number.NaN) - woken)
    }
    if (longest < 500) break
  }
  assert.ok(longest < 500)
})

test('deliveries that fail together are not retried together, because their pauses grow and are partly random', async (t) => {
  const { db, queue } = await setUp(t)
  await send(
    db,
    Array.from({ length: 40 }, (_, index) => String(index)),
  )
  const kind = { ...PARCELS, firstPauseSeconds: 100, longestPauseSeconds: 3_600 }
  queue.work<Parcel>(
    kind,
    WORK,
    recording(async () => RETRY),
  )
  const pauses = await eventually(async () => {
    const { rows } = await db.pool.query(`select extract(epoch from due_at - due_set_at)::float as pause from parcels where due_at > now()`)
    return rows.length === 40 && rows.map(({ pause }) => pause)
  })
  // The pause is once to twice the first one.
  assert.ok(Math.min(...pauses) >= 100 && Math.max(...pauses) <= 200, pauses.join())
  assert.ok(Math.max(...pauses) - Math.min(...pauses) > 25, pauses.join())
})

test('a delivery waits until it is due', async (t) => {
  const { db, queue } = await setUp(t)
  const ran: string[] = []
  await send(db, ['later', 'now'])
  await db.pool.query(`update parcels set due_at = now() + interval '1 hour' where label = 'later'`)
  queue.work<Parcel>(
    PARCELS,
    WORK,
    recording(async ({ label }) => {
      ran.push(label)
      return DELIVERED
    }),
  )
  await waitForStates(db, { later: 'queued', now: 'delivered' })
  assert.deepEqual(ran, ['now'])
})

test('two processes share the deliveries of a kind, and none is made twice', async (t) => {
  const { db, queue } = await setUp(t)
  const other = await startQueue(t, db)
  const runs: string[] = []
  const make = recording(async ({ label }) => {
    runs.push(label)
    return DELIVERED
  })
  const workers = [queue, other].map((each) => each.work<Parcel>(PARCELS, WORK, make))
  const labels = Array.from({ length: 200 }, (_, index) => String(index))
  await send(db, labels)
  for (const worker of workers) worker.wake([NO_RECEIVER])
  await eventually(async () => Object.values(await states(db)).every((state) => state === 'delivered'))
  assert.deepEqual(runs.toSorted(), labels.toSorted())
})

test('stopping waits for the delivery in flight, takes no other, and works before start and twice', async (t) => {
  const { db, queue } = await setUp(t)
  await new DeliveryQueue({ pool: db.pool, logger }).stop()
  const begun = Promise.withResolvers<void>()
  const gate = Promise.withResolvers<void>()
  await send(db, ['a', 'b'])
  const worker = queue.work<Parcel>(
    PARCELS,
    // Other kinds share what it would close.
    { places: 1, breakOff: () => assert.fail('nothing is left to break off') },
    recording(async () => {
      begun.resolve()
      await gate.promise
      return DELIVERED
    }),
  )
  await begun.promise
  let isStopped = false
  const stopped = Promise.all([queue.stop(), queue.stop(), worker.stop()]).then(() => {
    isStopped = true
  })
  await db.pool.query('select 1')
  assert.equal(isStopped, false)
  gate.resolve()
  await stopped
  assert.deepEqual(Object.values(await states(db)).toSorted(), ['delivered', 'queued'])
  await queue.stop()
})

test('a delivery that outlasts the stop is made by the next process at once', async (t) => {
  const { db, queue } = await setUp(t)
  const begun = Promise.withResolvers<void>()
  const gate = Promise.withResolvers<void>()
  t.after(() => gate.resolve())
  await send(db, ['stuck'])
  const countLeased = async () => (await db.pool.query('select from parcels where lease is not null')).rowCount
  let leasedThen: number | null = 0
  queue.work<Parcel>(
    PARCELS,
    {
      ...WORK,
      async breakOff() {
        leasedThen = await countLeased()
      },
    },
    recording(async () => {
      begun.resolve()
      await gate.promise
      return RETRY
    }),
  )
  await begun.promise
  await queue.stop()
  assert.deepEqual([leasedThen, await countLeased()], [1, 0], 'broken off before others get it')
  assert.deepEqual(await states(db), { stuck: 'queued' })
  const next = await startQueue(t, db)
  next.work<Parcel>(
    PARCELS,
    WORK,
    recording(async () => DELIVERED),
  )
  await waitForStates(db, { stuck: 'delivered' })
})

test('a delivery of a process that died is made after its lease has ended, and not before', async (t) => {
  const { db, queue } = await setUp(t)
  await send(db, ['held', 'orphan'])
  await db.pool.query(
    `update parcels
    set lease = gen_random_uuid(), attempts = 1, leased_until = now() + case label when 'held' then interval '15 s' else interval '-1 s' end`,
  )
  queue.work<Parcel>(
    PARCELS,
    WORK,
    recording(async () => DELIVERED),
  )
  await waitForStates(db, { held: 'in flight', orphan: 'delivered' })
})

test('a process keeps its lease while a delivery takes longer', async (t) => {
  const { db, queue } = await setUp(t)
  const gate = Promise.withResolvers<void>()
  t.after(() => gate.resolve())
  await send(db, ['long'])
  let runs = 0
  const make = recording(async () => {
    runs++
    await gate.promise
    return DELIVERED
  })
  queue.work<Parcel>(PARCELS, WORK, make)
  await eventually(async () => runs === 1)
  const readLease = async () => (await db.pool.query('select leased_until from parcels')).rows[0].leased_until.getTime()
  const first = await readLease()
  await eventually(async () => (await readLease()) > first, { what: 'a heartbeat' })
  gate.resolve()
  await waitForStates(db, { long: 'delivered' })
  assert.equal(runs, 1)
})

test('continues after its connections were lost', async (t) => {
  const { db, queue } = await setUp(t)
  queue.work<Parcel>(
    PARCELS,
    WORK,
    recording(async () => DELIVERED),
  )
  await db.pool.query(`select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and pid <> pg_backend_pid()`, [db.name])
  await send(db, ['a'])
  await waitForStates(db, { a: 'delivered' })
})

test('a lease is extended while other work uses every connection of the pool', async (t) => {
  const { db } = await setUp(t)
  const onError = () => {}
  const [pool, leasePool] = [1, 1].map((size) => createPool({ url: db.url, size, applicationName: 'test', onError })) as [Pool, Pool]
  const queue = new DeliveryQueue({ pool, leasePool, logger })
  const gate = Promise.withResolvers<void>()
  onCleanup(t, async () => {
    gate.resolve()
    await queue.stop()
    await Promise.all([pool.end(), leasePool.end()])
  })
  await queue.start()
  await send(db, ['long'])
  const begun = Promise.withResolvers<void>()
  queue.work<Parcel>(
    PARCELS,
    WORK,
    recording(async () => {
      begun.resolve()
      await gate.promise
      return DELIVERED
    }),
  )
  await begun.promise
  const other = await pool.connect()
  const readLease = async () => (await db.pool.query('select leased_until from parcels')).rows[0].leased_until.getTime()
  const first = await readLease()
  await eventually(async () => (await readLease()) > first, { what: 'a heartbeat' })
  other.release()
  gate.resolve()
  await waitForStates(db, { long: 'delivered' })
})

test('a table that cannot be read stops no other kind', async (t) => {
  const { db, queue } = await setUp(t)
  const deliver = recording(async () => DELIVERED)
  queue.work<Parcel>({ ...PARCELS, name: 'letters', table: sql`missing_letters` }, WORK, deliver)
  queue.work<Parcel>(PARCELS, WORK, deliver)
  await send(db, ['from another process'])
  await waitForStates(db, { 'from another process': 'delivered' })
})

test('a suspended machine does not count as a clock step, and a real step does', async (t) => {
  const { db } = await setUp(t)
  const { logger: log, lines } = collectLog('warn')
  const queue = new DeliveryQueue({ pool: db.pool, logger: log })
  onCleanup(t, () => queue.stop())
  await queue.start()
  queue.work<Parcel>(
    PARCELS,
    WORK,
    recording(async () => DELIVERED),
  )
  const query = t.mock.method(db.pool, 'query')
  const polls = async (more: number) => {
    const before = query.mock.callCount()
    await eventually(async () => query.mock.callCount() >= before + more, { what: 'polls' })
  }
  await polls(3)
  // The process's clock stood still for an hour, and the database's did not.
  const hourEarlier = performance.now.bind(performance)
  const stoodStill = t.mock.method(performance, 'now', () => hourEarlier() - 3_600_000)
  await polls(3)
  stoodStill.mock.restore()
  assert.equal(lines.length, 0)
  const uptime = os.uptime.bind(os)
  t.mock.method(os, 'uptime', () => uptime() + 3_600)
  await eventually(async () => lines.some((line) => line.includes('clock was set')), { what: 'the warning' })
  assert.equal(JSON.parse(lines[0] ?? '').bySeconds, 3_600)
})
