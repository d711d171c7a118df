import type { Queryable } from './pool.ts'
import type { Sql } from './sql.ts'

/** The most rows that one statement changes, so locks stay short. */
export const BATCH_ROWS = 1_000

/** Batches leave out rows that another process has locked. Returns the number of rows. */
export async function inBatches(db: Queryable, statement: Sql): Promise<number> {
  for (let total = 0; ; ) {
    const { rowCount } = await db.query(statement)
    if (rowCount === null || rowCount === 0) return total
    total += rowCount
  }
}
