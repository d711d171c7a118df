import type { Queryable } from '../db/pool.ts'
import { type Sql, sql } from '../db/sql.ts'
import type { TopicMessage } from './topic.ts'

/**
 * The life of the database between two restores. Restoring an earlier state begins a new incarnation. See
 * docs/decisions/audit-incarnations.md.
 */
export interface Incarnation {
  /** 0 for the first, increasing. */
  number: number
  /** The database that began it: `<system id>.<timeline>.<oid>`. */
  identity: string
  lost: LostRange | null
  /** The lost range of the topic's catalogue partition. */
  catalogueLost: LostRange | null
  /** False while there are lost events that `storefront replay` has not listed yet. */
  isReconciled: boolean
  /**
   * Whether topic and lake were compared with the database. A connection begins an incarnation before that comparison.
   */
  isCompared: boolean
  /** When a comparison last left the lake out. Null after a later comparison that included it. */
  lakeLeftOutAt: Date | null
}

/** Topic sequences after `after` and up to `upTo`. The restored database lacks some of their events. */
export interface LostRange {
  after: number
  upTo: number
}

/** The incarnations, the oldest first. Empty before the first process has checked the database. */
export async function listIncarnations(db: Queryable): Promise<Incarnation[]> {
  const { rows } = await db.query<Incarnation>(
    `select number, identity, reconciled_at is not null as "isReconciled", compared_at is not null as "isCompared", lake_left_out_at as "lakeLeftOutAt",
      case when lost_after is not null and lost_up_to is not null then json_build_object('after', lost_after, 'upTo', lost_up_to) end as lost,
      case when catalogue_lost_after is not null then json_build_object('after', catalogue_lost_after, 'upTo', catalogue_lost_up_to) end
        as "catalogueLost"
    from database_incarnations
    order by number`,
  )
  return rows
}

/** How topic and lake differ from the database. */
export interface Comparison {
  publishedOrderNumber?: number
  /** The first sequence of a new topic epoch, above all sequences of earlier epochs. 0 if the epoch continues. */
  firstSequence?: number
  lost?: LostRange | null
  /** `firstSequence` and `lost` for the catalogue partition. */
  catalogueFirstSequence?: number
  catalogueLost?: LostRange | null
  isReconciled?: boolean
}

export interface Opening extends Comparison {
  /** The number of the newest incarnation that the caller has read. Null for none. */
  expected: number | null
  identity: string
  reason: string
}

/**
 * Begins the next incarnation, and advances order numbers and sequences. Returns false if another process has begun it.
 */
export async function openIncarnation(db: Queryable, { expected, identity, reason, ...comparison }: Opening): Promise<boolean> {
  const compared = argumentsOf(comparison)
  const { rows } = await db.query<{ is_opened: boolean }>(
    sql`select open_incarnation(${expected}, ${identity}, ${reason}, ${compared}) as is_opened`,
  )
  return rows[0]?.is_opened === true
}

/**
 * Completes the incarnation that a connection has begun. Returns false if another process has completed it, or a newer
 * one exists.
 */
export async function completeIncarnation(db: Queryable, number: number, comparison: Comparison): Promise<boolean> {
  const compared = argumentsOf(comparison)
  const { rows } = await db.query<{ is_completed: boolean }>(sql`select complete_incarnation(${number}, ${compared}) as is_completed`)
  return rows[0]?.is_completed === true
}

/** The arguments that both SQL functions have. */
function argumentsOf({
  publishedOrderNumber = 0,
  firstSequence = 0,
  lost = null,
  catalogueFirstSequence = 0,
  catalogueLost = null,
  isReconciled = true,
}: Comparison): Sql {
  return sql`${publishedOrderNumber}, ${firstSequence}, ${lost?.after ?? null}, ${lost?.upTo ?? null}, ${isReconciled},
    ${catalogueFirstSequence}, ${catalogueLost?.after ?? null}, ${catalogueLost?.upTo ?? null}`
}

