import { EventTooLarge, type OutgoingMessage, type Topic, type TopicEvent } from './topic.ts'

/**
 * Publishes all messages except events too large for the broker and their later versions, since each subject's events
 * come in order. `onRefused` gets these first. Throws like `publish`. Returns the number of published messages.
 */
export async function publishAcceptable<E extends TopicEvent>(
  topic: Topic<E>,
  messages: readonly OutgoingMessage<E>[],
  onRefused: (refused: readonly OutgoingMessage<E>[], reason: string) => Promise<void>,
): Promise<number> {
  for (let rest = messages; ; ) {
    if (rest.length === 0) return 0
    try {
      await topic.publish(rest)
      return rest.length
    } catch (error) {
      if (!(error instanceof EventTooLarge)) throw error
      // The event may be an earlier one that the topic has lost.
      const { id, sequence } = error.event
      const isRefused = ({ event }: OutgoingMessage<E>) => namedBy(event.id) === namedBy(id) && event.sequence >= sequence
      const refused = rest.filter(isRefused)
      if (refused.length === 0) throw error
      await onRefused(refused, error.message)
      rest = rest.filter((message) => !isRefused(message))
    }
  }
}

/** An event id without its version. */
function namedBy(eventId: string): string {
  return eventId.slice(0, eventId.lastIndexOf('.'))
}
