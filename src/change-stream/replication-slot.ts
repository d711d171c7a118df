import { hash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Queryable } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { sqlState, UNDEFINED_OBJECT } from '../db/sql-state.ts'
import { findForeignChange, findRefill } from './slot-positions.ts'

export const PUBLICATION = 'storefront_orders'
export const CATALOGUE_PUBLICATION = 'storefront_catalogue'

const CREATION_POLL_MS = 100
const MAX_NAME_LENGTH = 63
const HASH_LENGTH = 12

/** Names are shared by the server, so it contains the database's. An unusable name gets a hash. */
export function slotNameFor(database: string, what: 'orders' | 'catalogue' = 'orders'): string {
  const plain = `${database}_${what}`
  if (/^[a-z0-9_]+$/.test(database) && plain.length <= MAX_NAME_LENGTH) return plain
  const readable = database.toLowerCase().replace(/[^a-z0-9_]/g, '_')
  const suffix = `_${what}_${hash('sha256', database).slice(0, HASH_LENGTH)}`
  return readable.slice(0, MAX_NAME_LENGTH - suffix.length) + suffix
}

/** A new slot is visible before it delivers anything, while transactions run. Returns whether it exists. */
export async function untilCreated(db: Queryable, slotName: string, signal?: AbortSignal): Promise<boolean> {
  for (;;) {
    const { rows } = await db.query<{ is_created: boolean }>(
      sql`select confirmed_flush_lsn is not null as is_created from pg_replication_slots where slot_name = ${slotName} and slot_type = 'logical'`,
    )
    if (rows[0]?.is_created !== false) return rows.length > 0
    await delay(CREATION_POLL_MS, undefined, { signal })
  }
}

/** Creates a slot. It delivers every commit that an earlier query cannot see. */
export async function createReplicationSlot(db: Queryable, slotName: string): Promise<void> {
  const { rows } = await db.query<{ failover: boolean }>(`select current_setting('server_version_num')::int >= 170000 as failover`)
  // Since PostgreSQL 17 this slot survives a standby's promotion.
  if (rows[0]?.failover) await db.query(`select pg_create_logical_replication_slot($1, 'pgoutput', false, false, true)`, [slotName])
  else await db.query(`select pg_create_logical_replication_slot($1, 'pgoutput')`, [slotName])
}

/** The reason why the change stream cannot deliver every change since its position; null if it can. */
export async function findLostReason(db: Queryable, slotName: string): Promise<string | null> {
  const broken = await findBrokenReason(db, slotName)
  if (broken !== null) return broken
  const refill = await findRefill(db, slotName)
  return refill && `${refill.reason}; the role stream publishes what is missing`
}

/** Why the store cannot continue with this slot, or null. Ignores what was published since. */
export async function findBrokenReason(db: Queryable, slotName: string): Promise<string | null> {
  const { rows } = await db.query<{ wal_status: string | null; confirmed: string | null }>(
    sql`select wal_status, confirmed_flush_lsn as confirmed from pg_replication_slots where slot_name = ${slotName}`,
  )
  const [slot] = rows
  if (slot === undefined) return `the replication slot ${slotName} does not exist`
  const foreign = await findForeignReason(db, slotName)
  if (foreign !== null) return foreign
  if (slot.wal_status === 'lost') return `the replication slot ${slotName} has lost its WAL`
  return slot.confirmed === null ? null : findForeignChange(db, slotName, slot.confirmed)
}

/** The result is null when the slot belongs to this database, or does not exist. */
export async function findForeignReason(db: Queryable, slotName: string): Promise<string | null> {
  const { rows } = await db.query<{ database: string | null }>(
    'select database from pg_replication_slots where slot_name = $1 and database is distinct from current_database()',
    [slotName],
  )
  if (rows[0] === undefined) return null
  const { database } = rows[0]
  const owner = database === null ? 'is a physical slot of a standby' : `belongs to the database ${database}`
  return `the replication slot ${slotName} ${owner}, so this database cannot use it`
}

class SlotLost extends Error {
  override readonly name = 'SlotLost'
}

/** Throws SlotLost while the slot, or an unfinished refill of it, would hide changes that the topic lacks. */
export async function assertNotLost(db: Queryable, slotName: string): Promise<void> {
  const reason = await findLostReason(db, slotName)
  if (reason !== null) throw new SlotLost(reason)
}

/** The publication was created after a change that the slot delivers. */
export async function isOlderThanPublication(
  db: Queryable,
  { slotName, publication }: { slotName: string; publication: string },
  error: unknown,
): Promise<boolean> {
  if (sqlState(error) !== UNDEFINED_OBJECT) return false
  // A missing slot or publication has the same SQLSTATE.
  const { rows } = await db.query(
    sql`select from pg_publication, pg_replication_slots where pubname = ${publication} and slot_name = ${slotName}`,
  )
  return rows.length > 0
}

export interface SlotStatus {
  active: boolean
  retainedBytes: number | null
  /** The WAL after the confirmed position: unpublished changes, and all other writes. */
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

/** The reason against a promotion now, or null. The promotion drops a temporary copy, which has not caught up yet. */
export async function findStandbyReason(standby: Queryable, slotName: string): Promise<string | null> {
  const { rows } = await standby.query<{ synced: boolean; temporary: boolean; invalidation_reason: string | null }>(
    // Before PostgreSQL 17 a standby has neither copies of slots nor these columns.
    `select coalesce((to_jsonb(slot) ->> 'synced')::boolean, false) as synced, temporary, to_jsonb(slot) ->> 'invalidation_reason' as invalidation_reason
    from pg_replication_slots as slot where slot_name = $1`,
    [slotName],
  )
  const slot = rows[0]
  if (slot === undefined) return `the standby has no copy of the replication slot ${slotName}`
  if (slot.invalidation_reason !== null)
    return `the standby's copy of the replication slot ${slotName} is invalid: ${slot.invalidation_reason}`
  if (slot.temporary) return `the standby's copy of the replication slot ${slotName} has not caught up yet`
  return slot.synced ? null : `the replication slot ${slotName} on the standby is not synchronized from a primary`
}
