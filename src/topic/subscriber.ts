import { setTimeout as delay } from 'node:timers/promises'
import type pg from 'pg'
import type { Logger } from 'pino'
import type { Pool } from '../db/pool.ts'
import { type Failure, Loop } from '../loop.ts'
import type { LockSession, LockSessions } from './lock-session.ts'
import { partitionMessages } from './partition-messages.ts'
import {
  type Fence,
  FencedOut,
  type MessageHandler,
  type StoredMessage,
  type SubscribeOptions,
  type Subscription,
  type TopicEvent,
  type TopicMessage,
  type TopicPartition,
} from './topic.ts'

const STANDBY_RETRY_MS = 1_000
const RETRY_MIN_MS = 200
const RETRY_MAX_MS = 10_000

/** The topic has newer messages that the broker's consumer does not deliver, without reporting an error. */
export class SourceStalled extends Error {
  override readonly name = 'SourceStalled'
}

/** An adapter's reader of the messages after one position. */
export interface MessageSource {
  /**
   * The next messages in order. The list is empty if none came for some seconds, or `signal` aborts. Throws
   * SourceStalled.
   */
  next(signal: AbortSignal): Promise<StoredMessage[]>
  close(): Promise<void>
}

export interface SubscriberOptions<E extends TopicEvent> {
  pool: Pool
  /** Sessions on the same database. */
  sessions: LockSessions
  logger: Logger
  name: string
  partition: TopicPartition<E>
  handler: MessageHandler<E>
  options: SubscribeOptions
  /**
   * Opens a reader of the messages after `after`. It may use `session` for reading, which ends with the lock of the
   * subscriber.
   */
  openSource(session: pg.Client, after: number): Promise<MessageSource>
}

/**
 * A subscription of any adapter. It is active while this process's session in PostgreSQL holds the subscriber's lock.
 * Each activation gets a greater fencing number, so an earlier holder's writes are refused.
 */
export class Subscriber<E extends TopicEvent> implements Subscription {
  readonly #options: SubscriberOptions<E>
  readonly #loop: Loop
  /** The session with the lock. After a failure it is kept during the pause, so other processes stay on standby. */
  #session: Session | null = null
  #state: Subscription['state'] = 'stopped'
  #failure: unknown = null
  /** Corrupt messages up to this sequence were reported. They arrive again if the handler fails. */
  #reportedUpTo = 0
  /** Stays true until a message arrives, because a stalled source reopens without an error. */
  #isStalled = false

  constructor(options: SubscriberOptions<E>) {
    this.#options = options
    this.#loop = new Loop({
      ...{ everyMs: 0, retryMs: RETRY_MIN_MS, retryMaxMs: RETRY_MAX_MS },
      work: (signal, well) => this.#beActive(signal, well),
      onFailure: (error, failure) => this.#report(error, failure),
    })
  }

  get state(): Subscription['state'] {
    return this.#state
  }

  get failure(): unknown {
    return this.#state === 'failing' ? this.#failure : null
  }

  start(): Promise<void> {
    return this.#loop.start()
  }

  async stop(): Promise<void> {
    await this.#loop.stop()
    await this.#release()
    this.#state = 'stopped'
  }

  /** Waits for the lock of the subscriber, then consumes messages until the lock is lost. */
  async #beActive(signal: AbortSignal, well: () => void): Promise<void> {
    await this.#release()
    if (this.#state === 'stopped') this.#state = 'standby'
    const session = await this.#becomeActive(signal)
    if (session === null) return
    this.#session = session
    this.#options.logger.info({ subscriber: this.#options.name }, 'subscriber is active')
    // A failed subscriber is healthy again only after the messages were handled.
    if (this.#state === 'standby') this.#state = 'active'
    await this.#consume(session, signal, well)
  }

  async #release(): Promise<void> {
    const session = this.#session
    this.#session = null
    await session?.close()
  }

  #report(error: unknown, { retryMs }: Failure): void {
    const { logger, name } = this.#options
    this.#isStalled ||= error instanceof SourceStalled
    // The process that took over is working, and this one is its standby.
    this.#state = error instanceof FencedOut ? 'standby' : 'failing'
    this.#failure = error
    if (error instanceof SessionLost || error instanceof FencedOut) logger.warn({ subscriber: name, retryMs }, error.message)
    else logger.error({ err: error, subscriber: name, retryMs }, 'subscriber failed, will retry')
  }

  /** Returns the session that holds the lock of the subscriber. Null if it was stopped while on standby. */
  async #becomeActive(signal: AbortSignal): Promise<Session | null> {
    const { sessions, name, partition, options } = this.#options
    const locks = sessions.join()
    try {
      while (!signal.aborted) {
        if (await locks.tryLock(name, signal)) return await Session.open(locks, name, partition.name, options.lastSequence === undefined)
        this.#state = 'standby'
        await delay(STANDBY_RETRY_MS, undefined, { signal }).catch(() => {})
      }
    } catch (error) {
      await locks.leave(name)
      throw error
    }
    await locks.leave(name)
    return null
  }

  async #consume(session: Session, stopping: AbortSignal, onProgress: () => void): Promise<void> {
    const { handler, options, pool, openSource } = this.#options
    const restart = new AbortController()
    const signal = AbortSignal.any([stopping, session.lost, restart.signal])
    const fence: Fence = { check: (tx) => session.checkFence(tx ?? pool) }
    const position = await (options.lastSequence?.((reason) => restart.abort(reason)) ?? session.position)
    const source = await openSource(await session.locks.client, position)
    try {
      while (!signal.aborted) {
        const stored = await source.next(signal)
        const last = stored.at(-1)
        const messages = this.#removeCorrupt(stored)
        if (messages.length > 0) await handler(messages, signal, fence)
        this.#isStalled &&= last === undefined
        if (!this.#isStalled) this.#state = 'active'
        if (last === undefined) continue
        if (options.lastSequence === undefined) await session.savePosition(last.sequence)
        onProgress()
      }
    } finally {
      await source.close().catch(() => {})
    }
    if (session.lost.aborted) throw new SessionLost()
    restart.signal.throwIfAborted()
  }

  /** Logs each corrupt message once and removes it. It stays on the topic, where `storefront verify` finds it. */
  #removeCorrupt(stored: readonly StoredMessage[]): TopicMessage<E>[] {
    const { name, logger, options, partition } = this.#options
    const { messages, corrupt } = partitionMessages(partition, stored)
    const unreported = corrupt.filter(({ sequence }) => sequence > this.#reportedUpTo)
    for (const { sequence, reason } of unreported)
      logger.error({ subscriber: name, sequence, reason }, `a message of the topic is no ${partition.eventName} and is left out`)
    if (unreported.length > 0) options.onCorrupt?.(unreported)
    this.#reportedUpTo = Math.max(this.#reportedUpTo, corrupt.at(-1)?.sequence ?? 0)
    return messages
  }
}

