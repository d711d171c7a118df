import type { Queryable } from '../db/pool.ts'
import { literal, sql } from '../db/sql.ts'
import type { Matching } from '../orders/search-text.ts'

/** Accounts that are read to be sorted; of more of them the newest are looked for. */
const FEW = 1_000
const WORDS = sql`user_search_words(email, name)`

/** The newest customers and guests below an id whose address or name matches. */
export async function findPeople(db: Queryable, matching: Matching, most: number, before: string | null = null): Promise<string[]> {
  const match = matching(WORDS)
  if (match === null) return []
  const people = sql`select id from users where role in ('customer', 'guest') and (${before}::uuid is null or id < ${before}::uuid) and ${match}`
  const { rows: few } = await db.query<{ id: string }>(sql`select id from (${people} limit ${literal(FEW + 1)}) as person order by id desc`)
  const { rows } =
    few.length <= FEW ? { rows: few.slice(0, most) } : await db.query<{ id: string }>(sql`${people} order by id desc limit ${most}`)
  return rows.map(({ id }) => id)
}
