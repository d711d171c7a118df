import { randomUUID } from 'node:crypto'
import { recreateBrokenSlot, whileInUse } from '../../change-stream/recreate-slot.ts'
import { openReplication } from '../../change-stream/replication-connection.ts'
import { findForeignReason, PUBLICATION } from '../../change-stream/replication-slot.ts'
import type { Pool } from '../../db/pool.ts'
import { OBJECT_IN_USE, sqlState } from '../../db/sql-state.ts'
import { OperatorError } from '../../errors.ts'
import { every } from '../../loop.ts'

// Far below the wal_sender_timeout that the connection asks for.
const STATUS_INTERVAL_MS = 2_000

/** The slot cannot be recreated. The message is one line. */
class SlotUnavailable extends OperatorError {
  override readonly name = 'SlotUnavailable'
}

/** A lost slot that is being refilled. `release` without `complete` lets the change stream open the slot, but not publish. */
interface SlotRefill {
  release(): Promise<void>
  /** Call it when every change that the slot missed is on the topic: the change stream may then publish again. */
  complete(): Promise<void>
}

/**
 * Recreates a lost slot, or continues a refill that was not completed. The slot delivers every later commit; every earlier one is in
 * `orders` already. Until `complete`, a row in `slot_refills` prevents the change stream from publishing newer changes first, even if
 * this process is killed. `url` is the database's, for the role that may replicate. Throws SlotUnavailable.
 */
export async function beginRefill(pool: Pool, url: string, slotName: string, reason: string): Promise<SlotRefill> {
  const foreign = await findForeignReason(pool, slotName)
  if (foreign !== null) throw new SlotUnavailable(foreign)
  const replayId = randomUUID()
  await pool.query('insert into slot_refills (slot_name, replay_id, reason) values ($1, $2, $3) on conflict (slot_name) do nothing', [
    slotName,
    replayId,
    reason,
  ])
  const inUse = (error: unknown) => {
    if (sqlState(error) !== OBJECT_IN_USE) throw error
    throw new SlotUnavailable(`the replication slot ${slotName} is in use: stop what reads it, then run storefront replay again`)
  }
  await recreateBrokenSlot(pool, url, slotName).catch(inUse)
  const held = await holdSlot(url, slotName).catch(inUse)
  // This follows `holdSlot`: a replay that does not get the slot must not take the refill over from the one that has
  // it.
  await pool.query('update slot_refills set replay_id = $2 where slot_name = $1', [slotName, replayId])
  return {
    async complete() {
      const { rowCount } = await pool.query('delete from slot_refills where slot_name = $1 and replay_id = $2', [slotName, replayId])
      if (rowCount === 0) throw new SlotUnavailable('another storefront replay has taken the refill over: let it finish, or run it again')
    },
    release: held.release,
  }
}

/**
 * Occupies the slot, so that no other reader can open it. A change stream that opened it first closes it as soon as it sees that the
 * refill is not complete. `release` is idempotent. Throws SQLSTATE 55006 when a reader keeps it.
 */
export async function holdSlot(url: string, slotName: string): Promise<{ release(): Promise<void> }> {
  // Discards messages without confirming them, so the next reader receives them.
  const connection = await whileInUse(() => openReplication(url, slotName, () => {}, { publication: PUBLICATION }))
  connection.pause()
  const endSigns = every(STATUS_INTERVAL_MS, () => connection.confirm(0n))
  return {
    async release() {
      endSigns()
      await connection.close().catch(() => {})
    },
  }
}
