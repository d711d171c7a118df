import { findEventDefect } from '../orders/event-defects.ts'
import type { OrderEvent } from '../orders/events.ts'
import type { CorruptMessage, StoredMessage, Topic, TopicMessage } from './topic.ts'

const BATCH_SIZE = 1_000

export interface MessageBatch {
  messages: TopicMessage[]
  corrupt: CorruptMessage[]
  /** The last sequence of the batch. */
  last: number
}

/** The messages of the topic after a sequence, in order, up to the last one. */
export async function* readBatches(topic: Topic, after: number): AsyncGenerator<MessageBatch> {
  for (let position = after; ; ) {
    const stored = await topic.read(position, BATCH_SIZE)
    const last = stored.at(-1)
    if (last === undefined) return
    position = last.sequence
    yield { ...partitionMessages(stored), last: position }
  }
}

/** Separates order events from messages that are none; both stay in order. Pure. */
export function partitionMessages(stored: readonly StoredMessage[]): Pick<MessageBatch, 'messages' | 'corrupt'> {
  const messages: TopicMessage[] = []
  const corrupt: CorruptMessage[] = []
  for (const { sequence, event } of stored) {
    const reason = findEventDefect(event)
    if (reason === null) messages.push({ sequence, event: event as OrderEvent })
    else corrupt.push({ sequence, reason })
  }
  return { messages, corrupt }
}
