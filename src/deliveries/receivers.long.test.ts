import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestDatabase } from '../../test/database.ts'
import {
  countStatements,
  DELIVERED,
  PARCELS,
  type Parcel,
  RETRY,
  recording,
  send,
  sendTo,
  setUp,
  startQueue,
  times,
} from '../../test/delivery-harness.ts'
import { eventually } from '../../test/eventually.ts'
import type { DeliveryKind } from './delivery-kind.ts'
import type { DeliveryWorker, WorkOptions } from './delivery-worker.ts'

const SHARED: WorkOptions = { places: 8, share: { perReceiver: 3, suspects: 4, slowMs: 200 } }
const LONG_PAUSES: DeliveryKind = { ...PARCELS, firstPauseSeconds: 3_600, longestPauseSeconds: 3_600 }
const GROWING_PAUSES: DeliveryKind = { ...PARCELS, longestPauseSeconds: 3_600 }

/** Queues parcels with these labels to one receiver. */
async function sendToShop(db: TestDatabase, worker: DeliveryWorker<Parcel>, labels: readonly string[]): Promise<void> {
  await send(db, labels, () => 'shop')
  worker.wake(['shop'])
}

/** Receivers that hold each delivery until the test opens them. */
function createGate() {
  const gate = Promise.withResolvers<void>()
  const inFlight = new Map<string, number>()
  const most = new Map<string, number>()
  return {
    open: () => gate.resolve(),
    most,
    async hold(receiver: string) {
      const running = (inFlight.get(receiver) ?? 0) + 1
      inFlight.set(receiver, running)
      most.set(receiver, Math.max(most.get(receiver) ?? 0, running))
      await gate.promise
      inFlight.set(receiver, (inFlight.get(receiver) ?? 0) - 1)
    },
  }
}

/** Starts a worker whose receivers are healthy. The receivers for which `isHeld` is true hold their deliveries. */
async function startGated(t: Parameters<typeof setUp>[0], isHeld: (receiver: string) => boolean, options = SHARED) {
  const { db, queue } = await setUp(t)
  const gate = createGate()
  t.after(gate.open)
  const arrived = new Map<string, number>()
  const worker = queue.work<Parcel>(
    PARCELS,
    options,
    recording(async ({ label }, report) => {
      if (isHeld(label)) await gate.hold(label)
      arrived.set(label, (arrived.get(label) ?? 0) + 1)
      report('well')
      return DELIVERED
    }),
  )
  return { db, queue, worker, gate, arrived }
}

for (const hanging of [1, 4, 50]) {
  test(`a receiver gets its deliveries while ${hanging} hanging receivers have more queued deliveries before it than there are places`, async (t) => {
    const { db, worker, gate, arrived } = await startGated(t, (label) => label !== 'good')
    // A receiver that is known to be healthy does not wait among others.
    await sendTo(db, worker, ['good'])
    await eventually(async () => arrived.get('good') === 1)
    const bad = Array.from({ length: hanging }, (_, index) => times(hanging === 50 ? 5 : 20, `bad ${index}`)).flat()
    await sendTo(db, worker, [...bad, ...times(20, 'good')])
    await eventually(async () => arrived.get('good') === 21, { what: 'the deliveries to the good one' })
    await eventually(async () => gate.most.size > 0, { what: 'those that hang' })
    assert.ok(Math.max(...gate.most.values()) === 1, 'a receiver that has never accepted a delivery gets one at a time')
    gate.open()
    await eventually(async () => (await db.pool.query(`select from parcels where status = 'queued'`)).rowCount === 0, {
      what: 'the deliveries to those that hung',
    })
    assert.ok(Math.max(...gate.most.values()) <= 3, 'no receiver has more than its share')
  })
}

