import type { Queryable } from '../db/pool.ts'
import { findUnknownEvents, listIncarnations } from './incarnations.ts'
import type { TopicMessage } from './topic.ts'

/**
 * Messages without those of a time that a restore has lost, for subscribers that tell people: no order has them any more. A topic outside
 * of the database keeps them, and a restored subscriber reads them again.
 */
export async function removeLostEvents(db: Queryable, messages: readonly TopicMessage[]): Promise<readonly TopicMessage[]> {
  const ranges = (await listIncarnations(db)).flatMap(({ lost }) => (lost === null ? [] : [lost]))
  const isSuspect = ({ sequence }: TopicMessage) => ranges.some(({ after, upTo }) => sequence > after && sequence <= upTo)
  const suspects = messages.filter(isSuspect)
  if (suspects.length === 0) return messages
  const unknown = await findUnknownEvents(
    db,
    suspects.map(({ event }) => event.id),
  )
  return messages.filter((message) => !isSuspect(message) || !unknown.has(message.event.id))
}
