import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { QUEUE, setUp } from '../../test/job-queue-harness.ts'
import { sql } from '../db/sql.ts'
import { createOutcomeRecorder, type DeliveryJob, type DeliveryKind, isCurrent, requeueDeliveries } from './deliveries.ts'

const KIND: DeliveryKind<'street' | 'house'> = {
  queueName: QUEUE.name,
  table: sql`letters`,
  key: ['street', 'house'],
  receiversOf: async () => () => undefined,
  onDelivered: (now) => sql`status = 'posted', posted_at = ${now}`,
  onFailed: [],
  onRequeued: [sql`posted_at = null`],
  onUncounted: [],
}
const CREATE_LETTERS = `
  create table letters (
    street text, house text, status text default 'queued', attempts integer default 1, job_number integer default 1,
    last_error text, queued_at timestamptz default now(), posted_at timestamptz, primary key (street, house)
  )`
const NOW = new Date('2026-03-01T12:00:00Z')
const FIRST: DeliveryJob<'street' | 'house'> = { street: 'Elm', house: '1', number: 1 }

async function startLetters(t: TestContext) {
  const { db, jobs } = await setUp(t)
  await db.pool.query(CREATE_LETTERS)
  await db.pool.query(`insert into letters (street, house) values ('Elm', '1'), ('Elm', '2'), ('Oak', '1')`)
  return {
    pool: db.pool,
    record: createOutcomeRecorder(KIND, { pool: db.pool, jobs, now: () => NOW, maxGroup: 2 }),
    requeue: (which = sql`status = 'failed'`) => requeueDeliveries(db.pool, jobs, KIND, { which }),
    async letter({ street, house } = FIRST) {
      const { rows } = await db.pool.query(
        sql`select status, attempts, job_number, last_error, posted_at from letters where street = ${street} and house = ${house}`,
      )
      return Object.values(rows[0])
    },
    async jobsOf({ street, house } = FIRST) {
      const { rows } = await db.pool.query(
        sql`select (data->>'number')::integer as number, extract(epoch from start_after - created_on)::integer as pause
        from pgboss.job where data->>'street' = ${street} and data->>'house' = ${house} order by number`,
      )
      return rows.map(({ number, pause }) => [number, pause])
    },
  }
}

test('stores each outcome in its own row, and returns the outcome of the job', async (t) => {
  const { record, letter } = await startLetters(t)
  assert.equal(await record(FIRST, { to: 'retry', reason: 'nobody at home' }), 'retry')
  assert.deepEqual(await letter(), ['queued', 1, 1, 'nobody at home', null])
  assert.equal(await record(FIRST, { to: 'delivered' }), 'done')
  assert.deepEqual(await letter(), ['posted', 1, 1, null, NOW])
  const second = { ...FIRST, house: '2' }
  assert.equal(await record(second, { to: 'failed', reason: 'moved away' }), 'failed')
  assert.deepEqual(await letter(second), ['failed', 1, 1, 'moved away', null])
  assert.deepEqual(await letter({ ...FIRST, street: 'Oak' }), ['queued', 1, 1, null, null])
})

test('a snoozed delivery gets a new job for later, and its attempt counts only if it was made', async (t) => {
  const { record, letter, jobsOf } = await startLetters(t)
  assert.equal(await record(FIRST, { to: 'snooze', reason: 'on holiday', seconds: 60, isAttempt: true }), 'done')
  assert.deepEqual(await letter(), ['queued', 1, 2, 'on holiday', null])
  // The first job is replaced: its later outcome changes nothing.
  await record(FIRST, { to: 'snooze', reason: 'late', seconds: 5, isAttempt: true })
  await record({ ...FIRST, number: 2 }, { to: 'snooze', reason: 'no key', seconds: 30, isAttempt: false })
  assert.deepEqual(await letter(), ['queued', 0, 3, 'no key', null])
  assert.deepEqual(await jobsOf(), [
    [2, 60],
    [3, 30],
  ])
})

test('a requeued delivery is like a new one: its earlier job cannot fail it, but may have delivered it', async (t) => {
  const { pool, record, requeue, letter, jobsOf } = await startLetters(t)
  await record(FIRST, { to: 'failed', reason: 'moved away' })
  assert.deepEqual(await Promise.all([requeue(), requeue()]).then((counts) => counts.toSorted()), [0, 1])
  assert.deepEqual(await letter(), ['queued', 0, 2, 'moved away', null])
  assert.deepEqual(await jobsOf(), [[2, 0]])
  const isDue = (job: typeof FIRST) => pool.query(sql`select from letters where ${isCurrent(KIND, job)}`)
  assert.deepEqual([(await isDue(FIRST)).rowCount, (await isDue({ ...FIRST, number: 2 })).rowCount], [0, 1])
  await record(FIRST, { to: 'failed', reason: 'late' })
  assert.deepEqual(await letter(), ['queued', 0, 2, 'moved away', null])
  await record(FIRST, { to: 'delivered' })
  assert.deepEqual(await letter(), ['posted', 0, 2, null, NOW])
})

test('requeues any number of deliveries, and none when the plan for them fails', async (t) => {
  const { db, jobs } = await setUp(t)
  await db.pool.query(CREATE_LETTERS)
  await db.pool.query(`insert into letters (street, house, status) select 'Elm', n::text, 'failed' from generate_series(1, 1500) as n`)
  const which = sql`status = 'failed'`
  const planStarts = () => Promise.reject(new Error('no plan'))
  await assert.rejects(requeueDeliveries(db.pool, jobs, KIND, { which, planStarts }), /no plan/)
  assert.equal(await requeueDeliveries(db.pool, jobs, KIND, { which }), 1_500)
  const { rows } = await db.pool.query('select count(*) from pgboss.job')
  assert.deepEqual(rows, [{ count: 1_500 }])
})
