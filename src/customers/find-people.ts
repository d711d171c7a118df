import type { Queryable } from '../db/pool.ts'
import { allOf, literal, type Sql, sql } from '../db/sql.ts'
import { containing, resembling, type SearchText } from '../orders/search-text.ts'

/** Up to this number, all matches are read and sorted. A larger number of matches is read newest first. */
const FEW = 1_000
/** Number of newest accounts that are compared for typing errors. Comparing all takes seconds in a large shop. */
const RESEMBLING_PEOPLE = 5_000
const NEWEST_FIRST = sql`order by id desc`

export interface PeopleSearch {
  /** Whether to find similar names, for typing errors, instead of names that contain the text. */
  isResembling: boolean
  most: number
  conditions?: readonly Sql[]
}

/** The newest customers and guests that meet the conditions and whose address or name matches. */
export async function findPeople(
  db: Queryable,
  text: SearchText,
  { isResembling, most, conditions = [] }: PeopleSearch,
): Promise<string[]> {
  const people = sql`from users where ${allOf([sql`role in ('customer', 'guest')`, ...conditions])}`
  if (isResembling) {
    // Mail domains are left out: they are no names, and most people share a few.
    const match = resembling(text)(sql`user_search_words(split_part(email, '@', 1), name)`)
    if (match === null) return []
    const newest = sql`select id, email, name ${people} ${NEWEST_FIRST} limit ${literal(RESEMBLING_PEOPLE)}`
    return readIds(db, sql`select id from (${newest}) as newest where ${match} ${NEWEST_FIRST} limit ${most}`)
  }
  const match = containing(text)(sql`user_search_words(email, name)`)
  if (match === null) return []
  const matching = sql`select id ${people} and ${match}`
  const few = await readIds(db, sql`select id from (${matching} limit ${literal(FEW + 1)}) as person ${NEWEST_FIRST}`)
  return few.length <= FEW ? few.slice(0, most) : readIds(db, sql`${matching} ${NEWEST_FIRST} limit ${most}`)
}

async function readIds(db: Queryable, statement: Sql): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(statement)
  return rows.map(({ id }) => id)
}
