import type { Queryable } from '../db/pool.ts'
import { literal, type Sql, sql } from '../db/sql.ts'
import { containing, resembling, type SearchText } from './search-text.ts'

export interface Finders {
  /** It is null when the caller may not read accounts. */
  findPeople: ((text: SearchText, how: { isResembling: boolean; most: number }) => Promise<readonly string[]>) | null
  findProducts: (q: string, most: number) => Promise<readonly string[]>
}

interface Window {
  before: number
  most: number
}

const ALL = Number.MAX_SAFE_INTEGER
/** More matches than this are read era by era, so a page costs the same at any age. */
const FEW = 1_000
/** More matching people mean that the text is too unspecific. */
const MOST_PEOPLE = 50
const MOST_PRODUCTS = 5
/**
 * Typing errors are searched in this number of newest orders, because similar words share trigrams with many others.
 */
const RESEMBLING_ORDERS = 131_072
/** Largest number of eras that one search reads. Imported numbers can have wide gaps. */
const RESEMBLING_ERAS = 64
/** The index of `order_search_texts` contains the same number. */
const ORDERS_OF_ERA = 32_768
const ERA = literal(ORDERS_OF_ERA)
/** Number of newest texts that are read before any index. They usually fill the page for a common word. */
const NEWEST = 500

const WORDS = sql`words`

/**
 * Falls back to orders with a matching product, and then to orders with a similar name. Text with `#` finds one number.
 */
export async function findOrders(db: Queryable, text: SearchText, finders: Finders, window: { before?: number; most: number }) {
  const { before = ALL, most } = window
  for (const find of [findContaining, findByProduct, findResembling]) {
    const numbers = await find(db, text, finders, { before, most })
    // All pages use the search that found matches on the first page. A later page may be empty.
    if (numbers.length > 0 || (before !== ALL && (await find(db, text, finders, { before: ALL, most: 1 })).length > 0)) return numbers
  }
  return []
}

async function findContaining(db: Queryable, text: SearchText, { findPeople }: Finders, window: Window): Promise<number[]> {
  const numbers = text.number === null ? [] : await read(db, sql`select number from orders where number = ${text.number}::bigint`)
  if (text.q.startsWith('#')) return newest(numbers, window)
  numbers.push(...(await findTexts(db, containing(text)(WORDS), window)))
  numbers.push(...(await findByPeople(db, (await findPeople?.(text, { isResembling: false, most: MOST_PEOPLE })) ?? [], window)))
  return newest(numbers, window)
}

async function findByProduct(db: Queryable, { q }: SearchText, { findProducts }: Finders, window: Window): Promise<number[]> {
  const { before, most } = window
  // Separate selects let the planner distinguish popular products from rare ones.
  const [first, ...others] = (await findProducts(q, MOST_PRODUCTS)).map(
    (id) =>
      sql`(select number from orders where product_ids @> array[${id}::uuid] and number < ${before}::bigint order by number desc limit ${most})`,
  )
  return first === undefined
    ? []
    : newest(
        await read(
          db,
          others.reduce((all, other) => sql`${all} union all ${other}`, first),
        ),
        window,
      )
}

async function findResembling(db: Queryable, text: SearchText, { findPeople }: Finders, window: Window): Promise<number[]> {
  const match = resembling(text)(WORDS)
  if (match === null) return []
  const numbers = await findAmongNewest(db, match, window)
  if (numbers.length < window.most) {
    const [last = 0] = await read(
      db,
      sql`select number from order_search_texts order by number desc offset ${literal(RESEMBLING_ORDERS - 1)} limit 1`,
    )
    numbers.push(...(await walkEras(db, match, window, { last, eras: RESEMBLING_ERAS })))
  }
  numbers.push(...(await findByPeople(db, (await findPeople?.(text, { isResembling: true, most: MOST_PEOPLE })) ?? [], window)))
  return newest(numbers, window)
}

async function findAmongNewest(db: Queryable, match: Sql, { before }: Window): Promise<number[]> {
  return read(
    db,
    sql`select number
    from (select number, words from order_search_texts where number < ${before}::bigint order by number desc limit ${literal(NEWEST)}) as text
    where ${match}`,
  )
}

export async function findTexts(db: Queryable, match: Sql | null, window: Window): Promise<number[]> {
  if (match === null) return []
  const among = await findAmongNewest(db, match, window)
  if (among.length >= window.most) return newest(among, window)
  const few = await read(db, sql`select number from order_search_texts where ${match} limit ${literal(FEW + 1)}`)
  return newest(few.length <= FEW ? few : await walkEras(db, match, window, { last: 0, eras: null }), window)
}

async function walkEras(
  db: Queryable,
  match: Sql,
  { before, most }: Window,
  { last, eras }: { last: number; eras: number | null },
): Promise<number[]> {
  return read(
    db,
    sql`with recursive walk as (
      select (select max(number) / ${ERA} from order_search_texts where number < ${before}::bigint) as era, '{}'::bigint[] as numbers, 0 as newer
      union all
      select (select max(number) / ${ERA} from order_search_texts where number < era * ${ERA}), array(
        select number
        from order_search_texts
        where ${match} and array[number / ${ERA}] @> array[era]
          and number >= era * ${ERA} and number < least((era + 1) * ${ERA}, ${before}::bigint)
        order by number desc
        limit ${most}
      ), newer + cardinality(numbers)
      from walk
      where newer + cardinality(numbers) < ${most}::integer and era >= ${last}::bigint / ${ERA}
    )
    -- The first row has no orders.
    select unnest(numbers) as number from (select numbers from walk limit ${eras === null ? null : eras + 1}::bigint) as walked`,
  )
}

async function findByPeople(db: Queryable, ids: readonly string[], { before, most }: Window): Promise<number[]> {
  if (ids.length === 0) return []
  return read(
    db,
    sql`select newest.number
    from (select id from users where id = any(${ids}::uuid[]) or owner_id = any(${ids}::uuid[])) as person
    cross join lateral (
      select number from orders where user_id = person.id and number < ${before}::bigint order by number desc limit ${most}
    ) as newest
    order by newest.number desc
    limit ${most}`,
  )
}

async function read(db: Queryable, statement: Sql): Promise<number[]> {
  const { rows } = await db.query<{ number: number }>(statement)
  return rows.map(({ number }) => number)
}

function newest(numbers: readonly number[], { before, most }: Window): number[] {
  return [...new Set(numbers)]
    .filter((number) => number < before)
    .toSorted((a, b) => b - a)
    .slice(0, most)
}
