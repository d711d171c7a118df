import type { Queryable } from '../db/pool.ts'
import { identifier, sql } from '../db/sql.ts'

export type DeadLetterTable = 'dead_letters' | 'catalogue_dead_letters'
export const ORDER_DEAD_LETTERS = 'dead_letters'
export const CATALOGUE_DEAD_LETTERS = 'catalogue_dead_letters'

/** No event can be made of the change, or the broker refuses the event for its size. */
export interface DeadLetter {
  eventId: string
  reason: string
  position: string
}

/** `storefront verify` reports each until the topic has its event. */
export async function recordDeadLetters(db: Queryable, table: DeadLetterTable, letters: readonly DeadLetter[]): Promise<void> {
  await db.query(
    sql`insert into ${identifier(table)} (event_id, reason, position)
    select distinct on (event_id) event_id, reason, position
    from unnest(
      ${letters.map(({ eventId }) => eventId)}::text[], ${letters.map(({ reason }) => reason)}::text[],
      ${letters.map(({ position }) => position)}::text[]
    ) as letter (event_id, reason, position)
    on conflict (event_id) do update set reason = excluded.reason, position = excluded.position`,
  )
}

export async function listDeadLetters(db: Queryable, table: DeadLetterTable): Promise<{ event_id: string; reason: string }[]> {
  const { rows } = await db.query<{ event_id: string; reason: string }>(
    sql`select event_id, reason from ${identifier(table)} order by event_id`,
  )
  return rows
}

export async function findDeadLetters(db: Queryable, table: DeadLetterTable, eventIds: readonly string[]): Promise<Set<string>> {
  const { rows } = await db.query<{ event_id: string }>(
    sql`select event_id from ${identifier(table)} where event_id = any(${eventIds}::text[])`,
  )
  return new Set(rows.map((row) => row.event_id))
}

// The sub-selects look up each of the few letters. A join may read the whole topic to find none.
const IS_UNPUBLISHED = sql`(select id from topic_messages where id = letter.event_id) is null
  and (
    select version from order_event_deliveries
    where order_id = split_part(letter.event_id, '.', 1)::uuid
      and version = split_part(letter.event_id, '.', 2)::integer
    limit 1
  ) is null`
const IS_UNPUBLISHED_PRODUCT = sql`(select id from catalogue_messages where id = letter.event_id) is null`

export interface ListedDeadLetter {
  event_id: string
  reason: string
  recorded_at: Date
}

/** The newest of the letters that `countDeadLetters` counts. */
export async function listNewestDeadLetters(db: Queryable, limit: number): Promise<ListedDeadLetter[]> {
  const { rows } = await db.query<ListedDeadLetter>(
    sql`select event_id, reason, recorded_at
    from dead_letters as letter
    where ${IS_UNPUBLISHED}
    union all
    select event_id, reason, recorded_at
    from catalogue_dead_letters as letter
    where ${IS_UNPUBLISHED_PRODUCT}
    order by recorded_at desc, event_id
    limit ${limit}`,
  )
  return rows
}

/** The number of changes whose events were never published. An operator must repair their rows. */
export async function countDeadLetters(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ unpublished: number }>(
    sql`select (select count(*) from dead_letters as letter where ${IS_UNPUBLISHED}) + (
      select count(*) from catalogue_dead_letters as letter where ${IS_UNPUBLISHED_PRODUCT}
    ) as unpublished`,
  )
  return rows[0]?.unpublished ?? 0
}
