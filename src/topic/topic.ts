import type { Queryable } from '../db/pool.ts'
import { OperatorError } from '../errors.ts'
import type { OrderEvent } from '../orders/events.ts'

/** The CloudEvents members that the events of every partition have. */
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

/** A partition of the topic: one kind of event, with its own sequences and subscribers. */
export interface TopicPartition<E extends TopicEvent> {
  /** The partition's name, also used for the broker's stream. */
  name: 'orders' | 'catalogue'
  /** The name of an event in logs, such as `order event`. */
  eventName: string
  /** Why subscribers cannot use a message as an event. Null if they can. */
  findDefect(event: unknown): string | null
  /** The earlier events that this one contains, the oldest first. They refill a broker that has lost them. */
  earlierEvents(event: E): E[]
  /** The id of the event before this one. Null if there is none. */
  previousEventId(event: E): string | null
}

/**
 * An event to publish. `position` is the position of the change stream at the event's commit, and empty for another
 * source. A lower position is safe, because later events are then published again and dropped by their ids.
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
 * The epoch of a topic sequence. 0 is the topic in PostgreSQL, and 1, 2 … are streams of the broker. See
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

/** Proof that this process is still the one that is active for its subscriber. */
export interface Fence {
  /**
   * Throws FencedOut if another process has taken over. With a transaction, a takeover waits until the transaction ends
   * or was idle for five seconds, so the writes in it are safe. Without one, the answer may be outdated when it is
   * used.
   */
  check(tx?: Queryable): Promise<void>
}

/**
 * Handles messages in order and at least once, in batches of the messages that are available. If it throws, the same
 * messages are delivered again after a pause. `signal` aborts when the subscription stops or may have lost its lock.
 * `fence` checks the lock reliably.
 */
export type MessageHandler<E extends TopicEvent = OrderEvent> = (
  messages: TopicMessage<E>[],
  signal: AbortSignal,
  fence?: Fence,
) => Promise<void>

export interface SubscribeOptions {
  /**
   * Returns the last sequence that a subscriber has stored with its data; 0 for none. It is called at each activation.
   * If absent, the topic stores the position, and advances it when the handler returns. `restart` ends this activation
   * with that reason, also while no messages arrive.
   */
  lastSequence?: (restart: (reason: Error) => void) => Promise<number>
  /** Called once with each corrupt message. The handler never gets these: docs/decisions/topic.md. */
  onCorrupt?: (messages: readonly CorruptMessage[]) => void
}

/**
 * A reader of the topic. Among all processes' subscriptions with one name, one is active. The others are on standby. If
 * the active process dies, hangs or pauses, one of them takes over within ten seconds.
 */
export interface Subscription {
  /** The state for readiness and metrics. `standby` is healthy, `failing` is not. */
  readonly state: 'stopped' | 'standby' | 'active' | 'failing'
  /** The last attempt's error while `failing`, otherwise null. */
  readonly failure: unknown
  start(): Promise<void>
  /** Stops the subscription. Returns when the batch in flight is finished. Idempotent, safe before start. */
  stop(): Promise<void>
}

/** A partition of the notification topic. Every adapter passes `topic-conformance.ts`. */
export interface Topic<E extends TopicEvent = OrderEvent> {
  readonly partition: TopicPartition<E>
  /** Whether the topic is outside the database of the store, so a restore does not include it. */
  readonly isOutside: boolean
  /**
   * Throws if the configuration can never work. If a broker is unavailable, it returns, and later calls retry and
   * throw.
   */
  start(): Promise<void>
  stop(): Promise<void>
  /**
   * Publishes messages. Returns when all of them are durable, in the given order. Messages whose event id the topic
   * already has are dropped. If a broker loses a message in transit, only the events of each subject keep their order.
   * If it throws, some messages may be stored. Publish the same messages again; after an EventTooLarge without those
   * that are too large.
   */
  publish(messages: readonly OutgoingMessage<E>[]): Promise<void>
  /**
   * A position up to which the topic has every commit. It is that of the newest message, or a lower one. Empty if
   * unknown, for example after events from another source. Null for an empty topic.
   */
  newestPosition(): Promise<string | null>
  /** The sequence of the newest message. For an empty topic, a number below every later sequence. */
  newestSequence(): Promise<number>
  /**
   * Returns up to `limit` messages after the sequence `after`, in order. The list is empty at the end. It is for
   * commands that read the whole topic.
   */
  read(after: number, limit: number): Promise<StoredMessage[]>
  subscribe(name: string, handler: MessageHandler<E>, options?: SubscribeOptions): Subscription
}
