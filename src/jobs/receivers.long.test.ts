import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import type { TestDatabase } from '../../test/database.ts'
import { eventually } from '../../test/eventually.ts'
import { logger, type Parcel, QUEUE, setUp, startQueue } from '../../test/job-queue-harness.ts'
import { inTransaction } from '../db/transaction.ts'
import { createJobQueue, installJobQueues, type JobQueue } from './job-queue.ts'
import type { WorkOptions } from './job-worker.ts'

const SHARED: WorkOptions = { places: 8, share: { perReceiver: 3, suspects: 4, slowMs: 200 } }

function sendTo(db: TestDatabase, jobs: JobQueue, receivers: readonly string[]): Promise<void> {
  return inTransaction(db.pool, (tx) =>
    jobs.send(
      tx,
      QUEUE.name,
      receivers.map((group) => ({ id: randomUUID(), group, data: { label: group } })),
    ),
  )
}

const times = (count: number, receiver: string) => Array.from({ length: count }, () => receiver)

async function countDeferred({ pool }: TestDatabase): Promise<number> {
  const { rows } = await pool.query<{ deferred: number }>('select count(*)::integer as deferred from pgboss.job where priority < 0')
  return rows[0]?.deferred ?? 0
}

/** Receivers that hold each job until the test opens them. */
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

for (const hanging of [1, 4, 50]) {
  test(`a receiver gets its jobs while ${hanging} others that hang have more jobs in front of them than there are places`, async (t) => {
    const { db, jobs } = await setUp(t)
    const gate = createGate()
    t.after(gate.open)
    let arrived = 0
    await jobs.work<Parcel>(QUEUE.name, SHARED, async ({ data: { label } }, report) => {
      if (label === 'good') arrived++
      else await gate.hold(label)
      report('well')
      return 'done'
    })
    // A receiver that is known to be healthy does not wait among others.
    await sendTo(db, jobs, ['good'])
    await eventually(async () => arrived === 1)
    const bad = Array.from({ length: hanging }, (_, index) => times(hanging === 50 ? 5 : 20, `bad ${index}`)).flat()
    await sendTo(db, jobs, [...bad, ...times(20, 'good')])
    await eventually(async () => arrived === 21, { what: 'the jobs of the good one' })
    await eventually(async () => (await countDeferred(db)) > 0)
    assert.ok(Math.max(...gate.most.values()) === 1, 'a receiver that has never done a job gets one at a time')
    gate.open()
    await eventually(async () => (await db.pool.query(`select from pgboss.job where state < 'completed'`)).rowCount === 0, {
      what: 'the jobs of those that hung',
    })
    assert.ok(Math.max(...gate.most.values()) <= 3, 'no receiver has more than its share')
  })
}

test('a healthy receiver that begins to hang keeps its share and no place of others', async (t) => {
  const { db, jobs } = await setUp(t)
  const gate = createGate()
  t.after(gate.open)
  const arrived = new Map<string, number>()
  let isHanging = false
  await jobs.work<Parcel>(QUEUE.name, SHARED, async ({ data: { label } }, report) => {
    if (label === 'bad' && isHanging) await gate.hold(label)
    arrived.set(label, (arrived.get(label) ?? 0) + 1)
    report('well')
    return 'done'
  })
  await sendTo(db, jobs, ['bad', 'good'])
  await eventually(async () => arrived.size === 2)
  isHanging = true
  await sendTo(db, jobs, [...times(30, 'bad'), ...times(10, 'good')])
  await eventually(async () => arrived.get('good') === 11, { what: 'the jobs of the good one' })
  assert.ok((gate.most.get('bad') ?? 0) <= 3)
  gate.open()
  await eventually(async () => arrived.get('bad') === 31, { what: 'the jobs of the other one' })
})

test('a healthy receiver that cannot keep up holds up no other, and gets all that waits', async (t) => {
  const { db, jobs } = await setUp(t)
  const gate = createGate()
  t.after(gate.open)
  const arrived = new Map<string, number>()
  let isBusy = false
  // It never counts as slow.
  const share = { perReceiver: 3, suspects: 4, slowMs: 600_000 }
  await jobs.work<Parcel>(QUEUE.name, { places: 8, share }, async ({ data: { label } }, report) => {
    if (label === 'busy' && isBusy) await gate.hold(label)
    arrived.set(label, (arrived.get(label) ?? 0) + 1)
    report('well')
    return 'done'
  })
  await sendTo(db, jobs, ['busy', 'good'])
  await eventually(async () => arrived.size === 2)
  isBusy = true
  await sendTo(db, jobs, [...times(400, 'busy'), ...times(10, 'good')])
  await eventually(async () => arrived.get('good') === 11, { what: 'the jobs of the good one' })
  assert.equal(gate.most.get('busy'), 3)
  gate.open()
  await eventually(async () => arrived.get('busy') === 401, { what: 'the jobs of the busy one' })
  assert.equal(gate.most.get('busy'), 3)
})

