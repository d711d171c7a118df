import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { onCleanup } from '../../test/cleanup.ts'
import { createTestDatabase } from '../../test/database.ts'
import { logger, QUEUE, send, setUp, startQueue, states, WORK } from '../../test/job-queue-harness.ts'
import { isTimeout } from '../db/failures.ts'
import { inTransaction } from '../db/transaction.ts'
import { installJobQueues } from './job-queue.ts'

test('installs itself from several processes at once, and again', async (t) => {
  const db = await createTestDatabase(t)
  const other = { ...QUEUE, name: 'letters' }
  await Promise.all([QUEUE, other, QUEUE, other].map((queue) => installJobQueues({ url: db.url, logger, queues: [queue] })))
  await installJobQueues({ url: db.url, logger, queues: [{ ...QUEUE, retryDelaySeconds: 7 }] })
  const { rows } = await db.pool.query(`select name, retry_delay from pgboss.queue where name in ('parcels', 'letters') order by name`)
  assert.deepEqual(rows, [
    { name: 'letters', retry_delay: 1 },
    { name: 'parcels', retry_delay: 7 },
  ])
})

test('says what to do when a queue is not installed', async (t) => {
  const db = await createTestDatabase(t)
  await installJobQueues({ url: db.url, logger, queues: [] })
  const jobs = await startQueue(t, db)
  await assert.rejects(
    jobs.work('parcels', WORK, async () => 'done'),
    /run storefront migrate/,
  )
})

test('a job exists when the transaction that sent it commits, and not when it rolls back', async (t) => {
  const { db, jobs } = await setUp(t)
  await assert.rejects(
    inTransaction(db.pool, async (tx) => {
      await jobs.send(tx, QUEUE.name, [{ id: randomUUID(), data: { label: 'undone' } }])
      throw new Error('changed my mind')
    }),
    /changed my mind/,
  )
  await send(db, jobs, ['a', 'b'])
  assert.deepEqual(await states(db), { a: 'created', b: 'created' })
})

test('drops a job whose id it has, together with none of its neighbours', async (t) => {
  const { db, jobs } = await setUp(t)
  const id = randomUUID()
  await inTransaction(db.pool, (tx) => jobs.send(tx, QUEUE.name, [{ id, data: { label: 'a' } }]))
  const again = [
    { id, data: { label: 'a again' } },
    { id: randomUUID(), data: { label: 'b' } },
  ]
  await inTransaction(db.pool, (tx) => jobs.send(tx, QUEUE.name, again))
  assert.deepEqual(await states(db), { a: 'created', b: 'created' })
})

test('waits for a lock no longer than any other session of the store', async (t) => {
  const { db, jobs } = await setUp(t)
  const holder = await db.pool.connect()
  onCleanup(t, () => holder.release(true))
  await holder.query('begin; lock table pgboss.queue')
  // The queue knows by heart what it has been asked for before.
  await assert.rejects(
    jobs.work('letters', WORK, async () => 'done'),
    isTimeout,
  )
})
