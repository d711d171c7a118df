import assert from 'node:assert/strict'
import { test } from 'node:test'
import { logger, QUEUE, send, setUp, startQueue, WORK, waitForStates } from '../../test/job-queue-harness.ts'
import { DatabaseClock } from './database-clock.ts'

const AHEAD = `interval '25 hours'`

test('jobs of a time when the clock of the database was ahead wait no longer than others', async (t) => {
  const { db, jobs } = await setUp(t)
  await send(db, jobs, ['queued', 'retried', 'dead', 'later', 'timed'])
  const set = (label: string, assignments: string) =>
    db.pool.query(`update pgboss.job set ${assignments} where data ->> 'label' = $1`, [label])
  await set('queued', `created_on = now() + ${AHEAD}, start_after = now() + ${AHEAD}`)
  await set('retried', `state = 'retry', started_on = now() + ${AHEAD}, start_after = now() + ${AHEAD} + interval '1 second'`)
  await set(
    'dead',
    `state = 'active', started_on = now() + ${AHEAD}, heartbeat_on = now() + ${AHEAD}, heartbeat_seconds = 1, start_after = now()`,
  )
  await set('later', `created_on = now() + ${AHEAD}, start_after = now() + ${AHEAD} + interval '1 hour'`)
  // A time of its own, as of a mail that waits for its turn.
  await set('timed', `created_on = now() + ${AHEAD}, start_after = now() + interval '2 hours'`)
  await db.pool.query(
    `update pgboss.queue set monitor_claim_on = now() + ${AHEAD}, monitor_on = now() + ${AHEAD}, maintain_on = now() + ${AHEAD}`,
  )
  await db.pool.query(`update pgboss.version set cron_on = now() + ${AHEAD}`)
  const restarted = await startQueue(t, db)
  await restarted.work(QUEUE.name, WORK, async () => 'done')
  await waitForStates(db, { dead: 'completed', later: 'created', queued: 'completed', retried: 'completed', timed: 'created' })
  const { rows } = await db.pool.query(
    `select data ->> 'label' as label, round(extract(epoch from start_after - now()) / 3600)::integer as hours from pgboss.job
    where state = 'created' order by label`,
  )
  assert.deepEqual(rows, [
    { label: 'later', hours: 1 },
    { label: 'timed', hours: 2 },
  ])
  const { rows: ahead } = await db.pool.query('select from pgboss.version where cron_on > now()')
  assert.deepEqual(ahead, [])
})

test('a job of a time ahead that was over before the next check does not wait', async (t) => {
  const { db, jobs } = await setUp(t)
  await send(db, jobs, ['queued', 'retried', 'later'])
  const set = (label: string, assignments: string) =>
    db.pool.query(`update pgboss.job set ${assignments} where data ->> 'label' = $1`, [label])
  await set('later', `start_after = now() + ${AHEAD}`)
  await set('queued', `created_on = now() + ${AHEAD}, start_after = now() + ${AHEAD}`)
  await set('retried', `state = 'retry', started_on = now() + ${AHEAD}, start_after = now() + ${AHEAD} + interval '1 second'`)
  await jobs.work(QUEUE.name, WORK, async () => 'done')
  await waitForStates(db, { later: 'created', queued: 'completed', retried: 'completed' })
})

test('a job that began before a time ahead, and was to be retried in it, waits for its pause and no longer', async (t) => {
  const { db, jobs } = await setUp(t)
  await send(db, jobs, ['retried', 'paused', 'long'])
  const set = (label: string, assignments: string) =>
    db.pool.query(`update pgboss.job set started_on = now(), state = 'retry', ${assignments} where data ->> 'label' = $1`, [label])
  await set('retried', `start_after = now() + ${AHEAD} + interval '1 second'`)
  // The longest pause after a third attempt, which lasts four to eight minutes.
  await set('paused', `retry_count = 2, retry_delay = 60, retry_delay_max = 3600, start_after = now() + interval '8 minutes'`)
  await set('long', `retry_count = 2, retry_delay = 60, retry_delay_max = 3600, start_after = now() + ${AHEAD}`)
  await jobs.work(QUEUE.name, WORK, async () => 'done')
  await waitForStates(db, { long: 'retry', paused: 'retry', retried: 'completed' })
  const { rows } = await db.pool.query(
    `select ceil(extract(epoch from start_after - now()) / 60)::integer as minutes from pgboss.job where state = 'retry'`,
  )
  assert.deepEqual(rows, [{ minutes: 8 }, { minutes: 8 }])
})

test('corrects the times when the clock goes back, and leaves them when it goes forward', async () => {
  let seconds = 1_000_000
  const statements: string[] = []
  const clock = new DatabaseClock(
    {
      async executeSql(text) {
        if (text.includes('clock_timestamp')) return { rows: [{ seconds, has_jobs_ahead: false }] }
        statements.push(text)
        return { rows: [] }
      },
    },
    logger,
    30,
  )
  const correctionsAt = async (now: number) => {
    seconds = now
    await clock.check()
    return statements.splice(0).length
  }
  assert.equal(await correctionsAt(1_000_000), 1, 'at the start')
  assert.equal(await correctionsAt(1_090_000), 0, 'forward')
  assert.equal(await correctionsAt(1_089_970), 0, 'a correction by NTP')
  assert.equal(await correctionsAt(1_000_000), 1, 'back')
  assert.equal(await correctionsAt(1_000_001), 0)
})