test('a new job of a receiver does not wait for all that had come together for it', async (t) => {
  const { db, jobs } = await setUp(t)
  const arrived: string[] = []
  let isHeld = true
  const gate = createGate()
  t.after(gate.open)
  await jobs.work<Parcel>(QUEUE.name, SHARED, async ({ data: { label } }, report) => {
    if (label === 'old' && isHeld) await gate.hold(label)
    arrived.push(label)
    report('well')
    return 'done'
  })
  const send = (label: string, count: number) =>
    inTransaction(db.pool, (tx) =>
      jobs.send(
        tx,
        QUEUE.name,
        times(count, label).map((each) => ({ id: randomUUID(), group: 'shop', data: { label: each } })),
      ),
    )
  await send('old', 2_000)
  await eventually(async () => (await countDeferred(db)) > 1_900, { what: 'a backlog' })
  await send('new', 5)
  await eventually(async () => (await countDeferred(db)) > 1_990, { what: 'the new ones in it' })
  isHeld = false
  gate.open()
  await eventually(async () => arrived.length === 2_005, { what: 'all of them' })
  const last = arrived.lastIndexOf('new')
  assert.ok(last < 500, `the last new one came as number ${last}`)
})

test('receivers are found behind a hundred thousand jobs of another one, which are not read each time', async (t) => {
  const { db, jobs } = await setUp(t)
  const many = 100_000
  const others = Array.from({ length: 20 }, (_, index) => `new ${index}`)
  await sendTo(db, jobs, ['bad', ...others])
  // Supervision counts the jobs of each queue, and so reads all of them.
  await jobs.stop()
  await db.pool.query(
    `insert into pgboss.job (id, name, data, group_id, priority, retry_limit, policy, created_on)
     select gen_random_uuid(), job.name, job.data, job.group_id, -1, job.retry_limit, job.policy, now() - interval '1 hour'
     from pgboss.job as job, generate_series(1, $1) where group_id = 'bad'`,
    [many],
  )
  await db.pool.query('update pgboss.job set priority = -1')
  await db.pool.query('vacuum analyze pgboss.job')
  const countReads = async () => {
    await db.pool.query('select pg_stat_force_next_flush()')
    const { rows } = await db.pool.query<{ reads: number }>(
      `select (seq_tup_read + idx_tup_fetch)::integer as reads from pg_stat_user_tables where relname = 'job_common'`,
    )
    return rows[0]?.reads ?? Number.NaN
  }
  const before = await countReads()
  const gate = createGate()
  t.after(gate.open)
  const arrived = new Set<string>()
  const next = createJobQueue({ url: db.url, logger, supervise: false })
  t.after(() => next.stop())
  await next.start()
  await next.work<Parcel>(QUEUE.name, SHARED, async ({ data: { label } }, report) => {
    if (label === 'bad') await gate.hold(label)
    else arrived.add(label)
    report('well')
    return 'done'
  })
  await eventually(async () => arrived.size === others.length, { what: 'the deferred jobs of the others' })
  gate.open()
  // The end of a session publishes what it has counted.
  await next.stop()
  const reads = (await countReads()) - before
  t.diagnostic(`${reads} rows read`)
  // One look per receiver would read two million; one look past all of them may be the planner's choice.
  assert.ok(reads < 3 * many, `${reads} rows were read`)
})

test('many new jobs of a receiver that hangs are moved out of the way together', async (t) => {
  const { db, jobs } = await setUp(t)
  const gate = createGate()
  t.after(gate.open)
  let arrived = 0
  await jobs.work<Parcel>(QUEUE.name, SHARED, async ({ data: { label } }, report) => {
    if (label === 'bad') await gate.hold(label)
    else arrived++
    report('well')
    return 'done'
  })
  await sendTo(db, jobs, ['good'])
  await eventually(async () => arrived === 1)
  await sendTo(db, jobs, [...times(20_000, 'bad'), 'good'])
  const { rows } = await db.pool.query<{ before: string }>('select pg_current_xact_id()::text as before')
  await eventually(async () => arrived === 2, { what: 'the job behind 20,000 others' })
  const { rows: after } = await db.pool.query<{ after: string }>('select pg_current_xact_id()::text as after')
  // Eight places: one by one it would take 5,000 statements and more.
  const statements = Number(after[0]?.after) - Number(rows[0]?.before)
  assert.ok(statements < 1_000, `${statements} statements`)
})

