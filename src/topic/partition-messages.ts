import type { OrderEvent } from '../orders/events.ts'
import type { CorruptMessage, StoredMessage, Topic, TopicEvent, TopicMessage, TopicPartition } from './topic.ts'

const BATCH_SIZE = 1_000

export interface MessageBatch<E extends TopicEvent = OrderEvent> {
  messages: TopicMessage<E>[]
  corrupt: CorruptMessage[]
  /** The last sequence in the batch. */
  last: number
}

/** The topic's messages after a sequence, in order, to the end. */
export async function* readBatches<E extends TopicEvent>(topic: Topic<E>, after: number): AsyncGenerator<MessageBatch<E>> {
  for (let position = after; ; ) {
    const stored = await topic.read(position, BATCH_SIZE)
    const last = stored.at(-1)
    if (last === undefined) return
    position = last.sequence
    yield { ...partitionMessages(topic.partition, stored), last: position }
  }
}

/** Separates the partition's events from corrupt messages, each in order. Pure. */
export function partitionMessages<E extends TopicEvent>(
  { findDefect }: TopicPartition<E>,
  stored: readonly StoredMessage[],
): Pick<MessageBatch<E>, 'messages' | 'corrupt'> {
  const messages: TopicMessage<E>[] = []
  const corrupt: CorruptMessage[] = []
  for (const message of stored) {
    const reason = findDefect(message.event)
    if (reason === null) messages.push(message as TopicMessage<E>)
    else corrupt.push({ sequence: message.sequence, reason })
  }
  return { messages, corrupt }
}
