import type { Queryable } from './pool.ts'
import { identifier, type Sql, sql } from './sql.ts'

/** The most rows that one statement changes, so locks stay short. */
export const BATCH_ROWS = 1_000

/** Deletes at most `BATCH_ROWS` of the rows that fulfil `condition`. Returns their number. */
export async function deleteBatch(db: Queryable, table: string, condition: Sql): Promise<number> {
  const from = identifier(table)
  // A row that another transaction changes meanwhile has another ctid then, and stays.
  const batch = sql`select ctid from ${from} where ${condition} limit ${BATCH_ROWS}`
  return (await db.query(sql`delete from ${from} where ctid = any (array(${batch}))`)).rowCount ?? 0
}

/**
 * Deletes all rows that fulfil `condition`. One statement for them could take longer than a statement may, and would
 * then be undone and fail each time. Returns the number of rows.
 */
export function deleteInBatches(db: Queryable, table: string, condition: Sql): Promise<number> {
  return untilNone(() => deleteBatch(db, table, condition))
}

/** Runs a statement that changes at most `BATCH_ROWS` rows until it changes none. Returns the number of rows. */
export function inBatches(db: Queryable, statement: Sql): Promise<number> {
  return untilNone(async () => (await db.query(statement)).rowCount ?? 0)
}

/** Repeats `work`, which returns a number of rows, until there is none. Returns the sum. */
export async function untilNone(work: () => Promise<number>): Promise<number> {
  for (let total = 0; ; ) {
    const rows = await work()
    if (rows === 0) return total
    total += rows
  }
}
