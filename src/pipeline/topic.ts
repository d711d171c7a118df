import type { OrderEvent } from '../orders/events.ts'

/** What the order stream handler publishes. `position` is where the change stream stood at the event's commit. */
export interface OutgoingMessage {
  position: string
  event: OrderEvent
}

/** A message of the topic. `sequence` grows by at least one from message to message and is never given out twice. */
export interface TopicMessage {
  sequence: number
  event: OrderEvent
}

/**
 * Gets messages in order, at least once, in batches that end where the topic has no more for now.
 * When it throws, the same messages come again after a pause. `signal` aborts when the subscription stops.
 */
export type MessageHandler = (messages: TopicMessage[], signal: AbortSignal) => Promise<void>

export interface SubscribeOptions {
  /**
   * For a subscriber that keeps its own position: the last sequence it has stored, 0 for none, asked whenever the
   * subscription becomes active. Without it the topic keeps the position and moves it when the handler returns.
   */
  lastSequence?: () => Promise<number>
}

/** A reader of the topic. Of all subscriptions with one name, in all processes, one is active; the others stand by. */
export interface Subscription {
  start(): Promise<void>
  /** Ends after the batch in hand. Idempotent, safe before start. */
  stop(): Promise<void>
}

/** The notification topic. Every adapter passes `topic-conformance.ts`. */
export interface Topic {
  start(): Promise<void>
  stop(): Promise<void>
  /**
   * Returns when every message is durable, in the order given; drops a message whose event id the topic has already.
   * Throws when it cannot, and then some of the first messages may be stored: publish the same again.
   */
  publish(messages: readonly OutgoingMessage[]): Promise<void>
  /** Position of the newest message, null for an empty topic. */
  newestPosition(): Promise<string | null>
  /** Up to `limit` messages behind the sequence `after`, in order, none at the end: for commands that look at the whole topic. */
  read(after: number, limit: number): Promise<TopicMessage[]>
  subscribe(name: string, handler: MessageHandler, options?: SubscribeOptions): Subscription
}
