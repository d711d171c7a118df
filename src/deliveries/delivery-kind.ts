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
  /** Names the queue in metrics and in the log. */
  name: string
  table: Sql
  /** The columns of the table's primary key, all of them text or UUIDs. */
  key: readonly string[]
  /** The column that names the receiver. Deliveries of `NO_RECEIVER` share no places. */
  receiver: { column: Sql; type: 'text' | 'uuid' }
  /** Further columns that a take returns. */
  columns: readonly string[]
  /** Selects the attempt from `taken`, which has the key, `receiver`, `attempts` and these columns; all of them unless given. */
  read?: Sql
  /** The pause after the first attempt; each further one is about twice as long, up to the longest. */
  firstPauseSeconds: number
  longestPauseSeconds: number
  /** Whether rows stay when their delivery has ended, in the column `status`; otherwise they are deleted. */
  isKept: boolean
  /** Further assignments of a transition. */
  onTaken?: readonly Sql[]
  onDelivered?: readonly Sql[]
  onFailed?: readonly Sql[]
  onRequeued?: readonly Sql[]
  /** When an attempt that was not made is taken back. */
  onUncounted?: readonly Sql[]
  /** How much waits, where a table knows a better answer than the usual one. */
  readLength?: (db: Queryable) => Promise<QueueLength>
}

export const NO_RECEIVER = '-'

/** A row that was taken. `attempts` is their number with this one. */
export type Taken<Row> = Row & { receiver: string; attempts: number }

/** The result of an attempt. `reason` is stored as `last_error`: one line, without personal data. */
export type DeliveryOutcome =
  | { to: 'delivered' }
  /** No more attempts, until an operator asks for one. */
  | { to: 'failed'; reason: string }
  /**
   * `seconds` replaces the kind's pause, and the end of an outage does not end it. `isAttempt` is false when nothing
   * was sent: the attempt does not count.
   */
  | { to: 'retry'; reason: string; seconds?: number; isAttempt?: boolean }

const SECRET_PAUSE_SECONDS = 30

/** The outcome where this process cannot decrypt: nothing was sent, and the fault is not the receiver's. */
export function waitForSecret(reason: string): DeliveryOutcome {
  return { to: 'retry', reason, seconds: SECRET_PAUSE_SECONDS, isAttempt: false }
}

export interface QueueLength {
  queued: number
  /** How long the oldest due delivery to a receiver that is not failing has waited for its first attempt; 0 when none waits. */
  oldestUntriedSeconds: number
}

export const EMPTY_QUEUE: QueueLength = { queued: 0, oldestUntriedSeconds: 0 }

/** True of rows whose delivery has not ended. */
export function isQueued({ isKept }: DeliveryKind): Sql {
  return isKept ? sql`status = 'queued'` : sql`true`
}

/**
 * Counts what waits. The age leaves out receivers whose deliveries fail: they are asked by one at a time. A failure
 * that has been due for minutes says that nobody asks.
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

/** Seconds until the next attempt: they double with each one, and are spread by half, so that failures of one moment do not return together. */
export function pauseAfter({ firstPauseSeconds, longestPauseSeconds }: DeliveryKind, attempts: number): number {
  const longest = Math.max(firstPauseSeconds, 1) * 2 ** Math.min(16, attempts)
  return Math.min(longestPauseSeconds, (longest / 2) * (1 + Math.random()))
}
