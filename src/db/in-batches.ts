import type { Queryable } from './pool.ts'
import type { Sql } from './sql.ts'

/** The rows that one statement changes at most, so that no lock lasts. */
export const BATCH_ROWS = 1_000

/**
 * Repeats a statement that changes at most `BATCH_ROWS` rows until it finds none: rows that another process has locked
 * are left out of a batch. Returns the number of rows.
 */
export async function inBatches(db: Queryable, statement: Sql): Promise<number> {
  for (let total = 0; ; ) {
    const { rowCount } = await db.query(statement)
    if (rowCount === null || rowCount === 0) return total
    total += rowCount
  }
}
