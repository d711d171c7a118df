import type { Queryable } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { Lsn } from './pgoutput.ts'

// The id of the server: see docs/decisions/change-stream-slots.md#creation-and-confirmed-positions.

const SYSTEM_ID = sql`(select system_identifier::text from pg_control_system())`
const TIMELINE = sql`('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int`

/**
 * The reason why the slot cannot be continued, such as a change by another program; null if it can. Read the position
 * before this call, because the store records a position before it confirms it.
 */
export async function findForeignChange(db: Queryable, slotName: string, confirmed: string): Promise<string | null> {
  const { rows } = await db.query<{
    position: string | null
    is_ahead: boolean | null
    is_other_system: boolean
    lost_reason: string | null
  }>(
    sql`select position, ${confirmed}::pg_lsn > position as is_ahead, split_part(log_id, '.', 1) <> ${SYSTEM_ID} as is_other_system, lost_reason
    from slot_positions
    where slot_name = ${slotName}`,
  )
  const [row] = rows
  if (row === undefined) return `the replication slot ${slotName} was not created by this store`
  if (row.lost_reason !== null) return row.lost_reason
  if (row.is_other_system) return `the replication slot ${slotName} was created on this server by something else than this store`
  if (row.is_ahead !== true) return null
  return `the replication slot ${slotName} is at ${confirmed}, but this store has read it only up to ${row.position}: something else recreated or moved it`
}

export async function findRefill(db: Queryable, slotName: string): Promise<{ id: string; reason: string } | null> {
  const { rows } = await db.query<{ id: string; reason: string }>(
    sql`select refill_id as id, refill_reason as reason from slot_positions where slot_name = ${slotName} and refill_id is not null`,
  )
  return rows[0] ?? null
}

/** Call it before the slot is dropped or created. A slot without a row remains lost until it is recreated. */
export async function recordRefill(db: Queryable, slotName: string, { id, reason }: { id: string; reason: string }): Promise<void> {
  await db.query(
    sql`insert into slot_positions (slot_name, lost_reason, refill_id, refill_reason) values (${slotName}, ${reason}, ${id}, ${reason})
    on conflict (slot_name) do update set refill_id = excluded.refill_id, refill_reason = excluded.refill_reason`,
  )
}

/** Call it when the topic has everything. False when another refill has been recorded since. */
export async function finishRefill(db: Queryable, slotName: string, id: string): Promise<boolean> {
  const { rowCount } = await db.query(
    sql`update slot_positions set refill_id = null, refill_reason = null where slot_name = ${slotName} and refill_id = ${id}`,
  )
  return rowCount === 1
}

/** Records a new slot, which delivers everything from here on. A refill publishes what it missed. */
export async function recordCreatedSlot(db: Queryable, slotName: string): Promise<void> {
  await db.query(
    sql`insert into slot_positions (slot_name, log_id, position)
    select slot_name, ${SYSTEM_ID} || '.' || ${TIMELINE}, confirmed_flush_lsn
    from pg_replication_slots
    where slot_name = ${slotName} and database = current_database()
    on conflict (slot_name) do update
    set log_id = excluded.log_id, position = excluded.position, lost_reason = null, recorded_at = now()`,
  )
}

/** Records the position of a previous release's slot. The caller occupies the slot, so nothing moves it meanwhile. */
export async function adoptSlot(db: Queryable, slotName: string): Promise<void> {
  await db.query(
    sql`update slot_positions as known
    set log_id = ${SYSTEM_ID} || '.' || ${TIMELINE}, position = slot.confirmed_flush_lsn, recorded_at = now()
    from pg_replication_slots as slot
    where slot.slot_name = known.slot_name and known.slot_name = ${slotName} and known.position is null`,
  )
}

/** Call it before the position is confirmed to the server. `logId` is `<system id>.<timeline>`. */
export async function recordPosition(db: Queryable, slotName: string, logId: string, position: Lsn): Promise<void> {
  const { rowCount } = await db.query(
    sql`update slot_positions
    set log_id = ${logId}, position = greatest(position, '0/0'::pg_lsn + ${position.toString()}::numeric), recorded_at = now()
    where slot_name = ${slotName}`,
  )
  if (rowCount === 0)
    throw new Error(`the position of the replication slot ${slotName} cannot be recorded: its row in slot_positions is gone`)
}

export async function readRecordedPosition(db: Queryable, slotName: string): Promise<string | null> {
  const { rows } = await db.query<{ position: string | null }>(sql`select position from slot_positions where slot_name = ${slotName}`)
  return rows[0]?.position ?? null
}

/** `position` was recorded before the loss was found. If it differs, the slot was recreated or read since. */
export async function recordLostSlot(db: Queryable, slotName: string, reason: string, position: string | null): Promise<void> {
  await db.query(
    sql`update slot_positions set lost_reason = ${reason}
    where slot_name = ${slotName} and position is not distinct from ${position}::pg_lsn`,
  )
}
