import { deleteBatch, untilNone } from '../db/in-batches.ts'
import type { Pool, Transaction } from '../db/pool.ts'
import { type Sql, sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import { computeFigures, KEPT_DAYS, MAY_DIFFER, mayDeleteOld, type OnUnreadable, startOfSlice } from './compute-figures.ts'

export interface RollUpOptions {
  /** Orders whose minutes one transaction computes. */
  chunkOrders?: number
  /** A run ends after the chunk in which this time has passed. The next run continues. */
  budgetMs?: number
  /** The run does nothing when another process has begun one within this time. */
  notWithinSeconds?: number
  signal?: AbortSignal
  /** Called for each order whose history cannot be read. The order counts as placed. */
  onUnreadable?: OnUnreadable
}

const CHUNK_ORDERS = 5_000
const BUDGET_MS = 20_000
/** A statement may have drawn a number before its transaction has an id. No such statement takes this long. */
const SETTLED_SECONDS = 120
/**
 * No transaction takes this long: the limit is 24 hours for commands and a minute for the API. This time decides after
 * a restore into another cluster, where transaction ids have no meaning.
 */
const SURELY_SETTLED_SECONDS = 25 * 3_600
/**
 * A change can commit this much later than its `updated_at`: a request's time limit and the difference of two clocks.
 * Changes that are later still need `refillFigures`: docs/operate/monitor.md#clocks.
 */
const LATE_CHANGE_SECONDS = 600
/** Number of the previous release's minutes that one transaction computes. It stays far below the time limit. */
const MINUTES_AT_ONCE = 500
/** Number of days for which the previous release computes figures. */
const DAYS_BEFORE = 8

/**
 * Computes figures of new, changed and older orders, newest first. Each minute is computed from the table in one
 * transaction, so a run can be repeated, ended or run twice at once. Late commits are found by number. Returns the
 * number of minutes, or null when another process has just begun.
 */
export async function rollUpOrders(pool: Pool, options: RollUpOptions = {}): Promise<number | null> {
  const { chunkOrders = CHUNK_ORDERS, budgetMs = BUDGET_MS, notWithinSeconds = 0, signal, onUnreadable = () => {} } = options
  const startedAt = performance.now()
  const run = await beginRun(pool, notWithinSeconds)
  if (run === null) return null
  let minutes = 0
  const isStopped = () => signal?.aborted === true
  if (isStopped()) return minutes
  for await (const computed of computeAll({ pool, chunkOrders, onUnreadable }, run)) {
    minutes += computed
    if (isStopped() || performance.now() - startedAt > budgetMs) break
  }
  return minutes
}

interface Work extends Required<Pick<RollUpOptions, 'chunkOrders' | 'onUnreadable'>> {
  pool: Pool
}

async function* computeAll(work: Work, run: Run): AsyncGenerator<number> {
  yield* computeNewest(work, run)
  yield* computeChanged(work, run)
  yield* computeSettled(work, run)
  await finishCollection(work.pool, run)
  yield* computeThoseOfPreviousRelease(work)
  if (!run.isFilled) yield* computeOlder(work)
}

/** The figures now have every order and change from before the run. Processes then reload them. */
async function finishCollection(pool: Pool, { startedAt }: Run): Promise<void> {
  await pool.query(
    sql`update figure_progress
    set collected_at = ${startedAt}
    where collected_at is null or collected_at < ${startedAt} or collected_at > clock_timestamp()`,
  )
}

interface Run {
  /** Orders up to this number are in the figures permanently, unless they are older than `filled_from`. */
  after: number
  newest: number
  /** No transaction can add an order with a number up to this one. */
  settled: number
  startedAt: Date
  changedAt: Date
  /** Whether the figures reach back to the oldest day that is kept. */
  isFilled: boolean
}

async function beginRun(pool: Pool, notWithinSeconds: number): Promise<Run | null> {
  return inTransaction(pool, async (tx) => {
    await lockProgress(tx)
    const { rowCount } = await tx.query(
      sql`update figure_progress set begun_at = clock_timestamp()
      where begun_at is null or begun_at <= clock_timestamp() - make_interval(secs => ${notWithinSeconds}) or begun_at > clock_timestamp()`,
    )
    if (rowCount === 0) return null
    const { rows } = await tx.query<{ newest: number; settled: number }>(
      sql`with newest as (
        select coalesce(max(number), 0) as number from orders
      ), kept as (
        insert into figure_checkpoints (at, order_number, next_xid)
        select clock_timestamp(), number, pg_snapshot_xmax(pg_current_snapshot()) from newest
        -- The oldest checkpoint of a number settles first.
        where not exists (select from figure_checkpoints where order_number = number)
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
    await beginFilling(tx, settled)
    const { rows: progress } = await tx.query<Omit<Run, 'newest' | 'settled'>>(
      sql`select order_number as after, now() as "startedAt", coalesce(changed_at, now()) as "changedAt",
        filled_from <= now() - make_interval(days => ${KEPT_DAYS}) as "isFilled"
      from figure_progress`,
    )
    const [known] = progress
    return known === undefined ? null : { ...known, newest, settled }
  })
}

/** Lets the next runs compute all kept days again, as after changes of orders with times of the past. */
export async function refillFigures(pool: Pool): Promise<void> {
  await pool.query(sql`update figure_progress set filled_from = null`)
}

/** The filling finds all orders with settled numbers by their times, so they need not be found by number. */
async function beginFilling(tx: Transaction, settled: number): Promise<void> {
  await tx.query(
    sql`update figure_progress
    set order_number = greatest(order_number, ${settled}), changed_at = now(),
      filled_from = date_bin('10 minutes', greatest(now(), (select max(created_at) from orders)), 'epoch') + interval '10 minutes'
    where filled_from is null`,
  )
}

// Each statement after the lock sees the committed chunks of every process.
async function lockProgress(tx: Transaction): Promise<void> {
  await tx.query('select from figure_progress for update')
}

/** Computes the minutes that `orders` selects as `created_at`, and records the progress. */
async function computeChunk(work: Work, orders: Sql, { progress, withProducts = true }: { progress?: Sql; withProducts?: boolean }) {
  return inTransaction(work.pool, async (tx) => {
    await lockProgress(tx)
    const { rows } = await tx.query<{ minute: Date }>(
      sql`select distinct date_trunc('minute', created_at) as minute
      from (${orders}) as found
      where created_at >= now() - make_interval(days => ${KEPT_DAYS})`,
    )
    await computeFigures(
      tx,
      rows.map(({ minute }) => minute),
      { withProducts, onUnreadable: work.onUnreadable },
    )
    if (progress !== undefined) await tx.query(sql`update figure_progress set ${progress}`)
    return rows.length
  })
}

/** Each run computes these orders, because others may still be added before them. */
async function* computeNewest(work: Work, { after, newest, settled }: Run): AsyncGenerator<number> {
  const { pool, chunkOrders } = work
  const downTo = Math.max(after, settled)
  for (let upTo = newest; upTo > downTo; ) {
    const { rows } = await pool.query<{ first: number | null }>(
      sql`select min(number) as first
      from (select number from orders where number > ${downTo} and number <= ${upTo} order by number desc limit ${chunkOrders}) as chunk`,
    )
    const first = rows[0]?.first ?? null
    if (first === null) return
    yield await computeChunk(work, sql`select created_at from orders where number between ${first} and ${upTo}`, {})
    upTo = first - 1
  }
}

/** Computes orders that were cancelled, returned, refunded or charged differently since the last run. */
async function* computeChanged(work: Work, { startedAt, changedAt }: Run): AsyncGenerator<number> {
  const { pool, chunkOrders } = work
  for (let since = new Date(changedAt.getTime() - LATE_CHANGE_SECONDS * 1_000); ; ) {
    const changed = sql`select created_at, updated_at from orders where ${MAY_DIFFER} and updated_at > ${since}
      order by updated_at fetch first ${chunkOrders} rows with ties`
    const { rows } = await pool.query<{ count: number; last: Date | null }>(
      sql`select count(*)::integer as count, max(updated_at) as last from (${changed}) as chunk`,
    )
    const [{ count, last } = { count: 0, last: null }] = rows
    // The next run begins LATE_CHANGE_SECONDS before this time: after this chunk, or earlier near the present.
    const upTo =
      count < chunkOrders || last === null ? startedAt : earlier(new Date(last.getTime() + LATE_CHANGE_SECONDS * 1_000), startedAt)
    if (count === 0) await pool.query(sql`update figure_progress set changed_at = greatest(changed_at, ${upTo})`)
    else yield await computeChunk(work, changed, { progress: sql`changed_at = greatest(changed_at, ${upTo})`, withProducts: false })
    if (count < chunkOrders || last === null) return
    since = last
  }
}

const earlier = (a: Date, b: Date): Date => (a < b ? a : b)

/** Processes of the previous release compute minutes, too, while they run. Their newest minutes come first. */
async function* computeThoseOfPreviousRelease(work: Work): AsyncGenerator<number> {
  const found = sql`select minute as created_at
    from order_figures
    where net_revenue is null and minute >= (select filled_from from figure_progress) and minute >= now() - make_interval(days => ${DAYS_BEFORE})
    order by minute desc`
  for (;;) {
    const { rowCount } = await work.pool.query(sql`${found} limit 1`)
    if (rowCount === 0) return
    yield await computeChunk(work, sql`${found} limit ${MINUTES_AT_ONCE}`, {})
  }
}

/** Computes older orders, down to the oldest kept day. Each chunk ends where the previous one began. */
async function* computeOlder(work: Work): AsyncGenerator<number> {
  for (let computed: number | null = 0; ; ) {
    computed = await inTransaction(work.pool, (tx) => computeOlderChunk(tx, work))
    if (computed === null) return
    yield computed
  }
}

async function computeOlderChunk(tx: Transaction, { chunkOrders, onUnreadable }: Work): Promise<number | null> {
  await lockProgress(tx)
  const { rows: progress } = await tx.query<{ to: Date; oldest: Date }>(
    sql`select filled_from as to, now() - make_interval(days => ${KEPT_DAYS}) as oldest
    from figure_progress
    where filled_from > now() - make_interval(days => ${KEPT_DAYS})`,
  )
  const [left] = progress
  if (left === undefined) return null
  const { to, oldest } = left
  const { rows } = await tx.query<{ count: number; first: Date | null }>(
    sql`select count(*)::integer as count, min(created_at) as first
    from (
      select created_at from orders where created_at >= ${oldest} and created_at < ${to} order by created_at desc limit ${chunkOrders}
    ) as chunk`,
  )
  const [{ count, first } = { count: 0, first: null }] = rows
  const from = startOfSlice(count < chunkOrders ? oldest : (first ?? oldest))
  await mayDeleteOld(tx)
  await tx.query(sql`delete from order_figures where minute >= ${from} and minute < ${to}`)
  await tx.query(sql`delete from product_figures where slice >= ${from} and slice < ${to}`)
  const { rows: minutes } = await tx.query<{ minute: Date }>(
    sql`select distinct date_trunc('minute', created_at) as minute from orders where created_at >= ${from} and created_at < ${to}`,
  )
  await computeFigures(
    tx,
    minutes.map(({ minute }) => minute),
    { onUnreadable },
  )
  await tx.query(sql`update figure_progress set filled_from = ${from}`)
  return minutes.length
}

async function* computeSettled(work: Work, { after, settled }: Run): AsyncGenerator<number> {
  const { pool, chunkOrders } = work
  for (let done = after; done < settled; ) {
    const { rows } = await pool.query<{ last: number | null }>(
      sql`select max(number) as last
      from (select number from orders where number > ${done} and number <= ${settled} order by number limit ${chunkOrders}) as chunk`,
    )
    const last = rows[0]?.last ?? null
    if (last === null) return
    const progress = sql`order_number = greatest(order_number, ${last})`
    yield await computeChunk(work, sql`select created_at from orders where number > ${done} and number <= ${last}`, { progress })
    done = last
  }
}

/** Returns the number of deleted figures. */
export async function deleteOldFigures(pool: Pool, now: Date): Promise<number> {
  const oldest = new Date(now.getTime() - KEPT_DAYS * 86_400_000)
  const deleteOld = (table: string, condition: Sql) =>
    untilNone(() =>
      inTransaction(pool, async (tx) => {
        await mayDeleteOld(tx)
        return deleteBatch(tx, table, condition)
      }),
    )
  return (await deleteOld('order_figures', sql`minute < ${oldest}`)) + (await deleteOld('product_figures', sql`slice < ${oldest}`))
}
