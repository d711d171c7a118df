import type { Queryable } from '../db/pool.ts'
import { type Sql, sql } from '../db/sql.ts'

/**
 * A kind of delivery, such as order mails: a table whose rows are the queue. The states of a row:
 *
 *     queued ── take ──▶ in flight ── delivered ──▶ the kind's own word, such as `sent`
 *      ▲ ▲                │   └────── failed ─────▶ failed ──┐
 *      │ └── retry, or the end of the lease ──┘              │
 *      └────────────────── requeue, by an operator ──────────┘
 *
 * A row in flight stays `queued` and has a `lease`. See docs/decisions/deliveries.md#a-deliverys-row-is-its-job.
 */
export interface DeliveryKind {
  /** The queue's name in metrics and in the log. */
  name: string
  table: Sql
  /** The columns of the table's primary key, all of them text or UUIDs. */
  key: readonly string[]
  /** The column that names the receiver. Deliveries to `NO_RECEIVER` share no places. */
  receiver: { column: Sql; type: 'text' | 'uuid' }
  /** Further columns that a taken row has. */
  columns: readonly string[]
  /**
   * Selects the attempt from `taken`, which has the key, `receiver`, `attempts` and `columns`. The default selects all
   * of them.
   */
  read?: Sql
  /** The pause after the first attempt. Each later pause is about twice as long, up to `longestPauseSeconds`. */
  firstPauseSeconds: number
  longestPauseSeconds: number
  /** Whether the row of a finished delivery stays, with its `status`. Otherwise it is deleted. */
  isKept: boolean
  /** Further assignments, by transition. */
  onTaken?: readonly Sql[]
  onDelivered?: readonly Sql[]
  onFailed?: readonly Sql[]
  onRequeued?: readonly Sql[]
  /** The assignments for an attempt that was counted but not made. */
  onUncounted?: readonly Sql[]
  /** Replaces the usual query for the queue length. */
  readLength?: (db: Queryable) => Promise<QueueLength>
}

export const NO_RECEIVER = '-'

/** A taken row. `attempts` includes this attempt. */
export type Taken<Row> = Row & { receiver: string; attempts: number }

/** The result of an attempt. `reason` is stored as `last_error`, so it must be one line without personal data. */
export type DeliveryOutcome =
  | { to: 'delivered' }
  /** No more attempts until an operator requeues the delivery. */
  | { to: 'failed'; reason: string }
  /**
   * `seconds` replaces the pause of the kind, and the end of an outage does not shorten it. `isAttempt` is false if
   * nothing was sent, so the attempt does not count.
   */
  | { to: 'retry'; reason: string; seconds?: number; isAttempt?: boolean }

const SECRET_PAUSE_SECONDS = 30

/** The outcome if this process cannot decrypt a secret. Nothing was sent, and it is not the receiver's fault. */
export function waitForSecret(reason: string): DeliveryOutcome {
  return { to: 'retry', reason, seconds: SECRET_PAUSE_SECONDS, isAttempt: false }
}

export interface QueueLength {
  queued: number
  /**
   * How long the oldest due first attempt has waited, in seconds. Failing receivers are left out. 0 when no delivery
   * waits.
   */
  oldestUntriedSeconds: number
}

export const EMPTY_QUEUE: QueueLength = { queued: 0, oldestUntriedSeconds: 0 }

/** The condition for deliveries that are not finished. */
export function isQueued({ isKept }: DeliveryKind): Sql {
  return isKept ? sql`status = 'queued'` : sql`true`
}

/**
 * Counts queued deliveries. The age ignores failing receivers, which get one delivery at a time. A failure that has
 * been due for five minutes counts again, because then no worker retries it.
 */
export async function readQueueLength(db: Queryable, kind: DeliveryKind): Promise<QueueLength> {
  if (kind.readLength !== undefined) return kind.readLength(db)
  const { rows } = await db.query<QueueLength>(
    sql`select
      coalesce(sum(queued), 0)::float8 as queued,
      coalesce(greatest(extract(epoch from now() - min(untried) filter (where not is_failing)), 0), 0)::float8 as "oldestUntriedSeconds"
    from (
      select count(*) as queued, min(due_at) filter (where attempts = 0) as untried,
        ${kind.receiver.column}::text <> ${NO_RECEIVER} and bool_or(attempts > 0 and last_error is not null and due_at > now() - interval '5 minutes') as is_failing
      from ${kind.table}
      where ${isQueued(kind)}
      group by ${kind.receiver.column}
    ) as waiting`,
  )
  return rows[0] ?? EMPTY_QUEUE
}

/**
 * Seconds until the next attempt. They double with each attempt. Up to half of them is random, so simultaneous failures
 * are not retried together.
 */
export function pauseAfter({ firstPauseSeconds, longestPauseSeconds }: DeliveryKind, attempts: number): number {
  const longest = Math.max(firstPauseSeconds, 1) * 2 ** Math.min(16, attempts)
  return Math.min(longestPauseSeconds, (longest / 2) * (1 + Math.random()))
}

export interface Attempt {
  /** Reports whether the receiver works, once it was asked. */
  report: (health: 'well' | 'failing') => void
  /** Stores the outcome, batched with others that end at the same time. */
  record: (outcome: DeliveryOutcome) => Promise<void>
}

/** Makes one attempt and records it. The delivery is retried if this throws before recording. */
export type Deliver<Row> = (row: Taken<Row>, attempt: Attempt) => Promise<void>
