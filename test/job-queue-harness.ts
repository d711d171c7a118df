import { randomUUID } from 'node:crypto'
import type { TestContext } from 'node:test'
import pino from 'pino'
import { inTransaction } from '../src/db/transaction.ts'
import { createJobQueue, installJobQueues, type JobQueue, type QueueDefinition } from '../src/jobs/job-queue.ts'
import { createTestDatabase, type TestDatabase } from './database.ts'
import { eventually } from './eventually.ts'

export const logger = pino({ level: 'silent' })
export const QUEUE: QueueDefinition = { name: 'parcels', retryDelaySeconds: 1, retryDelayMaxSeconds: 0, keepSeconds: 60 }
export const WORK = { places: 10 }

export interface Parcel {
  label: string
}

export async function startQueue(t: TestContext, db: TestDatabase): Promise<JobQueue> {
  const jobs = createJobQueue({ url: db.url, logger, superviseSeconds: 1 })
  t.after(() => jobs.stop())
  await jobs.start()
  return jobs
}

export async function setUp(t: TestContext): Promise<{ db: TestDatabase; jobs: JobQueue }> {
  const db = await createTestDatabase(t)
  await installJobQueues({ url: db.url, logger, queues: [QUEUE] })
  return { db, jobs: await startQueue(t, db) }
}

export function send(db: TestDatabase, jobs: JobQueue, labels: string[]): Promise<void> {
  return inTransaction(db.pool, (tx) =>
    jobs.send(
      tx,
      QUEUE.name,
      labels.map((label) => ({ id: randomUUID(), data: { label } })),
    ),
  )
}

export async function states(db: TestDatabase): Promise<Record<string, string>> {
  const { rows } = await db.pool.query(`select data->>'label' as label, state::text from pgboss.job order by label`)
  return Object.fromEntries(rows.map(({ label, state }) => [label, state]))
}

export async function waitForStates(db: TestDatabase, expected: Record<string, string>): Promise<void> {
  await eventually(async () => JSON.stringify(await states(db)) === JSON.stringify(expected), { what: JSON.stringify(expected) })
}
