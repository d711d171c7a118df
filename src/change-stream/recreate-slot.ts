import { setTimeout as delay } from 'node:timers/promises'
import { abandonClient, connectClient, type Queryable } from '../db/pool.ts'
import { COMMAND_BOUNDS } from '../db/session-settings.ts'
import { sql } from '../db/sql.ts'
import { DUPLICATE_OBJECT, OBJECT_IN_USE, sqlState } from '../db/sql-state.ts'
import { createReplicationSlot, findBrokenReason, untilCreated } from './replication-slot.ts'
import { recordCreatedSlot } from './slot-positions.ts'

const RETRY_MS = 100
const MAX_ATTEMPTS = 100
// Creating a slot waits for all writing transactions, even those of other databases.
const BOUNDS = { ...COMMAND_BOUNDS, lock: COMMAND_BOUNDS.statement }

/**
 * Replaces a missing, lost or foreign slot. The new slot delivers every commit that is not visible yet. Returns whether
 * it was replaced. `url` is for the role that may replicate.
 */
export async function recreateBrokenSlot(
  db: Queryable,
  url: string,
  slotName: string,
  { signal, onSession }: { signal?: AbortSignal; onSession?: ((session: Queryable) => Promise<void>) | undefined } = {},
): Promise<boolean> {
  await using stream = await connectClient(url, 'storefront-slot', signal, BOUNDS)
  const abandon = () => abandonClient(stream)
  signal?.addEventListener('abort', abandon)
  try {
    await onSession?.(stream)
    return await replaceBroken(db, stream, slotName)
  } finally {
    signal?.removeEventListener('abort', abandon)
  }
}

async function replaceBroken(db: Queryable, stream: Queryable, slotName: string): Promise<boolean> {
  await untilLocked(stream, `storefront slot ${slotName}`, RETRY_MS)
  let isReplaced = false
  for (;;) {
    await untilCreated(stream, slotName)
    if ((await findBrokenReason(db, slotName)) === null) return isReplaced
    // A reader that tries to open the lost slot uses it for a moment.
    await whileInUse(() =>
      stream.query(
        sql`select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = ${slotName} and database = current_database()`,
      ),
    )
    await createReplicationSlot(stream, slotName).catch((error) => {
      // The other slot was also created after the drop, so it delivers the same.
      if (sqlState(error) !== DUPLICATE_OBJECT) throw error
    })
    await untilCreated(stream, slotName)
    await recordCreatedSlot(db, slotName)
    isReplaced = true
  }
}

/** Polls, because the holder may wait for every transaction, and so for a waiting statement. */
export async function untilLocked(session: Queryable, name: string, pauseMs: number, signal?: AbortSignal): Promise<void> {
  for (;;) {
    const { rows } = await session.query<{ is_locked: boolean }>(
      sql`select pg_try_advisory_lock(hashtextextended(${name}, 0)) as is_locked`,
    )
    if (rows[0]?.is_locked === true) return
    await delay(pauseMs, undefined, { signal })
  }
}

/** Retries for ten seconds while a process uses the slot. */
async function whileInUse<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      if (attempt === MAX_ATTEMPTS || sqlState(error) !== OBJECT_IN_USE) throw error
      await delay(RETRY_MS)
    }
  }
}
