import type { Queryable } from '../db/pool.ts'

/** One life of the database: a copy that is restored to an earlier state begins another one. See decision 0140. */
export interface Incarnation {
  /** 0 for the first; greater for each later one. */
  number: number
  /** Which database opened it: `<system id>.<timeline>.<oid>`. */
  identity: string
  lost: LostRange | null
  /** Whether topic and lake have been compared with it. */
  isReconciled: boolean
}

/** Sequences of the topic, behind `after` and up to `upTo`, of which some were of events that the restored database does not have. */
export interface LostRange {
  after: number
  upTo: number
}

interface IncarnationRow {
  number: number
  identity: string
  lost_after: number | null
  lost_up_to: number | null
  is_reconciled: boolean
}

/** Oldest first; none before a process of this release has looked at the database. */
export async function listIncarnations(db: Queryable): Promise<Incarnation[]> {
  const { rows } = await db.query<IncarnationRow>(
    `select number, identity, lost_after, lost_up_to, reconciled_at is not null as is_reconciled
    from database_incarnations
    order by number`,
  )
  return rows.map(({ number, identity, lost_after, lost_up_to, is_reconciled }) => ({
    number,
    identity,
    lost: lost_after === null || lost_up_to === null ? null : { after: lost_after, upTo: lost_up_to },
    isReconciled: is_reconciled,
  }))
}

/** A copy has another one, unless its files were copied, and so has a database that was recovered to a point in time or promoted. */
export async function readIdentity(db: Queryable): Promise<string> {
  const { rows } = await db.query<{ identity: string }>(
    `select (select system_identifier from pg_control_system()) || '.' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) || '.'
      || (select oid from pg_database where datname = current_database()) as identity`,
  )
  return rows[0]?.identity ?? ''
}

export interface Opening {
  /** Number of the newest incarnation that is known; null for none. */
  expected: number | null
  identity: string
  reason: string
  /** The greatest number that an order is known to have outside of the database. */
  publishedOrderNumber: number
  /** Above every sequence of the topic's earlier lives; 0 when the topic goes on. */
  firstSequence: number
  lost: LostRange | null
  isReconciled: boolean
}

/** Begins the next incarnation and moves numbers and sequences on. False when another process has done it. */
export async function openIncarnation(db: Queryable, opening: Opening): Promise<boolean> {
  const { expected, identity, reason, publishedOrderNumber, firstSequence, lost, isReconciled } = opening
  const { rows } = await db.query<{ is_opened: boolean }>('select open_incarnation($1, $2, $3, $4, $5, $6, $7, $8) as is_opened', [
    expected,
    identity,
    reason,
    publishedOrderNumber,
    firstSequence,
    lost?.after ?? null,
    lost?.upTo ?? null,
    isReconciled,
  ])
  return rows[0]?.is_opened === true
}

/** Why topic and lake have to be brought into agreement with the database, null when they are. */
export async function findUnreconciledReason(db: Queryable): Promise<string | null> {
  const { rows } = await db.query('select from database_incarnations where reconciled_at is null limit 1')
  return rows[0] === undefined ? null : UNRECONCILED
}

export const UNRECONCILED =
  'the database was restored to an earlier state than topic or lake have seen, and storefront replay has not compared them since'

/** Of event ids `<order id>.<version>` those that no order has. */
export async function findUnknownEvents(db: Queryable, eventIds: readonly string[]): Promise<Set<string>> {
  if (eventIds.length === 0) return new Set()
  const { rows } = await db.query<{ event_id: string }>(
    `select event_id
    from unnest($1::text[], $2::uuid[], $3::integer[]) as wanted (event_id, order_id, version)
    where not exists (
      select from orders
      where id = wanted.order_id and (
        orders.version = wanted.version
        or exists (
          select
          from jsonb_path_query(status_history, '$[*]') with ordinality as change (entry, place)
          where coalesce(entry ->> 'version', place::text) = wanted.version::text
        )
      )
    )`,
    [eventIds, eventIds.map((id) => id.split('.')[0]), eventIds.map((id) => Number(id.split('.')[1]))],
  )
  return new Set(rows.map((row) => row.event_id))
}