test('a healthy receiver that begins to hang keeps its share and takes no place of others', async (t) => {
  let isHanging = false
  const { db, worker, gate, arrived } = await startGated(t, (label) => label === 'bad' && isHanging)
  await sendTo(db, worker, ['bad', 'good'])
  await eventually(async () => arrived.size === 2)
  isHanging = true
  await sendTo(db, worker, [...times(30, 'bad'), ...times(10, 'good')])
  await eventually(async () => arrived.get('good') === 11, { what: 'the deliveries to the good one' })
  assert.ok((gate.most.get('bad') ?? 0) <= 3)
  gate.open()
  await eventually(async () => arrived.get('bad') === 31, { what: 'the deliveries to the other one' })
})

test('a healthy receiver that cannot keep up delays no other, and gets all its deliveries', async (t) => {
  let isBusy = false
  // It never counts as slow.
  const share = { perReceiver: 3, suspects: 4, slowMs: 600_000 }
  const { db, worker, gate, arrived } = await startGated(t, (label) => label === 'busy' && isBusy, { places: 8, share })
  await sendTo(db, worker, ['busy', 'good'])
  await eventually(async () => arrived.size === 2)
  isBusy = true
  await sendTo(db, worker, [...times(400, 'busy'), ...times(10, 'good')])
  await eventually(async () => arrived.get('good') === 11, { what: 'the deliveries to the good one' })
  assert.equal(gate.most.get('busy'), 3)
  gate.open()
  await eventually(async () => arrived.get('busy') === 401, { what: 'the deliveries to the busy one' })
  assert.equal(gate.most.get('busy'), 3)
})

test('a new delivery does not wait for a burst of deliveries to its receiver', async (t) => {
  const { db, queue } = await setUp(t)
  const arrived: string[] = []
  const gate = createGate()
  t.after(gate.open)
  const worker = queue.work<Parcel>(
    PARCELS,
    SHARED,
    recording(async ({ label }, report) => {
      await gate.hold(label)
      arrived.push(label)
      report('well')
      return DELIVERED
    }),
  )
  await sendToShop(db, worker, times(2_000, 'old'))
  await eventually(async () => gate.most.has('old'), { what: 'a backlog' })
  await sendToShop(db, worker, times(5, 'new'))
  gate.open()
  await eventually(async () => arrived.length === 2_005, { what: 'all of them' })
  const last = arrived.lastIndexOf('new')
  assert.ok(last < 500, `the last new one came as number ${last}`)
})

test('finds receivers behind a hundred thousand deliveries to another one, without reading these each time', async (t) => {
  const { db, queue } = await setUp(t)
  await queue.stop()
  const many = 100_000
  const others = Array.from({ length: 20 }, (_, index) => `new ${index}`)
  await send(db, ['bad', ...others], (receiver) => receiver)
  await db.pool.query(
    `insert into parcels (parcel_id, label, receiver, due_at)
    select gen_random_uuid(), 'bad', 'bad', now() - interval '1 hour' from generate_series(1, $1)`,
    [many],
  )
  await db.pool.query('vacuum analyze parcels')
  const countReads = async () => {
    await db.pool.query('select pg_stat_force_next_flush()')
    const { rows } = await db.pool.query<{ reads: number }>(
      `select (seq_tup_read + idx_tup_fetch)::integer as reads from pg_stat_user_tables where relname = 'parcels'`,
    )
    return rows[0]?.reads ?? Number.NaN
  }
  const before = await countReads()
  const gate = createGate()
  t.after(gate.open)
  const arrived = new Set<string>()
  const next = await startQueue(t, db)
  next.work<Parcel>(
    PARCELS,
    SHARED,
    recording(async ({ label }, report) => {
      if (label === 'bad') await gate.hold(label)
      else arrived.add(label)
      report('well')
      return DELIVERED
    }),
  )
  await eventually(async () => arrived.size === others.length, { what: 'the deliveries to the others' })
  gate.open()
  const reads = await eventually(async () => (await countReads()) - before, { what: 'the statistics' })
  t.diagnostic(`${reads} rows read`)
  assert.ok(reads < many / 10, `${reads} rows were read`)
})

