import type { Queryable } from '../db/pool.ts'
import { EPOCH_SEQUENCES, epochOf, type Topic } from './topic.ts'

/** Where a subscriber is, and how many events are behind that at most: the topic may leave sequences out. */
export interface SubscriberLag {
  position: number
  lag: number
}

/** How far a subscriber is whose position the topic keeps. Null for one that was never active. */
export async function readSubscriberLag(db: Queryable, topic: Topic, name: string): Promise<SubscriberLag | null> {
  const { rows } = await db.query<{ sequence: number | null }>('select sequence from topic_subscribers where name = $1', [name])
  const position = rows[0]?.sequence ?? null
  return position === null ? null : lagBehind(position, await topic.newestSequence())
}

/** Of what the topic held before its present epoch nothing is left to be read. */
export function lagBehind(position: number, newest: number): SubscriberLag {
  return { position, lag: Math.max(0, newest - Math.max(position, epochOf(newest) * EPOCH_SEQUENCES)) }
}
