import type { Queryable } from '../db/pool.ts'
import { EPOCH_SEQUENCES, epochOf, type Topic } from './topic.ts'

/** A subscriber's position, and an upper bound of the number of events after it: the topic may skip sequences. */
export interface SubscriberLag {
  position: number
  lag: number
}

/** For a subscriber whose position the topic stores. Null for one that was never active. */
export async function readSubscriberLag(db: Queryable, topic: Topic, name: string): Promise<SubscriberLag | null> {
  const { rows } = await db.query<{ sequence: number | null }>('select sequence from topic_subscribers where name = $1', [name])
  const position = rows[0]?.sequence ?? null
  return position === null ? null : lagBehind(position, await topic.newestSequence())
}

/** Counts in the current epoch only: nothing of an earlier epoch is left to read. */
export function lagBehind(position: number, newest: number): SubscriberLag {
  return { position, lag: Math.max(0, newest - Math.max(position, epochOf(newest) * EPOCH_SEQUENCES)) }
}
