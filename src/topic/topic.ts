import type { Queryable } from '../db/pool.ts'
import { OperatorError } from '../errors.ts'
import type { OrderEvent } from '../orders/events.ts'

/** What the events of every partition have: members of CloudEvents. */
export interface TopicEvent {
  /** Subscribers dedupe by it: a name, a dot and the digits of `sequence`. */
  id: string
  type: string
  /** What changed: its events stay in order. */
  subject: string
  time: string
  /** The version, with leading zeros. */
  sequence: string
  traceparent?: string
}

/** A partition of the topic: one kind of events, with sequences and subscribers of its own. */
export interface TopicPartition<E extends TopicEvent> {
  /** The name, which a broker's stream has, too. */
  name: 'orders' | 'catalogue'
  /** For logs: `order event`. */
  eventName: string
  /** Why a message is no event that subscribers can use; null when it is one. */
  findDefect(event: unknown): string | null
  /** The events before this one that it contains, oldest first, by which a broker that lost them gets them again. */
  earlierEvents(event: E): E[]
  /** The id of the last of these, null for none. */
  previousEventId(event: E): string | null
}

/**
 * An event to publish. `position` is the change stream's position at the event's commit, empty for an event from another source. A
 * position that is too low only costs work: later events are published again and dropped by event id.
 */
export interface OutgoingMessage<E extends TopicEvent = OrderEvent> {
  position: string
  event: E
}

/**
 * A message of the topic. `sequence` increases from message to message and is never used twice, not even by a topic that was lost and
 * recreated: that one continues in the next epoch. Events may be repeated there, with new sequences.
 */
export interface TopicMessage<E extends TopicEvent = OrderEvent> extends StoredMessage {
  event: E
}

/** The content of the topic at a sequence: an event of its partition, unless another program wrote it. */
export interface StoredMessage {
  sequence: number
  event: unknown
  /** Whether the change stream published it from its slot, and not a replay or a refill, which come late. A broker does not know it. */
  isInTurn?: boolean
}

/** A message that is no event of its partition. */
export interface CorruptMessage {
  sequence: number
  reason: string
}

/** Sequences per epoch: more than a topic will ever have messages, and few enough for 9,000 epochs below 2^53. */
export const EPOCH_SEQUENCES = 1_000_000_000_000

/**
 * The epoch of the topic that a sequence belongs to: 0 is the topic in PostgreSQL, 1, 2 … are streams of the broker.
 * See docs/decisions/topic.md.
 */
export function epochOf(sequence: number): number {
  return Math.floor(sequence / EPOCH_SEQUENCES)
}

/** The broker refuses an event because of its size, and will until it is configured to take more. */
export class EventTooLarge extends OperatorError {
  override readonly name = 'EventTooLarge'
  readonly event: TopicEvent

  constructor(event: TopicEvent, sizeBytes: number) {
    super(`the broker refuses its ${sizeBytes} bytes as too large: raise max_payload there, then run storefront replay`)
    this.event = event
  }
}

/** Another process has become the active one of the subscriber. */
export class FencedOut extends Error {
  override readonly name = 'FencedOut'
}

/** Proof that this process is still the active one of its subscriber. */
export interface Fence {
  /**
   * Throws FencedOut when another process has taken over. With a transaction, no process takes over before that
   * transaction has ended (after five idle seconds at most), so its writes are safe. If there is none, the answer may
   * be outdated when it is used.
   */
  check(tx?: Queryable): Promise<void>
}

/**
 * Handles messages in order, at least once, in batches of what is available. When it throws, the same messages are delivered again after
 * a pause. `signal` aborts when the subscription stops or may have lost its lock; `fence` checks the latter reliably.
 */
export type MessageHandler<E extends TopicEvent = OrderEvent> = (
  messages: TopicMessage<E>[],
  signal: AbortSignal,
  fence?: Fence,
) => Promise<void>

export interface SubscribeOptions {
  /**
   * Returns the last sequence that a subscriber with its own position has stored, 0 for none. Called each time the
   * subscription becomes active. Unless given, the topic stores the position and advances it when the handler returns.
   */
  lastSequence?: () => Promise<number>
  /**
   * Called once with each message that is no event of the partition. The handler never gets one: see
   * docs/decisions/topic.md.
   */
  onCorrupt?: (messages: readonly CorruptMessage[]) => void
}

/**
 * A reader of the topic. One of all subscriptions with one name, in all processes, is active. The others are on
 * standby, and one of them takes over within ten seconds when the active process dies, hangs or is paused.
 */
export interface Subscription {
  /** For readiness and metrics: `standby` is healthy, `failing` is not. */
  readonly state: 'stopped' | 'standby' | 'active' | 'failing'
  /** The error of the last attempt while it is `failing`, null otherwise. */
  readonly failure: unknown
  start(): Promise<void>
  /** Returns when the in-flight batch has finished. Idempotent, safe before start. */
  stop(): Promise<void>
}

/** The notification topic, or rather one partition of it. Every adapter passes `topic-conformance.ts`. */
export interface Topic<E extends TopicEvent = OrderEvent> {
  readonly partition: TopicPartition<E>
  /** Whether it is stored outside of the store's database, and so is not restored with it. */
  readonly isOutside: boolean
  /** Throws when the topic can never work with its configuration. When a broker is unavailable, later calls retry and throw. */
  start(): Promise<void>
  stop(): Promise<void>
  /**
   * Returns when every message is durable, in the given order; drops messages whose event id the topic has. If a broker
   * loses one in transit, only the events of each subject keep their order. When it throws, some may be stored: publish
   * the same messages again, except too large ones after an EventTooLarge.
   */
  publish(messages: readonly OutgoingMessage<E>[]): Promise<void>
  /**
   * A position up to which the topic has every commit: that of the newest message, or a lower one. Empty when it is unknown, as after
   * events from another source; null for an empty topic.
   */
  newestPosition(): Promise<string | null>
  /** Sequence of the newest message; for an empty topic, a number below every sequence to come. */
  newestSequence(): Promise<number>
  /**
   * Returns up to `limit` messages after the sequence `after`, in order, none at the end. For commands that read the
   * whole topic.
   */
  read(after: number, limit: number): Promise<StoredMessage[]>
  subscribe(name: string, handler: MessageHandler<E>, options?: SubscribeOptions): Subscription
}
