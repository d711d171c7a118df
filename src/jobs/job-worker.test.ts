import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { eventually, Stopwatch } from '../../test/eventually.ts'
import { logger, type Parcel, QUEUE, send, setUp, startQueue, states, WORK, waitForStates } from '../../test/job-queue-harness.ts'
import { inTransaction } from '../db/transaction.ts'
import { createJobQueue, installJobQueues } from './job-queue.ts'
import type { JobOutcome } from './job-worker.ts'

test('stores the outcome of each job on its own', async (t) => {
  const { db, jobs } = await setUp(t)
  await send(db, jobs, ['broken', 'done', 'failed', 'throws'])
  const runs: Record<string, number> = {}
  await jobs.work<Parcel>(QUEUE.name, WORK, async ({ data: { label } }): Promise<JobOutcome> => {
    const run = (runs[label] ?? 0) + 1
    runs[label] = run
    if (label === 'broken') return run < 3 ? 'retry' : 'done'
    if (label === 'throws' && run === 1) throw new Error('a bug')
    return label === 'failed' ? 'failed' : 'done'
  })
  await waitForStates(db, { broken: 'completed', done: 'completed', failed: 'failed', throws: 'completed' })
  assert.deepEqual(runs, { broken: 3, done: 1, failed: 1, throws: 2 })
})

test('a worker that is woken finds a job at once', async (t) => {
  const { db, jobs } = await setUp(t)
  const ran = new Map<string, number>()
  const stopwatch = new Stopwatch(t)
  const worker = await jobs.work<Parcel>(QUEUE.name, WORK, async ({ data: { label } }) => {
    ran.set(label, stopwatch.ms)
    return 'done'
  })
  // It looks by itself each second: of several jobs one would wait for that.
  let longest = 0
  for (let attempt = 0; attempt < 3; attempt++) {
    longest = 0
    for (let job = 0; job < 4; job++) {
      const label = `${attempt}.${job}`
      await send(db, jobs, [label])
      const woken = stopwatch.ms
      worker.wake()
      await eventually(async () => ran.has(label))
      longest = Math.max(longest, (ran.get(label) ?? Number.NaN) - woken)
    }
    if (longest < 500) break
  }
  assert.ok(longest < 500)
})

test('jobs that fail together are not retried together: their pauses grow and are spread', async (t) => {
  const { db, jobs } = await setUp(t)
  await installJobQueues({ url: db.url, logger, queues: [{ ...QUEUE, retryDelaySeconds: 100, retryDelayMaxSeconds: 3_600 }] })
  await send(
    db,
    jobs,
    Array.from({ length: 40 }, (_, index) => String(index)),
  )
  const began = performance.now()
  await jobs.work<Parcel>(QUEUE.name, WORK, async () => 'retry')
  const pauses = await eventually(async () => {
    const { rows } = await db.pool.query(
      `select extract(epoch from start_after - started_on)::float as pause from pgboss.job where state = 'retry'`,
    )
    return rows.length === 40 && rows.map(({ pause }) => pause)
  })
  // The pause is once to twice the first one, plus the time of the work.
  const workSeconds = Math.ceil((performance.now() - began) / 1_000)
  assert.ok(Math.min(...pauses) >= 100 && Math.max(...pauses) <= 200 + workSeconds, pauses.join())
  assert.ok(Math.max(...pauses) - Math.min(...pauses) > 25, pauses.join())
})

test('a job waits for its time', async (t) => {
  const { db, jobs } = await setUp(t)
  const ran: string[] = []
  await inTransaction(db.pool, (tx) =>
    jobs.send(tx, QUEUE.name, [
      { id: randomUUID(), data: { label: 'later' }, startAfter: new Date(Date.now() + 3_600_000) },
      { id: randomUUID(), data: { label: 'now' }, startAfter: new Date(Date.now() - 1_000) },
    ]),
  )
  await jobs.work<Parcel>(QUEUE.name, WORK, async ({ data: { label } }) => {
    ran.push(label)
    return 'done'
  })
  await waitForStates(db, { later: 'created', now: 'completed' })
  assert.deepEqual(ran, ['now'])
})

test('two processes share the jobs of a queue and run none twice', async (t) => {
  const { db, jobs } = await setUp(t)
  const other = await startQueue(t, db)
  const runs: string[] = []
  const workers = await Promise.all(
    [jobs, other].map((queue) =>
      queue.work<Parcel>(QUEUE.name, WORK, async ({ data: { label } }) => {
        runs.push(label)
        return 'done'
      }),
    ),
  )
  const labels = Array.from({ length: 200 }, (_, index) => String(index))
  await send(db, jobs, labels)
  for (const worker of workers) worker.wake()
  await eventually(async () => Object.values(await states(db)).every((state) => state === 'completed'))
  assert.deepEqual(runs.toSorted(), labels.toSorted())
})

test('a stop waits for the running job, fetches no other, and may come before the start and twice', async (t) => {
  const { db, jobs } = await setUp(t)
  await createJobQueue({ url: db.url, logger }).stop()
  const begun = Promise.withResolvers<void>()
  const gate = Promise.withResolvers<void>()
  const worker = await jobs.work<Parcel>(QUEUE.name, { places: 1 }, async () => {
    begun.resolve()
    await gate.promise
    return 'done'
  })
  await send(db, jobs, ['a', 'b'])
  worker.wake()
  await begun.promise
  let isStopped = false
  const stopped = Promise.all([jobs.stop(), jobs.stop(), worker.stop()]).then(() => {
    isStopped = true
  })
  await db.pool.query('select 1')
  assert.equal(isStopped, false)
  gate.resolve()
  await stopped
  assert.deepEqual(Object.values(await states(db)).toSorted(), ['completed', 'created'].toSorted())
  await jobs.stop()
})

test('a job that outlives the stop is run again by the next process', async (t) => {
  const { db, jobs } = await setUp(t)
  const begun = Promise.withResolvers<void>()
  const gate = Promise.withResolvers<void>()
  t.after(() => gate.resolve())
  const worker = await jobs.work<Parcel>(QUEUE.name, WORK, async () => {
    begun.resolve()
    await gate.promise
    return 'done'
  })
  await send(db, jobs, ['stuck'])
  worker.wake()
  await begun.promise
  await jobs.stop()
  assert.deepEqual(await states(db), { stuck: 'retry' })
  const next = await startQueue(t, db)
  await next.work<Parcel>(QUEUE.name, WORK, async () => 'done')
  await waitForStates(db, { stuck: 'completed' })
})

test('a job whose process died is given out again when its heartbeat has stopped', async (t) => {
  const { db, jobs } = await setUp(t)
  await send(db, jobs, ['orphan'])
  // What the death of a process leaves behind: an active job with an old heartbeat.
  await db.pool.query(
    `update pgboss.job set state = 'active', started_on = now() - interval '1 minute', heartbeat_on = now() - interval '1 minute'`,
  )
  await jobs.work<Parcel>(QUEUE.name, WORK, async () => 'done')
  await eventually(async () => (await states(db)).orphan === 'completed')
})

test('lives through the loss of its connections', async (t) => {
  const { db, jobs } = await setUp(t)
  const worker = await jobs.work<Parcel>(QUEUE.name, WORK, async () => 'done')
  await db.pool.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'storefront-jobs' and datname = $1`,
    [db.name],
  )
  await send(db, jobs, ['a'])
  worker.wake()
  await waitForStates(db, { a: 'completed' })
})
