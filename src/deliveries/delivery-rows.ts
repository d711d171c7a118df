import { BATCH_ROWS, inBatches } from '../db/in-batches.ts'
import type { Pool, Queryable, Transaction } from '../db/pool.ts'
import { allOf, commaList, identifier, type Sql, sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import { type DeliveryKind, type DeliveryOutcome, isQueued, pauseAfter, type Taken } from './delivery-kind.ts'

/** Another process may take a delivery that had no heartbeat for this time. */
const LEASE_SECONDS = 15
const LEASE = sql`now() + make_interval(secs => ${LEASE_SECONDS})`
const NO_LEASE = [sql`lease = null`, sql`leased_until = null`]
const DUE_NOW = [sql`due_at = now()`, sql`due_set_at = now()`]
/**
 * The smallest clock step that is corrected. A smaller one, such as a step of NTP, delays deliveries by its own length.
 */
export const STEP_SECONDS = 60
const STEP = sql`make_interval(secs => ${STEP_SECONDS})`
/** A lease with a later end was written before the clock went back. */
const IS_FREE = sql`(leased_until is null or leased_until <= now() or leased_until > ${LEASE} + ${STEP})`
const TYPES = { text: sql`text`, uuid: sql`uuid` }

/** A delivery that this process holds: its row's key and its lease. */
export type HeldRow = Readonly<Record<string, unknown>> & { lease: string }

function takenColumns({ key, columns }: DeliveryKind): Sql {
  return commaList([...key, 'attempts', ...columns].map(identifier))
}

/**
 * Takes due deliveries, at most the given number for each receiver, and counts an attempt of each. Half of them are the
 * oldest and half the newest, so new deliveries do not wait for a backlog. The update changes no index, so it writes
 * little: docs/decisions/mail.md.
 */
export async function takeDeliveries<Row>(
  db: Queryable,
  kind: DeliveryKind,
  wanted: ReadonlyMap<string, number>,
  lease: string,
): Promise<Taken<Row>[]> {
  const { table, receiver, read = sql`select receiver, ${takenColumns(kind)} from taken` } = kind
  const changes = [sql`lease = ${lease}`, sql`leased_until = ${LEASE}`, sql`attempts = attempts + 1`, ...(kind.onTaken ?? [])]
  const isDue = sql`${isQueued(kind)} and ${receiver.column} = wanted.receiver::${TYPES[receiver.type]} and due_at <= now() and ${IS_FREE}`
  const { rows } = await db.query<Taken<Row>>(
    // An array, because with a join the planner expects thousands of rows and reads the whole table.
    sql`with taken as (
      update ${table} as delivery
      set ${commaList(changes)}
      where ctid = any(array(
        select chosen.ctid
        from unnest(${[...wanted.keys()]}::text[], ${[...wanted.values()]}::integer[]) as wanted (receiver, deliveries)
        cross join lateral (
          select oldest.ctid from (
            select ctid from ${table} where ${isDue}
            order by due_at limit wanted.deliveries - wanted.deliveries / 2 for update skip locked
          ) as oldest
          union all
          select newest.ctid from (
            select ctid from ${table} where ${isDue}
            order by due_at desc limit wanted.deliveries / 2 for update skip locked
          ) as newest
        ) as chosen
      ))
      returning ${receiver.column}::text as receiver, ${takenColumns(kind)}
    )
    ${read}`,
  )
  return rows
}

/** The most receivers that one walk visits. */
const WALKED = 2_000

export interface WalkedReceiver {
  queue: string
  receiver: string
  is_due: boolean
}

/** Up to 2,000 receivers after `after` that have queued deliveries, and whether one of their deliveries is due. */
export function walkReceivers(kind: DeliveryKind, after: string | null): Sql {
  const { table, receiver } = kind
  const start = after ?? (receiver.type === 'uuid' ? '00000000-0000-0000-0000-000000000000' : '')
  const next = (behind: Sql) => sql`select ${receiver.column} as receiver, due_at
    from ${table}
    where ${isQueued(kind)} and ${receiver.column} > ${behind}
    order by ${receiver.column}, due_at
    limit 1`
  return sql`(
    with recursive walk (receiver, due_at) as (
      (${next(sql`${start}::${TYPES[receiver.type]}`)})
      union all
      select following.receiver, following.due_at from walk, lateral (${next(sql`walk.receiver`)}) as following
    )
    select ${kind.name}::text as queue, receiver::text, due_at <= now() as is_due from walk limit ${WALKED}
  )`
}

export function isWholeWalk(receivers: number): boolean {
  return receivers < WALKED
}

interface ChangeOptions {
  /** Assignments can use `delivery` (the row), `held` (its lease) and `item` (its values). */
  assignments: readonly Sql[] | 'delete'
  /** The condition for rows to change. The default is that this process still holds them. */
  which?: Sql
  values?: (place: number) => object
}

/**
 * Changes rows and skips those that another transaction has locked. Waiting for them could deadlock, or outlast other
 * leases. Returns the changed and the locked rows.
 */
async function changeRows<Row extends HeldRow>(
  db: Queryable,
  kind: DeliveryKind,
  held: readonly Row[],
  {
    assignments,
    which = sql`delivery.lease = held.lease and ${kind.isKept ? sql`delivery.status = 'queued'` : sql`true`}`,
    values,
  }: ChangeOptions,
): Promise<{ changed: Set<Row>; locked: Set<Row> }> {
  const result = { changed: new Set<Row>(), locked: new Set<Row>() }
  if (held.length === 0) return result
  const { table, key } = kind
  const keyOf = (row: Row) => Object.fromEntries([...key, 'lease'].map((column) => [column, row[column]]))
  const items = JSON.stringify(held.map((row, place) => ({ ...keyOf(row), ...values?.(place), place })))
  const heldItems = sql`json_array_elements(${items}::json) as item, json_populate_record(null::${table}, item) as held`
  const hasKey = allOf(key.map(identifier).map((column) => sql`delivery.${column} = held.${column}`))
  const place = sql`(item ->> 'place')::integer as place`
  const isFree = sql`delivery.ctid = any(array(select ctid from free)) and ${hasKey}`
  const { rows } = await db.query<{ place: number; is_changed: boolean }>(
    sql`with found as (
      select delivery.ctid, ${place} from ${table} as delivery, ${heldItems} where ${hasKey} and ${which}
    ), free as (
      select ctid from ${table} where ctid = any(array(select ctid from found)) for update skip locked
    ), changed as (
      ${
        assignments === 'delete'
          ? sql`delete from ${table} as delivery using ${heldItems} where ${isFree}`
          : sql`update ${table} as delivery set ${commaList(assignments)} from ${heldItems} where ${isFree}`
      }
      returning ${place}
    )
    select place, place in (select place from changed) as is_changed from found`,
  )
  for (const { place, is_changed } of rows) result[is_changed ? 'changed' : 'locked'].add(held[place] as Row)
  return result
}

/**
 * Extends the leases of deliveries in flight. Returns the rows whose lease this process still has, without locked rows.
 */
export async function renewLeases<Row extends HeldRow>(db: Queryable, kind: DeliveryKind, held: readonly Row[]): Promise<Set<Row>> {
  return (await changeRows(db, kind, held, { assignments: [sql`leased_until = ${LEASE}`] })).changed
}

/**
 * Releases deliveries that this process does not finish, so they are due at once. `isAttempt` is false for deliveries
 * that it has not begun. Returns the locked rows, which stay unchanged.
 */
export async function releaseDeliveries<Row extends HeldRow>(
  db: Queryable,
  kind: DeliveryKind,
  held: readonly Row[],
  { isAttempt }: { isAttempt: boolean },
): Promise<Set<Row>> {
  const assignments = isAttempt ? NO_LEASE : [...NO_LEASE, ...uncounted(kind)]
  return (await changeRows(db, kind, held, { assignments })).locked
}

/** Subtracts attempts that are not made. The process keeps the rows. */
export async function uncountAttempts(db: Queryable, kind: DeliveryKind, held: readonly HeldRow[]): Promise<void> {
  await changeRows(db, kind, held, { assignments: uncounted(kind) })
}

function uncounted({ onUncounted = [] }: DeliveryKind): Sql[] {
  return [sql`attempts = delivery.attempts - 1`, ...onUncounted]
}

export interface Ended {
  row: HeldRow & { attempts: number }
  outcome: DeliveryOutcome
}

/**
 * Stores outcomes, in one statement for each kind of outcome. If this process no longer holds a row, only a success is
 * stored. Returns the outcomes of locked rows, which the caller must store later.
 */
export async function recordOutcomes(db: Queryable, kind: DeliveryKind, ended: readonly Ended[]): Promise<Set<Ended>> {
  const { isKept, onDelivered = [], onFailed = [] } = kind
  const error = sql`last_error = held.last_error`
  const due = [sql`due_at = now() + make_interval(secs => (item ->> 'seconds')::float8)`, sql`due_set_at = now()`]
  const retried = [...NO_LEASE, ...due, error, sql`is_pause_asked = held.is_pause_asked`]
  const words: Record<string, ChangeOptions> = {
    delivered: { assignments: isKept ? [...NO_LEASE, sql`last_error = null`, ...onDelivered] : 'delete', which: sql`true` },
    failed: { assignments: isKept ? [sql`status = 'failed'`, ...NO_LEASE, error, ...onFailed] : 'delete' },
    retry: { assignments: retried },
    uncounted: { assignments: [...retried, ...uncounted(kind)] },
  }
  const left = new Set<Ended>()
  for (const [word, options] of Object.entries(words)) {
    const these = ended.filter(({ outcome }) => wordOf(outcome) === word)
    const values = (place: number) => valuesOf(kind, these[place] as Ended)
    const held = these.map(({ row }) => row)
    const { locked } = await changeRows(db, kind, held, { ...options, values })
    for (const each of these) if (locked.has(each.row)) left.add(each)
  }
  return left
}

function wordOf(outcome: DeliveryOutcome): string {
  return outcome.to === 'retry' && outcome.isAttempt === false ? 'uncounted' : outcome.to
}

function valuesOf(kind: DeliveryKind, { row, outcome }: Ended): object {
  if (outcome.to === 'delivered') return {}
  // JSON in PostgreSQL accepts neither NUL nor lone surrogates.
  const last_error = outcome.reason.replaceAll('\0', ' ').toWellFormed()
  if (outcome.to === 'failed') return { last_error }
  return { last_error, seconds: outcome.seconds ?? pauseAfter(kind, row.attempts), is_pause_asked: outcome.seconds !== undefined }
}

const BATCH = 1_000
const PAUSES_PER_OUTAGE = 3

/**
 * Ends the pauses of failed deliveries after outages, 1,000 in a call. `outages` has the milliseconds of each outage by
 * receiver; null stands for all receivers. Pauses that the receiver asked for stay. So do pauses much longer than the
 * outage, because they began before it. Returns the receivers whose pauses ended, and whether there are more.
 */
export async function endPauses(
  db: Queryable,
  kind: DeliveryKind,
  outages: ReadonlyMap<string | null, number>,
): Promise<{ receivers: Set<string>; hasMore: boolean }> {
  // Pauses double, so a pause that began in an outage is about as long as the outage.
  const longest = [...outages.values()].map((ms) => (Number.isFinite(ms) ? Math.ceil((ms * PAUSES_PER_OUTAGE) / 1_000) : null))
  const { column, type } = kind.receiver
  // A select for each receiver uses the index. One condition on all receivers would read the whole queue.
  const paused = (of: Sql) => sql`select ctid from ${kind.table}
    where ${isQueued(kind)} and ${of} and attempts > 0 and not is_pause_asked and due_at > now()
      and (outage.seconds is null or due_at <= now() + make_interval(secs => outage.seconds))
    limit ${BATCH}
    for update skip locked`
  const { rows } = await db.query<{ receiver: string }>(
    sql`with outage as (
      select * from unnest(${[...outages.keys()]}::text[], ${longest}::float8[]) as outage (receiver, seconds)
    )
    update ${kind.table}
    set ${commaList(DUE_NOW)}
    where ctid = any(array(
      select ended.ctid from (select * from outage where receiver is not null) as outage
      cross join lateral (${paused(sql`${column} = outage.receiver::${TYPES[type]}`)}) as ended
      union all
      select ended.ctid from (select * from outage where receiver is null) as outage
      cross join lateral (${paused(sql`true`)}) as ended
      limit ${BATCH}
    ))
    returning ${column}::text as receiver`,
  )
  return { receivers: new Set(rows.map(({ receiver }) => receiver)), hasMore: rows.length >= BATCH / 2 }
}

/**
 * Corrects times that are in the future because the clock was set back, 1,000 in a statement. A delivery keeps the rest
 * of its pause, or a due time of its own. Returns the number of corrected rows.
 */
export async function correctTimes(db: Queryable, kind: DeliveryKind): Promise<number> {
  return inBatches(
    db,
    sql`update ${kind.table}
    set due_at = case when due_at >= due_set_at then due_at - (due_set_at - now()) else due_at end, due_set_at = now()
    where ctid = any(array(
      select ctid from ${kind.table}
      where ${isQueued(kind)} and due_set_at > now() + ${STEP}
      limit ${BATCH_ROWS}
      for update skip locked
    ))`,
  )
}

/**
 * Ends the leases in a restored backup, whose processes are gone. The server must have started on the restored files.
 */
export async function releaseRestored(db: Queryable, kind: DeliveryKind): Promise<void> {
  await db.query(
    sql`update ${kind.table} set ${commaList(NO_LEASE)}
    where ${isQueued(kind)} and leased_until < pg_postmaster_start_time() + make_interval(secs => ${LEASE_SECONDS})`,
  )
}

const REQUEUE_BATCH = 1_000

export type DeliveryKey = Readonly<Record<string, string>>

export interface RequeueOptions {
  /** A condition on the table's rows. */
  which: Sql
  /** Runs at the beginning of each transaction. */
  before?: (tx: Transaction) => Promise<void>
  /** The most deliveries to queue again, the oldest first. By default all. */
  atMost?: number
  /** Runs last in each transaction that requeued deliveries. */
  onRequeued?: (tx: Transaction, deliveries: readonly DeliveryKey[]) => Promise<void>
}

/**
 * Queues deliveries like new ones, in transactions of 1,000. Returns their number. Workers find them at the next poll.
 */
export async function requeueDeliveries(
  pool: Pool,
  kind: DeliveryKind,
  { which, before, atMost = Number.POSITIVE_INFINITY, onRequeued }: RequeueOptions,
): Promise<number> {
  for (let total = 0; ; ) {
    const size = Math.min(REQUEUE_BATCH, atMost - total)
    const requeued = await inTransaction(pool, async (tx) => {
      await before?.(tx)
      const deliveries = await requeueBatch(tx, kind, which, size)
      if (deliveries.length > 0) await onRequeued?.(tx, deliveries)
      return deliveries.length
    })
    total += requeued
    if (requeued < size || total >= atMost) return total
  }
}

async function requeueBatch(tx: Transaction, kind: DeliveryKind, which: Sql, size: number): Promise<DeliveryKey[]> {
  const columns = kind.key.map(identifier)
  const changes = [sql`status = 'queued'`, sql`attempts = 0`, ...NO_LEASE, ...DUE_NOW, ...(kind.onRequeued ?? [])]
  const { rows } = await tx.query<DeliveryKey>(
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
    returning ${commaList(columns.map((column) => sql`delivery.${column}`))}`,
  )
  return rows
}