test('a failing receiver is asked by one job after a pause, and gets all that waits when it is back', async (t) => {
  const { db, jobs } = await setUp(t)
  await installJobQueues({ url: db.url, logger, queues: [{ ...QUEUE, retryDelaySeconds: 1, retryDelayMaxSeconds: 3_600 }] })
  let isDown = true
  let [asked, taken, running, most] = [0, 0, 0, 0]
  await jobs.work<Parcel>(QUEUE.name, SHARED, async (_job, report) => {
    asked++
    most = Math.max(most, ++running)
    await new Promise(setImmediate)
    running--
    report(isDown ? 'failing' : 'well')
    if (!isDown) taken++
    return isDown ? 'retry' : 'done'
  })
  await sendTo(db, jobs, times(40, 'shop'))
  await eventually(async () => asked >= 4, { what: 'a probe after three failures' })
  assert.equal(most, 1)
  assert.ok(asked < 12, `asked ${asked} times: without a pause each job would have asked`)
  // Jobs that were tried would wait for hours.
  await db.pool.query(`update pgboss.job set start_after = now() + interval '1 hour' where state = 'retry'`)
  isDown = false
  await eventually(async () => taken === 40, { what: 'all jobs, also those with a longer pause' })
})

test('a job that its receiver never takes costs the others of that receiver no pause and is not tried more often', async (t) => {
  const { db, jobs } = await setUp(t)
  await installJobQueues({ url: db.url, logger, queues: [{ ...QUEUE, retryDelaySeconds: 3_600, retryDelayMaxSeconds: 3_600 }] })
  let [poison, others] = [0, 0]
  await jobs.work<Parcel & { isPoison?: boolean }>(QUEUE.name, SHARED, async ({ data: { isPoison = false } }, report) => {
    report(isPoison ? 'failing' : 'well')
    if (isPoison) poison++
    else others++
    return isPoison ? 'retry' : 'done'
  })
  await inTransaction(db.pool, (tx) =>
    jobs.send(
      tx,
      QUEUE.name,
      Array.from({ length: 20 }, (_, index) => ({ id: randomUUID(), group: 'shop', data: { label: 'shop', isPoison: index === 3 } })),
    ),
  )
  await eventually(async () => others === 19, { what: 'the others' })
  assert.equal(poison, 1)
})

test('a receiver that is back is asked first by a job that was tried least, and not by one that it never takes', async (t) => {
  const { db, jobs } = await setUp(t)
  let [poison, others] = [0, 0]
  // There are no pauses, so the job that fails is always due.
  await jobs.work<Parcel & { isPoison?: boolean }>(QUEUE.name, SHARED, async ({ data: { isPoison = false } }, report) => {
    report(isPoison ? 'failing' : 'well')
    if (isPoison) poison++
    else others++
    return isPoison ? 'retry' : 'done'
  })
  const poisonJob = { id: randomUUID(), group: 'shop', data: { label: 'poison', isPoison: true } }
  await inTransaction(db.pool, (tx) => jobs.send(tx, QUEUE.name, [poisonJob]))
  await eventually(async () => poison >= 5)
  await sendTo(db, jobs, times(10, 'shop'))
  await eventually(async () => others === 10, { what: 'the others' })
})

test('the jobs of a receiver to which nothing is to be sent any more are done without pauses', async (t) => {
  const { db, jobs } = await setUp(t)
  await installJobQueues({ url: db.url, logger, queues: [{ ...QUEUE, retryDelaySeconds: 3_600, retryDelayMaxSeconds: 3_600 }] })
  let isRemoved = false
  let done = 0
  await jobs.work<Parcel>(QUEUE.name, SHARED, async (_job, report) => {
    if (!isRemoved) report('failing')
    else done++
    return isRemoved ? 'done' : 'retry'
  })
  await sendTo(db, jobs, times(2, 'shop'))
  await eventually(async () => (await db.pool.query(`select from pgboss.job where state = 'retry' and start_after > now()`)).rowCount === 2)
  isRemoved = true
  await sendTo(db, jobs, times(300, 'shop'))
  await eventually(async () => done === 300)
})

test('another process releases what a process that died has deferred', async (t) => {
  const { db, jobs } = await setUp(t)
  await sendTo(db, jobs, times(10, 'shop'))
  await db.pool.query('update pgboss.job set priority = -1')
  await jobs.stop()
  const next = await startQueue(t, db)
  let taken = 0
  await next.work<Parcel>(QUEUE.name, SHARED, async (_job, report) => {
    taken++
    report('well')
    return 'done'
  })
  await eventually(async () => taken === 10)
  assert.equal(await countDeferred(db), 0)
})

