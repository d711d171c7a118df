import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { OrderEvent } from '../src/orders/events.ts'
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

/** A topic that is empty at first, and what a test does to it from outside. */
export interface TopicUnderTest {
  topic: Topic
  /** Another topic object on the same messages, as another process would have it. */
  connect(): Promise<Topic>
  /** Breaks the connection of the active subscription of this name, from the broker's side. */
  breakConnection(subscriber: string): Promise<void>
  /** Takes away what stores the messages, for everybody, until `mendBroker` gives it back with what it had stored. */
  breakBroker(): Promise<void>
  mendBroker(): Promise<void>
  /** Puts a message on the topic that is none of the store's. `event` is a JSON text. */
  inject(id: string, event: string): Promise<void>
}

export type MakeTopic = (t: TestContext) => Promise<TopicUnderTest>

/** `count` messages of as many orders, at positions that grow. */
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
  // Of several, the one that holds the subscriber's lock.
  const { rowCount } = await db.pool.query(
    `select pg_terminate_backend(pid) from pg_stat_activity join pg_locks using (pid)
    where datname = $1 and application_name = $2 and locktype = 'advisory' and granted`,
    [db.name, `storefront-${subscriber}`],
  )
  assert.equal(rowCount, 1)
}

/** What a handler was given. */
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

/** Holds a handler until it is let go. */
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

/** A gate that is open after the test. Make it before anything that must be stopped: `t.after` runs first in, first out. */
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
