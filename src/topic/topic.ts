import type { Queryable } from '../db/pool.ts'
import { OperatorError } from '../errors.ts'
import type { OrderEvent } from '../orders/events.ts'

/** The CloudEvents members that events of every partition have. */
export interface TopicEvent {
  /** A name, a dot and the digits of `sequence`. Subscribers dedupe by this id. */
  id: string
  type: string
  /** The changed thing. Its events stay in order. */
  subject: string
  time: string
  /** The version, with leading zeros. */
  sequence: string
  traceparent?: string
}

/** A topic partition: one kind of event, with its own sequences and subscribers. */
export interface TopicPartition<E extends TopicEvent> {
  /** The partition's name, also used for the broker's stream. */
  name: 'orders' | 'catalogue'
  /** For logs, such as `order event`. */
  eventName: string
  /** Why subscribers cannot use a message as an event; null if they can. */
  findDefect(event: unknown): string | null
  /** The earlier events that this one contains, the oldest first. They refill a broker that has lost them. */
  earlierEvents(event: E): E[]
  /** The id of the last earlier event; null for none. */
  previousEventId(event: E): string | null
}

/**
 * An event to publish. `position` is the change stream's position at the event's commit; empty for another source. A
 * lower position is safe: later events are published again and dropped by event id.
 */
export interface OutgoingMessage<E extends TopicEvent = OrderEvent> {
  position: string
  event: E
}

/**
 * A topic message. `sequence` increases with each message and is never reused. A topic that was lost and recreated
 * continues in the next epoch, where events may repeat with new sequences.
 */
export interface TopicMessage<E extends TopicEvent = OrderEvent> extends StoredMessage {
  event: E
}

/** The content at a topic sequence: an event of the partition, unless another program wrote it. */
export interface StoredMessage {
  sequence: number
  event: unknown
  /** Whether the change stream published it from its slot. A replay or refill publishes late. Unknown on a broker. */
  isInTurn?: boolean
}

/** A message that is not an event of its partition. */
export interface CorruptMessage {
  sequence: number
  reason: string
}

/** Sequences per epoch. No topic has more messages, and 9,000 epochs stay below 2^53. */
export const EPOCH_SEQUENCES = 1_000_000_000_000

/**
 * The epoch of a topic sequence: 0 is the topic in PostgreSQL; 1, 2 … are the broker's streams. See
 * docs/decisions/topic.md.
 */
export function epochOf(sequence: number): number {
  return Math.floor(sequence / EPOCH_SEQUENCES)
}

/** The broker refuses the event's size until its limit is raised. */
export class EventTooLarge extends OperatorError {
  override readonly name = 'EventTooLarge'
  readonly event: TopicEvent

  constructor(event: TopicEvent, sizeBytes: number) {
    super(`the broker refuses its ${sizeBytes} bytes as too large: raise max_payload there, then run storefront replay`)
    this.event = event
  }
}

/** Another process has become the subscriber's active one. */
export class FencedOut extends Error {
  override readonly name = 'FencedOut'
}

/** Proof that this process is still its subscriber's active one. */
export interface Fence {
  /**
   * Throws FencedOut when another process has taken over. With a transaction, a takeover waits until the transaction
   * ends, or has idled for five seconds, so its writes are safe. Without one, the answer may be outdated when it is
   * used.
   */
  check(tx?: Queryable): Promise<void>
}

/**
 * Handles messages in order, at least once, in batches of the available ones. If it throws, the same messages are
 * delivered again after a pause. `signal` aborts when the subscription stops or may have lost its lock; `fence` checks
 * the lock reliably.
 */
export type MessageHandler<E extends TopicEvent = OrderEvent> = (
  messages: TopicMessage<E>[],
  signal: AbortSignal,
  fence?: Fence,
) => Promise<void>

export interface SubscribeOptions {
  /**
   * Returns the last sequence that a subscriber with its own position has stored; 0 for none. Called at each
   * activation. By default the topic stores the position and advances it when the handler returns.
   */
  lastSequence?: () => Promise<number>
  /** Called once with each corrupt message, which the handler never gets: docs/decisions/topic.md. */
  onCorrupt?: (messages: readonly CorruptMessage[]) => void
}

/**
 * A reader of the topic. Among all processes' subscriptions with one name, one is active. The others are on standby. If
 * the active process dies, hangs or pauses, one of them takes over within ten seconds.
 */
export interface Subscription {
  /** For readiness and metrics: `standby` is healthy, `failing` is not. */
  readonly state: 'stopped' | 'standby' | 'active' | 'failing'
  /** The last attempt's error while `failing`, otherwise null. */
  readonly failure: unknown
  start(): Promise<void>
  /** Returns when the in-flight batch has finished. Idempotent, safe before start. */
  stop(): Promise<void>
}

/** One partition of the notification topic. Every adapter passes `topic-conformance.ts`. */
export interface Topic<E extends TopicEvent = OrderEvent> {
  readonly partition: TopicPartition<E>
  /** Whether the topic is outside the store's database, so a restore does not include it. */
  readonly isOutside: boolean
  /** Throws when the configuration can never work. If a broker is unavailable, later calls retry and throw. */
  start(): Promise<void>
  stop(): Promise<void>
  /**
   * Returns when every message is durable, in the given order. Drops messages whose event id the topic has. If a broker
   * loses one in transit, only each subject's events keep their order. If this throws, some messages may be stored.
   * Publish the same messages again, except too large ones after an EventTooLarge.
   */
  publish(messages: readonly OutgoingMessage<E>[]): Promise<void>
  /**
   * A position up to which the topic has every commit: the newest message's, or a lower one. Empty if unknown, for
   * example after events from another source; null for an empty topic.
   */
  newestPosition(): Promise<string | null>
  /** The newest message's sequence; for an empty topic, a number below every later sequence. */
  newestSequence(): Promise<number>
  /**
   * Returns up to `limit` messages after the sequence `after`, in order; an empty list at the end. For commands that
   * read the whole topic.
   */
  read(after: number, limit: number): Promise<StoredMessage[]>
  subscribe(name: string, handler: MessageHandler<E>, options?: SubscribeOptions): Subscription
}
