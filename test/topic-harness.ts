import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { OrderEvent } from '../src/orders/events.ts'
import { subscriberLockKey } from '../src/topic/lock-session.ts'
import type {
  MessageHandler,
  OutgoingMessage,
  StoredMessage,
  SubscribeOptions,
  Subscription,
  Topic,
  TopicMessage,
} from '../src/topic/topic.ts'
import { onCleanup } from './cleanup.ts'
import type { TestDatabase } from './database.ts'
import { eventually } from './eventually.ts'
import { makeOrderEvent } from './order-event-factory.ts'

/** An empty topic, and the faults that a test can cause in it. */
export interface TopicUnderTest {
  topic: Topic
  /** Another topic object on the same messages, as another process would have it. */
  connect(): Promise<Topic>
  /** Breaks the connection of the active subscription of this name, from the broker's side. */
  breakConnection(subscriber: string): Promise<void>
  /**
   * Makes the storage of the messages unavailable to all clients until `mendBroker`, which restores it with its
   * content.
   */
  breakBroker(): Promise<void>
  mendBroker(): Promise<void>
  /** Puts a foreign message on the topic. `event` is a JSON text. */
  inject(id: string, event: string): Promise<void>
}

export type MakeTopic = (t: TestContext) => Promise<TopicUnderTest>

/** `count` messages of one order each, at increasing positions. */
export function makeOutgoing(count: number, from = 1): OutgoingMessage[] {
  return Array.from({ length: count }, (_, index) => ({
    position: `1/${(from + index).toString(16).padStart(16, '0')}`,
    event: makeOrderEvent({ order: { number: `SF-${from + index}` } }),
  }))
}

export const idsOf = (messages: readonly (OutgoingMessage | StoredMessage)[]): string[] =>
  messages.map(({ event }) => (event as OrderEvent).id)

/** Ends, from the database's side, the connection that holds the lock of the active subscription of this name. */
export async function endSubscriberConnection(db: TestDatabase, subscriber: string): Promise<void> {
  const { rowCount } = await db.pool.query(
    `select pg_terminate_backend(pid)
    from pg_locks
    where locktype = 'advisory' and granted and database = (select oid from pg_database where datname = $1)
      and (classid::bigint << 32 | objid::bigint) = hashtextextended($2, 0)`,
    [db.name, subscriberLockKey(subscriber)],
  )
  assert.equal(rowCount, 1)
}

/** The messages that a handler received. */
export class Recording {
  readonly messages: TopicMessage[] = []
  readonly handle: MessageHandler = async (messages) => void this.messages.push(...messages)

  get ids(): string[] {
    return idsOf(this.messages)
  }

  async until(count: number): Promise<void> {
    await eventually(async () => this.messages.length >= count, { what: `${count} messages` })
  }
}

/** Blocks a handler until the gate opens. */
export class Gate {
  readonly #entered = Promise.withResolvers<void>()
  readonly #open = Promise.withResolvers<void>()
  readonly entered = this.#entered.promise
  readonly open = this.#open.resolve

  async pass(): Promise<void> {
    this.#entered.resolve()
    await this.#open.promise
  }
}

/**
 * A gate that opens after the test. Create it before anything that must be stopped: `t.after` runs in order of
 * registration.
 */
export function makeGate(t: TestContext): Gate {
  const gate = new Gate()
  t.after(() => gate.open())
  return gate
}

export async function subscribe(
  t: TestContext,
  topic: Topic,
  name: string,
  handler: MessageHandler,
  options?: SubscribeOptions,
): Promise<Subscription> {
  const subscription = topic.subscribe(name, handler, options)
  onCleanup(t, () => subscription.stop())
  await subscription.start()
  return subscription
}