/** Records that events are published that were not compared with the lake. */
export async function recordLakeLeftOut(db: Queryable, { number }: Pick<Incarnation, 'number'>): Promise<void> {
  await db.query(sql`update database_incarnations set lake_left_out_at = now() where number = ${number}`)
}

/**
 * Clears the records of these incarnations after the whole lake was compared. Pass incarnations read before the
 * comparison, so later records stay.
 */
export async function recordLakeCompared(db: Queryable, incarnations: readonly Incarnation[]): Promise<void> {
  for (const { number, lakeLeftOutAt } of incarnations.filter(({ lakeLeftOutAt }) => lakeLeftOutAt !== null))
    await db.query(
      sql`update database_incarnations set lake_left_out_at = null where number = ${number} and lake_left_out_at = ${lakeLeftOutAt}`,
    )
}

/**
 * Returns those event ids that are newer than all events of their product in the database. Older ids are ignored,
 * because they may have been deleted there. An id is `<product id>.<version>` or `<product id>.stock.<version>`.
 */
export async function findUnknownCatalogueEvents(db: Queryable, eventIds: readonly string[]): Promise<Set<string>> {
  if (eventIds.length === 0) return new Set()
  const { rows } = await db.query<{ event_id: string }>(
    `select event_id
    from unnest($1::text[], $2::uuid[], $3::text[], $4::bigint[]) as wanted (event_id, product_id, stream, version)
    where not exists (
      select from product_events as event
      where event.product_id = wanted.product_id and event.stream = wanted.stream and event.version >= wanted.version
    )`,
    [
      eventIds,
      eventIds.map(subjectOf),
      eventIds.map((id) => (id.includes('.stock.') ? 'stock' : 'product')),
      eventIds.map((id) => id.split('.').at(-1)),
    ],
  )
  return new Set(rows.map((row) => row.event_id))
}

/** The event's order id or product id. */
export function subjectOf(eventId: string): string {
  return eventId.split('.')[0] ?? ''
}

/** Why topic and lake must be reconciled with the database. Null if they are reconciled. */
export async function findUnreconciledReason(db: Queryable): Promise<string | null> {
  const { rows } = await db.query('select from database_incarnations where reconciled_at is null limit 1')
  return rows[0] === undefined ? null : UNRECONCILED
}

export const UNRECONCILED =
  'the database was restored to an earlier state than topic or lake have seen, and storefront replay has not compared them since'

/** Returns those event ids (`<order id>.<version>`) for which no order has the version. */
export async function findUnknownEvents(db: Queryable, eventIds: readonly string[]): Promise<Set<string>> {
  if (eventIds.length === 0) return new Set()
  const { rows } = await db.query<{ event_id: string }>(
    `select event_id
    from unnest($1::text[], $2::uuid[], $3::integer[]) as wanted (event_id, order_id, version)
    where not exists (
      select from orders
      where id = wanted.order_id and wanted.version::text in (select order_versions(orders.version, status_history))
    )`,
    [eventIds, eventIds.map((id) => id.split('.')[0]), eventIds.map((id) => Number(id.split('.')[1]))],
  )
  return new Set(rows.map((row) => row.event_id))
}

/**
 * Removes messages whose orders or versions a restore has lost, for subscribers that notify people. A topic outside the
 * database still has them, and a subscriber with a restored position reads them again.
 */
export async function removeLostEvents(db: Queryable, messages: readonly TopicMessage[]): Promise<readonly TopicMessage[]> {
  const ranges = (await listIncarnations(db)).flatMap(({ lost }) => (lost === null ? [] : [lost]))
  const isInLostRange = ({ sequence }: TopicMessage) => ranges.some(({ after, upTo }) => sequence > after && sequence <= upTo)
  const ids = messages.filter(isInLostRange).map(({ event }) => event.id)
  const unknown = await findUnknownEvents(db, ids)
  return messages.filter((message) => !isInLostRange(message) || !unknown.has(message.event.id))
}