/** The server ended a subscriber's session, intentionally or not. The subscriber resumes at its position. */
class SessionLost extends Error {
  constructor() {
    super('the session of the subscriber was ended, as by a repair or a restart of the database; it opens another one')
  }
}

/** A subscriber's active period: its lock and its fencing number. */
class Session {
  readonly #name: string
  readonly #fence: number
  readonly #fencedOut = new AbortController()
  readonly locks: LockSession
  /** The position of the subscriber when this process became active. */
  readonly position: number
  /** Aborts when the lock may be lost. */
  readonly lost: AbortSignal

  private constructor(locks: LockSession, name: string, fence: number, position: number) {
    this.locks = locks
    this.#name = name
    this.#fence = fence
    this.position = position
    this.lost = AbortSignal.any([locks.lost, this.#fencedOut.signal])
  }

  static async open(locks: LockSession, name: string, partition: string, keepsPosition: boolean): Promise<Session> {
    const client = await locks.client
    const { rows } = await client.query<{ fence: number; sequence: number | null }>(
      `insert into topic_subscribers as subscriber (name, sequence, fence, partition) values ($1, $2, 1, $3)
      on conflict (name) do update set fence = subscriber.fence + 1
      returning fence, sequence`,
      [name, keepsPosition ? 0 : null, partition],
    )
    return new Session(locks, name, rows[0]?.fence ?? Number.NaN, rows[0]?.sequence ?? 0)
  }

  async savePosition(sequence: number): Promise<void> {
    const client = await this.locks.client
    const { rowCount } = await client.query('update topic_subscribers set sequence = $3 where name = $1 and fence = $2', [
      this.#name,
      this.#fence,
      sequence,
    ])
    if (rowCount !== 1) throw this.#becomeFencedOut()
  }

  async checkFence(db: Pick<pg.ClientBase, 'query'>): Promise<void> {
    // The row lock delays a takeover. The timeout releases it if this process pauses inside its transaction.
    const { rowCount } = await db.query(
      `select set_config('idle_in_transaction_session_timeout', '5s', true)
      from topic_subscribers
      where name = $1 and fence = $2
      for share`,
      [this.#name, this.#fence],
    )
    if (rowCount !== 1) throw this.#becomeFencedOut()
  }

  close(): Promise<void> {
    return this.locks.leave(this.#name)
  }

  #becomeFencedOut(): FencedOut {
    this.#fencedOut.abort()
    return new FencedOut(`another process has taken over the subscriber ${this.#name}`)
  }
}
