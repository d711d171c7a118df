import type { Queryable } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { subscriberLockKey } from './lock-session.ts'
import { EPOCH_SEQUENCES, epochOf, type Topic, type TopicEvent } from './topic.ts'

/** A subscriber's position, and the largest possible number of events after it, since the topic may skip sequences. */
export interface SubscriberLag {
  position: number
  lag: number
}

/** The lag of a subscriber whose position the topic stores. Null if the subscriber was never active. */
export async function readSubscriberLag<E extends TopicEvent>(db: Queryable, topic: Topic<E>, name: string): Promise<SubscriberLag | null> {
  const { rows } = await db.query<{ sequence: number | null }>('select sequence from topic_subscribers where name = $1', [name])
  const position = rows[0]?.sequence ?? null
  return position === null ? null : lagBehind(position, await topic.newestSequence())
}

/** Records the position of a subscriber that stores its own. Old messages up to this position may be deleted. */
export async function saveStoredSequence(db: Queryable, name: string, sequence: number): Promise<void> {
  await db.query(sql`update topic_subscribers set stored_sequence = ${sequence} where name = ${name}`)
}

/** The sequence that `saveStoredSequence` has stored. 0 if there is none. */
export async function readStoredSequence(db: Queryable, name: string): Promise<number> {
  const { rows } = await db.query<{ sequence: number | null }>(
    sql`select stored_sequence as sequence from topic_subscribers where name = ${name}`,
  )
  return rows[0]?.sequence ?? 0
}

/** The stored positions by subscriber name. Null for a subscriber that stores its own. */
export async function listSubscriberPositions(db: Queryable): Promise<Map<string, number | null>> {
  const { rows } = await db.query<{ name: string; sequence: number | null }>('select name, sequence from topic_subscribers')
  return new Map(rows.map(({ name, sequence }) => [name, sequence]))
}

/** The subscribers that are active in some process, which holds their lock. */
export async function findActiveSubscribers(db: Queryable, names: readonly string[]): Promise<Set<string>> {
  const { rows } = await db.query<{ name: string }>(
    sql`select name
    from unnest(${names}::text[], ${names.map(subscriberLockKey)}::text[]) as subscriber (name, lock_key)
    where exists (
      select from pg_locks
      where locktype = 'advisory' and granted and objsubid = 1
        and database = (select oid from pg_database where datname = current_database())
        and (classid::bigint << 32 | objid::bigint) = hashtextextended(lock_key, 0)
    )`,
  )
  return new Set(rows.map((row) => row.name))
}

/** The lag of a position. It counts only in the current epoch, because earlier epochs have no messages left to read. */
export function lagBehind(position: number, newest: number): SubscriberLag {
  return { position, lag: Math.max(0, newest - Math.max(position, epochOf(newest) * EPOCH_SEQUENCES)) }
}
