import { findEventDefect, type OrderEvent } from '../orders/events.ts'
import type { CorruptMessage, StoredMessage, TopicMessage } from './topic.ts'

/** Separates order events from messages that are none; both stay in order. Pure. */
export function partitionMessages(stored: readonly StoredMessage[]): { messages: TopicMessage[]; corrupt: CorruptMessage[] } {
  const messages: TopicMessage[] = []
  const corrupt: CorruptMessage[] = []
  for (const { sequence, event } of stored) {
    const reason = findEventDefect(event)
    if (reason === null) messages.push({ sequence, event: event as OrderEvent })
    else corrupt.push({ sequence, reason })
  }
  return { messages, corrupt }
}
