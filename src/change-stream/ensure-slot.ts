import type { Queryable } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { recreateBrokenSlot } from './recreate-slot.ts'
import { findForeignReason, findLostReason, untilCreated } from './replication-slot.ts'
import { readRecordedPosition, recordLostSlot } from './slot-positions.ts'

export type SlotState = 'ready' | 'created' | 'lost'

/** The database has no row that a slot could have delivered. */
const FRESH = {
  orders: sql`not exists (select from orders) and not exists (select from topic_messages)`,
  catalogue: sql`not exists (select from product_events) and not exists (select from catalogue_messages)`,
}

/** `streamUrl` is for the role that may replicate. `onSession` gets the session that may have to wait. */
export async function ensureReplicationSlot(
  db: Queryable,
  streamUrl: string,
  slotName: string,
  { what = 'orders', onSession }: { what?: keyof typeof FRESH; onSession?: (session: Queryable) => Promise<void> } = {},
): Promise<SlotState> {
  await untilCreated(db, slotName)
  if ((await findLostReason(db, slotName)) === null) return 'ready'
  if (!(await isFresh(db, slotName, what)) || (await findForeignReason(db, slotName)) !== null) {
    await untilCreated(db, slotName)
    return (await findLostReason(db, slotName)) === null ? 'ready' : 'lost'
  }
  const isCreated = await recreateBrokenSlot(db, streamUrl, slotName, { onSession })
  if (isCreated && !(await isFresh(db, slotName, what))) {
    // Meanwhile a row was added that the new slot may not deliver.
    const position = await readRecordedPosition(db, slotName)
    await recordLostSlot(db, slotName, `the replication slot ${slotName} was created after the first change`, position)
    return 'lost'
  }
  return isCreated ? 'created' : 'ready'
}

async function isFresh(db: Queryable, slotName: string, what: keyof typeof FRESH): Promise<boolean> {
  const { rows } = await db.query<{ fresh: boolean }>(
    sql`select ${FRESH[what]} and not exists (select from slot_positions where slot_name = ${slotName} and refill_id is not null) as fresh`,
  )
  return rows[0]?.fresh === true
}
