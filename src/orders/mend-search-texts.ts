import { BATCH_ROWS } from '../db/in-batches.ts'
import type { Queryable } from '../db/pool.ts'
import { sql } from '../db/sql.ts'

const BATCHES_WITH_WORK = 100

/** Corrects texts that writes around the triggers have left wrong. One call per minute visits all orders in turn. */
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
