import { EventTooLarge, type OutgoingMessage, type Topic } from './topic.ts'

/**
 * Publishes all messages but those that the broker refuses for their size, with the later ones of their orders: an order's events come in order.
 * `onRefused` gets these before the others are published. Throws as `publish` does. Returns how many were published.
 */
export async function publishAcceptable(
  topic: Topic,
  messages: readonly OutgoingMessage[],
  onRefused: (refused: readonly OutgoingMessage[], reason: string) => Promise<void>,
): Promise<number> {
  for (let rest = messages; ; ) {
    if (rest.length === 0) return 0
    try {
      await topic.publish(rest)
      return rest.length
    } catch (error) {
      if (!(error instanceof EventTooLarge)) throw error
      // The event may be an earlier one, which the topic has lost.
      const { subject, data } = error.event
      const isRefused = ({ event }: OutgoingMessage) => event.subject === subject && event.data.order.version >= data.order.version
      const refused = rest.filter(isRefused)
      if (refused.length === 0) throw error
      await onRefused(refused, error.message)
      rest = rest.filter((message) => !isRefused(message))
    }
  }
}