test('many new deliveries to a hanging receiver do not cost a statement for each delivery to others', async (t) => {
  const { db, worker, arrived } = await startGated(t, (label) => label === 'bad')
  await sendTo(db, worker, ['good'])
  await eventually(async () => arrived.get('good') === 1)
  await sendTo(db, worker, times(20_000, 'bad'))
  const countOf = countStatements(db)
  await sendTo(db, worker, ['good'])
  await eventually(async () => arrived.get('good') === 2, { what: 'the one behind 20,000 others' })
  const statements = countOf()
  assert.ok(statements < 50, `${statements} statements`)
})

test('a failing receiver gets one delivery after each pause, and all its deliveries when it is back', async (t) => {
  const { db, queue } = await setUp(t)
  let isDown = true
  let [asked, taken, running, most] = [0, 0, 0, 0]
  const worker = queue.work<Parcel>(
    GROWING_PAUSES,
    SHARED,
    recording(async (_parcel, report) => {
      asked++
      most = Math.max(most, ++running)
      await new Promise(setImmediate)
      running--
      report(isDown ? 'failing' : 'well')
      if (!isDown) taken++
      return isDown ? RETRY : DELIVERED
    }),
  )
  await sendTo(db, worker, times(40, 'shop'))
  await eventually(async () => asked >= 4, { what: 'a probe after three failures' })
  assert.equal(most, 1)
  assert.ok(asked < 12, `asked ${asked} times: without a pause each delivery would have asked`)
  // The pauses of those that were tried become long.
  await db.pool.query(`update parcels set due_at = now() + interval '1 hour' where attempts > 0 and lease is null`)
  isDown = false
  await eventually(async () => taken === 40, { what: 'all of them, also those with a longer pause' })
})

/** A shop that never takes the parcel `poison`. */
function createPickyShop() {
  const counts = { poison: 0, others: 0 }
  const make = recording(async ({ label }, report) => {
    const isPoison = label === 'poison'
    report(isPoison ? 'failing' : 'well')
    counts[isPoison ? 'poison' : 'others']++
    return isPoison ? RETRY : DELIVERED
  })
  return { counts, make }
}

test('a delivery that its receiver never accepts does not pause the others, and is not tried more often', async (t) => {
  const { db, queue } = await setUp(t)
  const { counts, make } = createPickyShop()
  const worker = queue.work<Parcel>(LONG_PAUSES, SHARED, make)
  await sendToShop(
    db,
    worker,
    Array.from({ length: 20 }, (_, index) => (index === 3 ? 'poison' : 'fine')),
  )
  await eventually(async () => counts.others === 19, { what: 'the others' })
  assert.equal(counts.poison, 1)
})

test('a delivery that its receiver never accepts does not delay others after the receiver is back', async (t) => {
  const { db, queue } = await setUp(t)
  const { counts, make } = createPickyShop()
  // There are no pauses, so the delivery that fails is always due.
  const worker = queue.work<Parcel>(PARCELS, SHARED, make)
  await sendToShop(db, worker, ['poison'])
  await eventually(async () => counts.poison >= 4)
  await sendToShop(db, worker, times(10, 'fine'))
  await eventually(async () => counts.others === 10, { what: 'the others' })
})

test('deliveries end without pauses if nothing needs to be sent to their receiver any more', async (t) => {
  const { db, queue } = await setUp(t)
  let isRemoved = false
  let done = 0
  const worker = queue.work<Parcel>(
    LONG_PAUSES,
    SHARED,
    recording(async (_parcel, report) => {
      if (!isRemoved) report('failing')
      else done++
      return isRemoved ? DELIVERED : RETRY
    }),
  )
  await sendTo(db, worker, times(2, 'shop'))
  await eventually(async () => (await db.pool.query(`select from parcels where due_at > now()`)).rowCount === 2)
  isRemoved = true
  await sendTo(db, worker, times(300, 'shop'))
  await eventually(async () => done === 300)
})

