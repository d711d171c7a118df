import type { Logger } from 'pino'
import { auditContextOfCommand, difference, recordActivities } from '../activity/record-activity.ts'
import type { Pool, Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import { Loop } from '../loop.ts'
import { changeCatalogue } from './change-catalogue.ts'

/** Products of one transaction, which are locked until it ends. */
const BATCH_SIZE = 200
/** A time that is entered now takes effect this much late at most. */
const POLL_MS = 2_000
/** Pause while another transaction has locked a product that is due. */
const PAUSE_MS = 100

interface ChangedState {
  is_listed: boolean
}

/** Changes products when the time has come that their schedules name. Any number of processes may run it. */
export function createScheduledChanges({ pool, logger }: { pool: Pool; logger: Logger }): Loop {
  return new Loop({
    everyMs: POLL_MS,
    async work(signal) {
      while (!signal.aborted && (await inTransaction(pool, changeNextBatch)) === BATCH_SIZE);
      return untilNextChange(pool)
    },
    onFailure(error, { isFirst }) {
      if (isFirst) logger.error({ err: error }, 'scheduled changes of products could not be made, will retry')
    },
  })
}

async function changeNextBatch(tx: Transaction): Promise<number> {
  // Waits for no other transaction with a product, so it deadlocks with none.
  const { rows } = await tx.query<{ id: string }>(
    sql`select id from products where changes_at <= now() order by changes_at limit ${BATCH_SIZE} for no key update skip locked`,
  )
  const ids = rows.map(({ id }) => id)
  await applyDueChanges(tx, ids)
  return ids.length
}

/** The milliseconds until the next change, by the clock of the database, at most `POLL_MS`. */
async function untilNextChange(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ ms: number | null }>(
    'select extract(epoch from min(changes_at) - clock_timestamp())::float8 * 1000 as ms from products where changes_at is not null',
  )
  const ms = rows[0]?.ms ?? POLL_MS
  return ms <= 0 ? PAUSE_MS : Math.min(Math.ceil(ms), POLL_MS)
}

/**
 * Makes the changes of these products that are due by the clock of the database, each with its event and its activity. Locks the products
 * that are due; the caller may have locked their stock. See docs/decisions/catalogue-schedules.md.
 */
export async function applyDueChanges(tx: Transaction, productIds: readonly string[]): Promise<void> {
  if (productIds.length === 0) return
  const { rows } = await tx.query<{ id: string }>(
    sql`select id from products where id = any(${productIds}::uuid[]) and changes_at <= clock_timestamp()`,
  )
  const ids = rows.map(({ id }) => id)
  if (ids.length === 0) return
  await changeCatalogue(tx, { ids, auditContext: null }, async () => {
    // The trigger gives them their state. Another transaction may have done it during the wait for the lock.
    const { rows: changed } = await tx.query<{ id: string; before: ChangedState; after: ChangedState }>(
      sql`update products
       set changes_at = null, updated_at = greatest(clock_timestamp(), products.updated_at + interval '1 millisecond')
       from products as before
       where before.id = products.id and products.id = any(${ids}::uuid[]) and products.changes_at <= clock_timestamp()
       returning products.id,
         json_build_object('is_listed', before.archived_at is null) as before,
         json_build_object('is_listed', products.archived_at is null) as after`,
    )
    await recordActivities(
      tx,
      auditContextOfCommand('scheduled change'),
      changed.flatMap(({ id, before, after }) => {
        const states = difference(before, after)
        return states === null ? [] : [{ subjectType: 'product' as const, subjectId: id, ...states }]
      }),
    )
    return { result: undefined, written: changed.map(({ id }) => id), activity: null }
  })
}
