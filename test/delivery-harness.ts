import { randomUUID } from 'node:crypto'
import { mock, type TestContext } from 'node:test'
import pino from 'pino'
import { sql } from '../src/db/sql.ts'
import {
  type Attempt,
  type Deliver,
  type DeliveryKind,
  type DeliveryOutcome,
  NO_RECEIVER,
  type Taken,
} from '../src/deliveries/delivery-kind.ts'
import { DeliveryQueue } from '../src/deliveries/delivery-queue.ts'
import type { DeliveryWorker } from '../src/deliveries/delivery-worker.ts'
import { createTestDatabase, type TestDatabase } from './database.ts'
import { eventually } from './eventually.ts'

export const logger = pino({ level: 'silent' })

/** Deliveries for tests, which are retried at once. */
export const PARCELS: DeliveryKind = {
  name: 'parcels',
  table: sql`parcels`,
  key: ['parcel_id'],
  receiver: { column: sql`receiver`, type: 'text' },
  columns: ['label'],
  firstPauseSeconds: 1,
  longestPauseSeconds: 0,
  isKept: true,
  onDelivered: [sql`status = 'delivered'`],
}
export const WORK = { places: 10 }

export interface Parcel {
  parcel_id: string
  label: string
}

export async function setUp(t: TestContext): Promise<{ db: TestDatabase; queue: DeliveryQueue }> {
  const db = await createTestDatabase(t)
  await db.pool.query(
    `create table parcels (
      parcel_id uuid primary key, label text not null, receiver text not null, status text not null default 'queued',
      attempts integer not null default 0, last_error text, queued_at timestamptz not null default now(),
      due_at timestamptz not null default now(), due_set_at timestamptz not null default now(), lease uuid, leased_until timestamptz,
      is_pause_asked boolean not null default false
    ) with (fillfactor = 70);
    create index parcels_receiver_due_at_idx on parcels (receiver, due_at) where status = 'queued';
    create index parcels_due_set_at_idx on parcels (due_set_at) where status = 'queued'`,
  )
  return { db, queue: await startQueue(t, db) }
}

export async function startQueue(t: TestContext, db: TestDatabase): Promise<DeliveryQueue> {
  const queue = new DeliveryQueue({ pool: db.pool, logger })
  t.after(() => queue.stop())
  await queue.start()
  return queue
}

/** Queues a parcel for each label, to the receiver of this name. */
export async function send({ pool }: TestDatabase, labels: readonly string[], receiverOf = (_label: string) => NO_RECEIVER): Promise<void> {
  await pool.query(
    sql`insert into parcels (parcel_id, label, receiver)
    select * from unnest(${labels.map(() => randomUUID())}::uuid[], ${labels}::text[], ${labels.map(receiverOf)}::text[])`,
  )
}

export const times = (count: number, receiver: string) => Array.from({ length: count }, () => receiver)

/** Queues parcels to these receivers, which are their labels too, and tells the worker. */
export async function sendTo(db: TestDatabase, worker: DeliveryWorker<Parcel>, receivers: readonly string[]): Promise<void> {
  await send(db, receivers, (receiver) => receiver)
  worker.wake(new Set(receivers))
}

/**
 * Counts the statements of the pool from now on. PostgreSQL's own counters are those of all databases of the server.
 */
export function countStatements({ pool }: TestDatabase): () => number {
  const watched = mock.method(pool, 'query')
  return () => watched.mock.callCount()
}

/** A `deliver` that records what `make` returns. */
export function recording(make: (parcel: Taken<Parcel>, report: Attempt['report']) => Promise<DeliveryOutcome>): Deliver<Parcel> {
  return async (parcel, { report, record }) => record(await make(parcel, report))
}

export const DELIVERED: DeliveryOutcome = { to: 'delivered' }
export const RETRY: DeliveryOutcome = { to: 'retry', reason: 'nobody at home' }

/** The status of each parcel by label, `in flight` for one that is leased. */
export async function states({ pool }: TestDatabase): Promise<Record<string, string>> {
  const { rows } = await pool.query<{ label: string; state: string }>(
    `select label, case when lease is null then status else 'in flight' end as state from parcels order by label`,
  )
  return Object.fromEntries(rows.map(({ label, state }) => [label, state]))
}

export async function waitForStates(db: TestDatabase, expected: Record<string, string>): Promise<void> {
  await eventually(async () => JSON.stringify(await states(db)) === JSON.stringify(expected), { what: JSON.stringify(expected) })
}
