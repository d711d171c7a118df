import type { Queryable } from '../db/pool.ts'
import type { OrderEvent } from '../orders/events.ts'

/**
 * What is published. `position` is where the change stream stood at the event's commit; empty for an event that comes from
 * elsewhere. One that is too low only costs work: what lies behind it is published again and dropped by event id.
 */
export interface OutgoingMessage {
  position: string
  event: OrderEvent
}

/**
 * A message of the topic. `sequence` grows by at least one from message to message and is never given out twice, also not by a
 * topic that was lost and made anew: that one counts on in the next epoch. Events may come again there, with new sequences.
 */
export interface TopicMessage {
  sequence: number
  event: OrderEvent
}

/** What lies on the topic at a sequence: an order event, unless something other than the store has written it. */
export interface StoredMessage {
  sequence: number
  event: unknown
}

/** One that is no order event. */
export interface CorruptMessage {
  sequence: number
  reason: string
}

/** Sequences of an epoch: more than any topic will have messages, and few enough for 9,000 epochs below 2^53. */
export const EPOCH_SEQUENCES = 1_000_000_000_000

/** Which life of the topic a sequence belongs to: 0 is the one in PostgreSQL, 1, 2 … are streams of the broker, see decision 0041. */
export function epochOf(sequence: number): number {
  return Math.floor(sequence / EPOCH_SEQUENCES)
}

/** Another process is the active one of the subscriber by now. */
export class FencedOut extends Error {
  override readonly name = 'FencedOut'
}

/** Proof that this process is still the active one of its subscriber. */
export interface Fence {
  /**
   * Throws FencedOut when another process has taken over. Given a transaction, no process takes over before that has ended (five idle
   * seconds at most), so what it writes is written in time. Without one, the answer may be old by the time it is used.
   */
  check(tx?: Queryable): Promise<void>
}

/**
 * Gets messages in order, at least once, in batches that end where the topic has no more for now. When it throws, the same messages
 * come again after a pause. `signal` aborts when the subscription stops or loses its place; `fence` tells the latter for certain.
 */
export type MessageHandler = (messages: TopicMessage[], signal: AbortSignal, fence?: Fence) => Promise<void>

export interface SubscribeOptions {
  /**
   * For a subscriber that keeps its own position: the last sequence it has stored, 0 for none, asked whenever the
   * subscription becomes active. Without it the topic keeps the position and moves it when the handler returns.
   */
  lastSequence?: () => Promise<number>
  /** Hears of messages that are no order events, once each. The handler never does: see decision 0045. */
  onCorrupt?: (messages: readonly CorruptMessage[]) => void
}

/**
 * A reader of the topic. Of all subscriptions with one name, in all processes, one is active; the others stand by, and one of them
 * takes over within ten seconds when it dies, hangs or is paused.
 */
export interface Subscription {
  /** For readiness and metrics: `standby` is well, `failing` is not. */
  readonly state: 'stopped' | 'standby' | 'active' | 'failing'
  start(): Promise<void>
  /** Ends after the batch in hand. Idempotent, safe before start. */
  stop(): Promise<void>
}

/** The notification topic. Every adapter passes `topic-conformance.ts`. */
export interface Topic {
  /** Whether it is kept elsewhere than in the store's database, and so is not restored with it. */
  readonly isOutside: boolean
  /** Throws when the topic can never work as it is set up. A broker that is away is waited for later, by whoever needs it. */
  start(): Promise<void>
  stop(): Promise<void>
  /**
   * Returns when every message is durable, and drops a message whose event id the topic has already. They are in the order given, but
   * when a broker loses one on its way only those of each order are. Throws when it cannot, and then some messages may be stored: publish
   * the same again.
   */
  publish(messages: readonly OutgoingMessage[]): Promise<void>
  /**
   * A position before which the topic has every commit: that of the newest message, or a lower one. Empty when nobody knows one, as
   * behind events that come from elsewhere; null for an empty topic.
   */
  newestPosition(): Promise<string | null>
  /** Sequence of the newest message; of an empty topic one that is below that of every message to come. */
  newestSequence(): Promise<number>
  /**
   * Up to `limit` messages behind the sequence `after`, in order, none at the end: for commands that look at the whole topic. See
   * `partitionMessages`.
   */
  read(after: number, limit: number): Promise<StoredMessage[]>
  subscribe(name: string, handler: MessageHandler, options?: SubscribeOptions): Subscription
}
