import type { Pool, Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'

/** The time that figures are kept: the week that is shown, and a day more. */
const KEPT_DAYS = 8

export interface RollUpOptions {
  /** Orders whose minutes are computed together. */
  chunkOrders?: number
  /** A run ends after the chunk in which this has passed; the next one continues. */
  budgetMs?: number
  /** Does nothing when another process has begun a run within this time. */
  notWithinSeconds?: number
  signal?: AbortSignal
}

const CHUNK_ORDERS = 20_000
const BUDGET_MS = 20_000
/** Minutes, or ten minutes, that one statement computes. */
const SLICES_AT_ONCE = 100
/** A number may be drawn by a statement whose transaction has no id yet: this is more than any such statement takes. */
const SETTLED_SECONDS = 120
/**
 * Longer than any transaction may last: the commands' bound is 24 hours, the API's a minute. It decides after a restore
 * into another cluster, where transaction ids mean nothing.
 */
const SURELY_SETTLED_SECONDS = 25 * 3_600

/**
 * Computes the figures of every minute that has an order above the settled number. Such a minute is computed from the table, in one transaction:
 * a run can be repeated, ended anywhere, or run in two processes, and late commits and past-dated orders are found by their numbers. Returns the number of
 * minutes, null when another process has just begun a run.
 */
export async function rollUpOrders(pool: Pool, options: RollUpOptions = {}): Promise<number | null> {
  const { chunkOrders = CHUNK_ORDERS, budgetMs = BUDGET_MS, notWithinSeconds = 0, signal } = options
  const startedAt = performance.now()
  const run = await beginRun(pool, notWithinSeconds)
  if (run === null) return null
  let minutes = 0
  for (let after = run.after; ; ) {
    if (signal?.aborted || performance.now() - startedAt > budgetMs) return minutes
    const upTo = await findChunkEnd(pool, after, run.newest, chunkOrders)
    if (upTo === null) return minutes
    minutes += await rollUpChunk(pool, after, upTo, run.settled)
    after = upTo
  }
}

interface Run {
  /** Orders up to this number are in the figures permanently. */
  after: number
  newest: number
  /** No transaction can add an order up to this number. */
  settled: number
}

async function beginRun(pool: Pool, notWithinSeconds: number): Promise<Run | null> {
  return inTransaction(pool, async (tx) => {
    await lockProgress(tx)
    const { rows: begun } = await tx.query<{ after: number }>(
      sql`update figure_progress set collected_at = clock_timestamp()
      where collected_at is null or collected_at <= clock_timestamp() - make_interval(secs => ${notWithinSeconds}) or collected_at > clock_timestamp()
      returning order_number as after`,
    )
    const [progress] = begun
    if (progress === undefined) return null
    const { rows } = await tx.query<{ newest: number; settled: number }>(
      sql`with newest as (
        select coalesce(max(number), 0) as number from orders
      ), kept as (
        insert into figure_checkpoints (at, order_number, next_xid)
        select clock_timestamp(), number, pg_snapshot_xmax(pg_current_snapshot()) from newest
        on conflict do nothing
      )
      select newest.number as newest, coalesce(max(checkpoint.order_number), 0) as settled
      from newest
      left join figure_checkpoints as checkpoint
        on checkpoint.at <= now() - make_interval(secs => ${SETTLED_SECONDS}) and checkpoint.next_xid <= pg_snapshot_xmin(pg_current_snapshot())
        or checkpoint.at <= now() - make_interval(secs => ${SURELY_SETTLED_SECONDS})
      group by newest.number`,
    )
    const { newest = 0, settled = 0 } = rows[0] ?? {}
    await tx.query(sql`delete from figure_checkpoints where order_number < ${settled}`)
    return { after: progress.after, newest, settled }
  })
}

// Each statement after the lock sees what every earlier chunk of any process has committed.
async function lockProgress(tx: Transaction): Promise<void> {
  await tx.query('select from figure_progress for update')
}

/** The last order number of the next chunk, or null when no orders remain. */
async function findChunkEnd(pool: Pool, after: number, newest: number, chunkOrders: number): Promise<number | null> {
  const { rows } = await pool.query<{ last: number | null }>(
    sql`select max(number) as last
    from (select number from orders where number > ${after} and number <= ${newest} order by number limit ${chunkOrders}) as chunk`,
  )
  return rows[0]?.last ?? null
}

async function rollUpChunk(pool: Pool, after: number, upTo: number, settled: number): Promise<number> {
  return inTransaction(pool, async (tx) => {
    await lockProgress(tx)
    // With old statistics the planner would read the whole table for each minute.
    await tx.query('set local enable_seqscan = off')
    const { rows } = await tx.query<{ minute: Date }>(
      sql`select distinct date_trunc('minute', created_at) as minute
      from orders
      where number > ${after} and number <= ${upTo} and created_at >= now() - make_interval(days => ${KEPT_DAYS})`,
    )
    const minutes = rows.map((row) => row.minute)
    for (const slice of inParts(minutes)) await computeMinutes(tx, slice)
    for (const slice of inParts(slicesOf(minutes))) await computeProducts(tx, slice)
    // The time is set too: a process that has read the figures while they were computed reads them again.
    await tx.query(
      sql`update figure_progress
      set order_number = greatest(order_number, ${Math.min(upTo, settled)}), collected_at = clock_timestamp()`,
    )
    return minutes.length
  })
}

async function computeMinutes(tx: Transaction, minutes: readonly Date[]): Promise<void> {
  await tx.query(sql`delete from order_figures where minute = any(${minutes}::timestamptz[])`)
  await tx.query(
    sql`insert into order_figures (minute, currency, orders, revenue)
    select computed.minute, placed.currency, count(*), sum(placed.total_amount)
    from unnest(${minutes}::timestamptz[]) as computed (minute)
    join orders as placed on placed.created_at >= computed.minute and placed.created_at < computed.minute + interval '1 minute'
    group by computed.minute, placed.currency`,
  )
}

async function computeProducts(tx: Transaction, slices: readonly Date[]): Promise<void> {
  await tx.query(sql`delete from product_figures where slice = any(${slices}::timestamptz[])`)
  await tx.query(
    sql`insert into product_figures (slice, product_id, currency, quantity, revenue)
    select computed.slice, line.product_id, placed.currency, sum(line.quantity), sum((line.total ->> 'amount')::numeric)
    from unnest(${slices}::timestamptz[]) as computed (slice)
    join orders as placed on placed.created_at >= computed.slice and placed.created_at < computed.slice + interval '10 minutes'
    cross join json_to_recordset(placed.items) as line (product_id uuid, quantity bigint, total json)
    group by computed.slice, line.product_id, placed.currency`,
  )
}

const SLICE_MS = 600_000

function slicesOf(minutes: readonly Date[]): Date[] {
  const starts = new Set(minutes.map((minute) => Math.floor(minute.getTime() / SLICE_MS) * SLICE_MS))
  return [...starts].map((start) => new Date(start))
}

function* inParts<T>(list: readonly T[]): Generator<T[]> {
  for (let start = 0; start < list.length; start += SLICES_AT_ONCE) yield list.slice(start, start + SLICES_AT_ONCE)
}

/** Deletes figures that are older than any that is shown. Returns their number. */
export async function deleteOldFigures(pool: Pool, now: Date): Promise<number> {
  const oldest = new Date(now.getTime() - KEPT_DAYS * 86_400_000)
  const statements = [sql`delete from order_figures where minute < ${oldest}`, sql`delete from product_figures where slice < ${oldest}`]
  let deleted = 0
  for (const statement of statements) deleted += (await pool.query(statement)).rowCount ?? 0
  return deleted
}