test('an outage of what all receivers share ends their pauses', async (t) => {
  const { db, jobs } = await setUp(t)
  await installJobQueues({ url: db.url, logger, queues: [{ ...QUEUE, retryDelaySeconds: 3_600, retryDelayMaxSeconds: 3_600 }] })
  let isDown = true
  const asked = new Set<string>()
  let taken = 0
  const worker = await jobs.work<Parcel>(QUEUE.name, SHARED, async ({ data: { label } }, report) => {
    asked.add(label)
    report(isDown ? 'failing' : 'well')
    if (!isDown) taken++
    return isDown ? 'retry' : 'done'
  })
  await sendTo(
    db,
    jobs,
    ['a', 'b', 'c', 'd', 'e'].flatMap((receiver) => times(4, receiver)),
  )
  await eventually(async () => asked.size === 5)
  await eventually(async () => (await db.pool.query(`select from pgboss.job where state = 'active'`)).rowCount === 0)
  isDown = false
  worker.endPauses(Number.POSITIVE_INFINITY)
  await eventually(async () => taken === 20, { what: 'all jobs' })
})

test('a job that failed for longer than an outage of its receiver keeps its pause when that ends', async (t) => {
  const { db, jobs } = await setUp(t)
  await installJobQueues({ url: db.url, logger, queues: [{ ...QUEUE, retryDelaySeconds: 1, retryDelayMaxSeconds: 3_600 }] })
  let isDown = false
  let [asked, taken, greylisted] = [0, 0, 0]
  await jobs.work<Parcel>(QUEUE.name, SHARED, async ({ data: { label } }, report) => {
    asked++
    const isTaken = !isDown && label !== 'greylisted'
    report(isTaken ? 'well' : 'failing')
    if (label === 'greylisted') greylisted++
    else if (isTaken) taken++
    return isTaken ? 'done' : 'retry'
  })
  const sendOne = (label: string) =>
    inTransaction(db.pool, (tx) => jobs.send(tx, QUEUE.name, [{ id: randomUUID(), group: 'shop', data: { label } }]))
  await sendOne('known')
  await eventually(async () => taken === 1)
  await sendOne('greylisted')
  await eventually(async () => greylisted === 1)
  // Some more failures would make it so long.
  const pause = `update pgboss.job set start_after = now() + interval '1 hour', retry_count = 12 where state = 'retry' and data->>'label' = 'greylisted'`
  await eventually(async () => (await db.pool.query(pause)).rowCount === 1)
  isDown = true
  asked = 0
  for (const label of ['a', 'b', 'c', 'd']) await sendOne(label)
  await eventually(async () => asked >= 4, { what: 'a probe after three failures' })
  isDown = false
  await eventually(async () => taken === 5, { what: 'the jobs that failed in the outage' })
  assert.equal(greylisted, 1)
  const { rows } = await db.pool.query<{ waits: boolean }>(
    `select start_after > now() + interval '30 minutes' as waits from pgboss.job where data->>'label' = 'greylisted'`,
  )
  assert.deepEqual(rows, [{ waits: true }])
})

test('a receiver gets its jobs beside twelve thousand others that fail', async (t) => {
  const { db, jobs } = await setUp(t)
  await installJobQueues({ url: db.url, logger, queues: [{ ...QUEUE, retryDelaySeconds: 3_600, retryDelayMaxSeconds: 3_600 }] })
  let [taken, failed] = [0, 0]
  const many: WorkOptions = { places: 256, share: { perReceiver: 4, suspects: 128, slowMs: 60_000 } }
  await jobs.work<Parcel>(QUEUE.name, many, async ({ data: { label } }, report) => {
    report(label === 'good' ? 'well' : 'failing')
    if (label === 'good') taken++
    else failed++
    return label === 'good' ? 'done' : 'retry'
  })
  await sendTo(db, jobs, ['good'])
  await eventually(async () => taken === 1)
  const others = Array.from({ length: 12_000 }, (_, index) => `bad ${index}`)
  // Three failures of one are an outage: the fourth job waits.
  await sendTo(db, jobs, [...others, ...others, ...others, ...others])
  await eventually(async () => failed >= 10_000, { what: 'some failures' })
  const { user, system } = process.cpuUsage()
  const beganAt = performance.now()
  await sendTo(db, jobs, times(2_000, 'good'))
  await eventually(async () => taken === 2_001, { what: 'the jobs of the good one' })
  const spent = process.cpuUsage({ user, system })
  t.diagnostic(`${Math.round(performance.now() - beganAt)} ms, ${Math.round((spent.user + spent.system) / 1_000)} ms of the processor`)
})
