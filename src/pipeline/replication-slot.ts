import type { Queryable } from '../db/pool.ts'

export const PUBLICATION = 'storefront_orders'

export type SlotState = 'ready' | 'created' | 'lost'

/** The slot of a database: names of slots are shared by the whole server, so that of the database is part of it. */
export function slotNameFor(database: string): string {
  return `${database.toLowerCase().replace(/[^a-z0-9_]/g, '_')}_orders`.slice(-63)
}

/**
 * Makes the permanent slot of the order stream while there is nothing to lose: before the first order.
 * A slot that is missing later is `lost`, and never made anew here: the changes in between would be skipped unnoticed. That is for
 * `replay/renew-slot.ts`, at an operator's command.
 */
export async function ensureReplicationSlot(db: Queryable, slotName: string): Promise<SlotState> {
  if ((await findLostReason(db, slotName)) === null) return 'ready'
  const { rows } = await db.query<{ fresh: boolean }>(
    `select not exists (select from orders) and not exists (select from topic_messages)
      and not exists (select from pg_replication_slots where slot_name = $1) as fresh`,
    [slotName],
  )
  // Another process may have made it since the first look.
  if (!rows[0]?.fresh) return (await findLostReason(db, slotName)) === null ? 'ready' : 'lost'
  try {
    await createReplicationSlot(db, slotName)
    return 'created'
  } catch (error) {
    const DUPLICATE_OBJECT = '42710'
    if ((error as { code?: string }).code === DUPLICATE_OBJECT) return 'ready'
    throw error
  }
}

/** Makes the slot at the present: it tells of every commit that a query sent after this one's answer cannot see. */
export async function createReplicationSlot(db: Queryable, slotName: string): Promise<void> {
  const { rows } = await db.query<{ failover: boolean }>(`select current_setting('server_version_num')::int >= 170000 as failover`)
  // From PostgreSQL 17 on the slot survives the promotion of a standby.
  if (rows[0]?.failover) await db.query(`select pg_create_logical_replication_slot($1, 'pgoutput', false, false, true)`, [slotName])
  else await db.query(`select pg_create_logical_replication_slot($1, 'pgoutput')`, [slotName])
}

/** Why the slot cannot give every change since its position, null when it can. */
export async function findLostReason(db: Queryable, slotName: string): Promise<string | null> {
  const { rows } = await db.query<{ wal_status: string | null }>('select wal_status from pg_replication_slots where slot_name = $1', [
    slotName,
  ])
  if (rows[0] === undefined) return `the replication slot ${slotName} does not exist`
  if (rows[0].wal_status === 'lost') return `the replication slot ${slotName} has lost its WAL`
  return null
}

/** How a slot does, for metrics. Sizes in bytes, null for a slot that is lost or missing. */
export interface SlotStatus {
  active: boolean
  /** WAL that PostgreSQL keeps for it. */
  retainedBytes: number | null
  /** WAL behind the confirmed position: what is not published yet, and what is no business of the stream. */
  lagBytes: number | null
  lostReason: string | null
}

export async function readSlotStatus(db: Queryable, slotName: string): Promise<SlotStatus> {
  const lostReason = await findLostReason(db, slotName)
  const { rows } = await db.query<Omit<SlotStatus, 'lostReason'>>(
    `select
      active,
      pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::float8 as "retainedBytes",
      pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::float8 as "lagBytes"
    from pg_replication_slots
    where slot_name = $1`,
    [slotName],
  )
  const { active = false, retainedBytes = null, lagBytes = null } = rows[0] ?? {}
  return lostReason === null ? { active, retainedBytes, lagBytes, lostReason } : { active, retainedBytes: null, lagBytes: null, lostReason }
}

/**
 * Why a standby (PostgreSQL 17 or later) could not go on with the slot if it were promoted now, null when it could. A copy that is
 * temporary has not caught up with the primary yet, and is dropped by the promotion.
 */
export async function findStandbyReason(standby: Queryable, slotName: string): Promise<string | null> {
  const { rows } = await standby.query<{ synced: boolean; temporary: boolean; invalidation_reason: string | null }>(
    'select synced, temporary, invalidation_reason from pg_replication_slots where slot_name = $1',
    [slotName],
  )
  const slot = rows[0]
  if (slot === undefined) return `the standby has no copy of the replication slot ${slotName}`
  if (slot.invalidation_reason !== null)
    return `the standby's copy of the replication slot ${slotName} is invalid: ${slot.invalidation_reason}`
  if (slot.temporary) return `the standby's copy of the replication slot ${slotName} has not caught up yet`
  return slot.synced ? null : `the replication slot ${slotName} is no copy that follows a primary`
}
