import { BATCH_ROWS } from '../db/in-batches.ts'
import type { Queryable } from '../db/pool.ts'
import { sql } from '../db/sql.ts'

/** Batches of one call at most, of which all but the last had texts to mend. */
const BATCHES_WITH_WORK = 100

/**
 * Adds texts of the search that are missing, and corrects those that differ, which only writes around the triggers
 * leave. Examines a batch of orders behind `examined`, and further ones while there is something to mend: called each
 * minute, it comes to every order again and again. Returns the number of texts.
 */
export async function mendSearchTexts(db: Queryable, examined: { last: number }): Promise<number> {
  let mended = 0
  for (let batch = 0; batch < BATCHES_WITH_WORK; batch++) {
    const { rows } = await db.query<{ last: number | null; written: number }>(
      sql`select last, written from mend_order_search_texts(${examined.last}, ${BATCH_ROWS})`,
    )
    const [{ last, written } = { last: null, written: 0 }] = rows
    examined.last = last ?? 0
    mended += written
    if (last === null || written === 0) break
  }
  return mended
}