test('the end of an outage that affected all receivers ends their pauses', async (t) => {
  const { db, queue } = await setUp(t)
  let isDown = true
  const asked = new Set<string>()
  let taken = 0
  const worker = queue.work<Parcel>(
    LONG_PAUSES,
    SHARED,
    recording(async ({ label }, report) => {
      asked.add(label)
      report(isDown ? 'failing' : 'well')
      if (!isDown) taken++
      return isDown ? RETRY : DELIVERED
    }),
  )
  await sendTo(
    db,
    worker,
    ['a', 'b', 'c', 'd', 'e'].flatMap((receiver) => times(4, receiver)),
  )
  await eventually(async () => asked.size === 5)
  await eventually(async () => (await db.pool.query('select from parcels where lease is not null')).rowCount === 0)
  isDown = false
  worker.endPauses(Number.POSITIVE_INFINITY)
  await eventually(async () => taken === 20, { what: 'all of them' })
})

test('a delivery that failed long before an outage of its receiver keeps its pause when the outage ends', async (t) => {
  const { db, queue } = await setUp(t)
  let isDown = false
  let [asked, taken, greylisted] = [0, 0, 0]
  const worker = queue.work<Parcel>(
    GROWING_PAUSES,
    SHARED,
    recording(async ({ label }, report) => {
      asked++
      const isTaken = !isDown && label !== 'greylisted'
      report(isTaken ? 'well' : 'failing')
      if (label === 'greylisted') greylisted++
      else if (isTaken) taken++
      return isTaken ? DELIVERED : RETRY
    }),
  )
  await sendToShop(db, worker, ['known'])
  await eventually(async () => taken === 1)
  await sendToShop(db, worker, ['greylisted'])
  await eventually(async () => greylisted > 0)
  // Some more failures would make it so long. The worker writes the end of an attempt after the attempt.
  const lengthen = `update parcels set due_at = now() + interval '1 hour' where label = 'greylisted' and lease is null`
  await eventually(async () => (await db.pool.query(lengthen)).rowCount === 1)
  const failures = greylisted
  isDown = true
  const before = asked
  await sendToShop(db, worker, times(4, 'later'))
  await eventually(async () => asked >= before + 3, { what: 'three failures' })
  isDown = false
  await eventually(async () => taken === 5, { what: 'the deliveries that failed in the outage' })
  assert.equal(greylisted, failures)
  const { rows } = await db.pool.query(`select due_at > now() + interval '30 minutes' as waits from parcels where label = 'greylisted'`)
  assert.deepEqual(rows, [{ waits: true }])
})

test('a receiver gets its deliveries while twelve thousand others fail', async (t) => {
  const { db, queue } = await setUp(t)
  let [taken, failed] = [0, 0]
  const many: WorkOptions = { places: 256, share: { perReceiver: 4, suspects: 128, slowMs: 60_000 } }
  const worker = queue.work<Parcel>(
    LONG_PAUSES,
    many,
    recording(async ({ label }, report) => {
      report(label === 'good' ? 'well' : 'failing')
      if (label === 'good') taken++
      else failed++
      return label === 'good' ? DELIVERED : RETRY
    }),
  )
  await sendTo(db, worker, ['good'])
  await eventually(async () => taken === 1)
  const others = Array.from({ length: 12_000 }, (_, index) => `bad ${index}`)
  // Three failures of one are an outage: the fourth delivery waits.
  await sendTo(db, worker, [...others, ...others, ...others, ...others])
  await eventually(async () => failed >= 10_000, { what: 'some failures' })
  const { user, system } = process.cpuUsage()
  const beganAt = performance.now()
  await sendTo(db, worker, times(2_000, 'good'))
  await eventually(async () => taken === 2_001, { what: 'the deliveries to the good one' })
  const spent = process.cpuUsage({ user, system })
  t.diagnostic(`${Math.round(performance.now() - beganAt)} ms, ${Math.round((spent.user + spent.system) / 1_000)} ms of the processor`)
})
