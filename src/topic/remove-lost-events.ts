import type { Queryable } from '../db/pool.ts'
import { findUnknownEvents, listIncarnations } from './incarnations.ts'
import type { TopicMessage } from './topic.ts'

/**
 * Removes the messages whose orders or versions a restore has lost, for subscribers that notify people. A topic outside of the database
 * still has them, and a subscriber with a restored position reads them again.
 */
export async function removeLostEvents(db: Queryable, messages: readonly TopicMessage[]): Promise<readonly TopicMessage[]> {
  const ranges = (await listIncarnations(db)).flatMap(({ lost }) => (lost === null ? [] : [lost]))
  const isInLostRange = ({ sequence }: TopicMessage) => ranges.some(({ after, upTo }) => sequence > after && sequence <= upTo)
  const ids = messages.filter(isInLostRange).map(({ event }) => event.id)
  const unknown = await findUnknownEvents(db, ids)
  return messages.filter((message) => !isInLostRange(message) || !unknown.has(message.event.id))
}
