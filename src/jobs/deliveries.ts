import type { Pool, Transaction } from '../db/pool.ts'
import { allOf, commaList, identifier, type Sql, sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import { groupCalls } from './group-calls.ts'
import { type JobQueue, jobIdOf, type NewJob } from './job-queue.ts'
import type { JobOutcome } from './job-worker.ts'

/**
 * A kind of delivery, such as order mails: a table with one row for each, and a queue with the jobs that make them. The states of a row:
 *
 *     queued ── delivered ──▶ the kind's own word, such as `sent`
 *      │  ▲ └── failed ─────▶ failed ──┐
 *      │  └─────── requeue ────────────┘   by an operator
 *      └─▶ retry: the same job, after the queue's pause; snooze: a new job, at a given time
 *
 * The table has the columns `status`, `attempts`, `last_error`, `queued_at` and `job_number`. See docs/decisions/0175.
 */
export interface DeliveryKind<Key extends string> {
  queueName: string
  table: Sql
  /** The columns of the table's primary key, all of them text or UUIDs. */
  key: readonly Key[]
  /** Finds the receiver of each delivery, for the share of `WorkOptions`. */
  receiversOf: (tx: Transaction, deliveries: readonly DeliveryJob<Key>[]) => Promise<(delivery: DeliveryJob<Key>) => string | undefined>
  /** Further assignments of a transition. */
  onDelivered: (now: Date) => Sql
  onFailed: readonly Sql[]
  onRequeued: readonly Sql[]
  /** When an attempt that was not made is taken back. */
  onUncounted: readonly Sql[]
}

/** What a job carries. The job with the row's present number alone may make the delivery. */
export type DeliveryJob<Key extends string> = Record<Key, string> & { number: number }

/** A delivery that was attempted. `attempts` is their number with this one, for a kind that does not count them before. */
export type AttemptedDelivery<Key extends string> = DeliveryJob<Key> & { attempts?: number }

type JobStart = Pick<NewJob, 'startAfter' | 'startAfterSeconds'>

/** The result of an attempt. `reason` is stored as `last_error`: one line, without personal data. */
export type DeliveryOutcome =
  | { to: 'delivered' }
  /** No more attempts, until an operator asks for one. */
  | { to: 'failed'; reason: string }
  | { to: 'retry'; reason: string }
  /** `isAttempt` is false when nothing was sent: the attempt does not count. */
  | { to: 'snooze'; reason: string; seconds: number; isAttempt: boolean }

/** Adds the jobs of these deliveries, at most one for each number. */
export async function sendDeliveryJobs<Key extends string>(
  tx: Transaction,
  jobs: JobQueue,
  { queueName, key, receiversOf }: DeliveryKind<Key>,
  deliveries: readonly DeliveryJob<Key>[],
  startOf: (delivery: DeliveryJob<Key>) => JobStart = () => ({}),
): Promise<void> {
  if (deliveries.length === 0) return
  const receiverOf = await receiversOf(tx, deliveries)
  const toJob = (data: DeliveryJob<Key>): NewJob => {
    const group = receiverOf(data)
    return { id: deliveryJobId({ key }, data), data, ...(group === undefined ? {} : { group }), ...startOf(data) }
  }
  await jobs.send(tx, queueName, deliveries.map(toJob))
}

/** The id of the job of a delivery. */
export function deliveryJobId<Key extends string>({ key }: Pick<DeliveryKind<Key>, 'key'>, job: DeliveryJob<Key>): string {
  return jobIdOf(`${key.map((column) => job[column]).join(' ')}#${job.number}`)
}

/** True of the row that this job is to deliver, while it is still queued. */
export function isCurrent<Key extends string>(kind: DeliveryKind<Key>, job: DeliveryJob<Key>): Sql {
  return sql`${hasKeyOf(kind, job)} and job_number = ${job.number} and status = 'queued'`
}

function hasKeyOf<Key extends string>({ key }: DeliveryKind<Key>, job: DeliveryJob<Key>): Sql {
  return allOf(key.map((column) => sql`${identifier(column)} = ${job[column]}`))
}

/** Stores deliveries that succeeded, in whatever state their rows are: the receivers have them. */
async function recordDelivered<Key extends string>(
  pool: Pool,
  kind: DeliveryKind<Key>,
  deliveries: readonly AttemptedDelivery<Key>[],
  now: Date,
): Promise<void> {
  await pool.query(
    sql`update ${kind.table} as delivery
    set last_error = null, attempts = greatest(delivery.attempts, made.attempts), ${kind.onDelivered(now)}
    from json_populate_recordset(null::${kind.table}, ${JSON.stringify(deliveries)}) as made
    where ${allOf(kind.key.map(identifier).map((column) => sql`delivery.${column} = made.${column}`))}`,
  )
}

/** `maxGroup`: the number of deliveries that are in flight in this process. */
export interface RecorderOptions {
  pool: Pool
  jobs: JobQueue
  now: () => Date
  maxGroup: number
}

/**
 * Returns a function that stores the outcome of an attempt and returns the outcome of its job. A row that is no longer queued or has a newer
 * job stays unchanged, unless the delivery succeeded: the receiver has it then. Deliveries that succeed at once share a commit: decision 0249.
 */
export function createOutcomeRecorder<Key extends string>(kind: DeliveryKind<Key>, { pool, jobs, now, maxGroup }: RecorderOptions) {
  const recordSuccess = groupCalls(async (group: readonly AttemptedDelivery<Key>[]): Promise<JobOutcome[]> => {
    await recordDelivered(pool, kind, group, now())
    return group.map(() => 'done')
  }, maxGroup)
  return (delivery: AttemptedDelivery<Key>, outcome: DeliveryOutcome): Promise<JobOutcome> =>
    outcome.to === 'delivered' ? recordSuccess(delivery) : recordFailure(pool, jobs, kind, delivery, outcome)
}

async function recordFailure<Key extends string>(
  pool: Pool,
  jobs: JobQueue,
  kind: DeliveryKind<Key>,
  delivery: AttemptedDelivery<Key>,
  outcome: Exclude<DeliveryOutcome, { to: 'delivered' }>,
): Promise<JobOutcome> {
  const counted = delivery.attempts === undefined ? [] : [sql`attempts = ${delivery.attempts}`]
  switch (outcome.to) {
    case 'failed': {
      const changes = [sql`status = 'failed'`, sql`last_error = ${outcome.reason}`, ...counted, ...kind.onFailed]
      await pool.query(sql`update ${kind.table} set ${commaList(changes)} where ${isCurrent(kind, delivery)}`)
      return 'failed'
    }
    case 'retry': {
      const changes = [sql`last_error = ${outcome.reason}`, ...counted]
      await pool.query(sql`update ${kind.table} set ${commaList(changes)} where ${isCurrent(kind, delivery)}`)
      return 'retry'
    }
    case 'snooze': {
      const uncounted = outcome.isAttempt ? [] : [sql`attempts = attempts - 1`, ...kind.onUncounted]
      const changes = [sql`last_error = ${outcome.reason}`, sql`job_number = job_number + 1`, ...uncounted]
      await inTransaction(pool, async (tx) => {
        const { rows } = await tx.query<DeliveryJob<Key>>(
          sql`update ${kind.table} set ${commaList(changes)} where ${isCurrent(kind, delivery)}
          returning ${commaList(kind.key.map(identifier))}, job_number as number`,
        )
        // The database's clock counts here, as for the pauses of the queue.
        await sendDeliveryJobs(tx, jobs, kind, rows, () => ({ startAfterSeconds: outcome.seconds }))
      })
      return 'done'
    }
  }
}

const REQUEUE_BATCH = 1_000

export interface RequeueOptions<Key extends string> {
  /** A condition on the table's rows. */
  which: Sql
  /** Runs first in each transaction. */
  before?: (tx: Transaction) => Promise<void>
  /** When each job may start; at once unless given. */
  planStarts?: (tx: Transaction, deliveries: readonly DeliveryJob<Key>[]) => Promise<(delivery: DeliveryJob<Key>) => JobStart>
  /** No more than these, the oldest first; all unless given. */
  atMost?: number
  /** Runs last in each transaction that has queued some. */
  onRequeued?: ((tx: Transaction, deliveries: readonly DeliveryJob<Key>[]) => Promise<void>) | undefined
}

/** Queues deliveries like new ones, in transactions of 1,000. Returns their number. A worker finds them at its next poll. */
export async function requeueDeliveries<Key extends string>(
  pool: Pool,
  jobs: JobQueue,
  kind: DeliveryKind<Key>,
  { which, before, planStarts, atMost = Number.POSITIVE_INFINITY, onRequeued }: RequeueOptions<Key>,
): Promise<number> {
  for (let total = 0; ; ) {
    const size = Math.min(REQUEUE_BATCH, atMost - total)
    const requeued = await inTransaction(pool, async (tx) => {
      await before?.(tx)
      const deliveries = await requeueBatch(tx, kind, which, size)
      await sendDeliveryJobs(tx, jobs, kind, deliveries, await planStarts?.(tx, deliveries))
      if (deliveries.length > 0) await onRequeued?.(tx, deliveries)
      return deliveries.length
    })
    total += requeued
    if (requeued < size || total >= atMost) return total
  }
}

async function requeueBatch<Key extends string>(
  tx: Transaction,
  kind: DeliveryKind<Key>,
  which: Sql,
  size: number,
): Promise<DeliveryJob<Key>[]> {
  const columns = kind.key.map(identifier)
  const changes = [sql`status = 'queued'`, sql`attempts = 0`, sql`job_number = job_number + 1`, ...kind.onRequeued]
  const { rows } = await tx.query<DeliveryJob<Key>>(
    sql`with chosen as (
      select ${commaList(columns)}
      from ${kind.table}
      where ${which}
      order by queued_at, ${commaList(columns)}
      limit ${size}
      for update
    )
    update ${kind.table} as delivery
    set ${commaList(changes)}
    from chosen
    where ${allOf(columns.map((column) => sql`delivery.${column} = chosen.${column}`))}
    returning ${commaList(columns.map((column) => sql`delivery.${column}`))}, delivery.job_number as number`,
  )
  return rows
}
