import { setTimeout as delay } from 'node:timers/promises'
import type pg from 'pg'
import type { Logger } from 'pino'
import { connectClient, type Pool, type Queryable } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import type { OrderEvent } from '../orders/events.ts'
import type { MessageHandler, OutgoingMessage, SubscribeOptions, Subscription, Topic, TopicMessage } from './topic.ts'

const CHANNEL = 'storefront_topic'
const BATCH_SIZE = 1_000
/** Notifications wake a subscriber; this makes it right even when one is lost. */
const POLL_MS = 1_000
const STANDBY_RETRY_MS = 1_000
const RETRY_MIN_MS = 200
const RETRY_MAX_MS = 10_000

export interface PostgresTopicOptions {
  pool: Pool
  /** Address of the same database, for the subscribers' own connections. */
  url: string
  logger: Logger
}

/** The notification topic as an append-only table: durable with the orders themselves, and no broker to run. */
export function createPostgresTopic({ pool, url, logger }: PostgresTopicOptions): Topic {
  return {
    async start() {},
    async stop() {},
    publish: (messages) => publish(pool, messages),
    async newestPosition() {
      const { rows } = await pool.query<{ position: string }>('select position from topic_messages order by sequence desc limit 1')
      return rows[0]?.position ?? null
    },
    read: (after, limit) => readMessages(pool, after, limit),
    subscribe: (name, handler, options = {}) => new PostgresSubscription({ pool, url, logger, name, handler, options }),
  }
}

async function publish(pool: Pool, messages: readonly OutgoingMessage[]): Promise<void> {
  await inTransaction(pool, async (tx) => {
    // One publisher at a time from number to commit: else a reader could see 8, go on, and never see 7.
    await tx.query(`select pg_advisory_xact_lock(hashtextextended('storefront topic', 0))`)
    const { rowCount } = await tx.query(
      `insert into topic_messages (id, type, subject, position, event)
      select message.id, message.type, message.subject, message.position, message.event
      from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::json[]) with ordinality
        as message (id, type, subject, position, event, ordinality)
      where not exists (select from topic_messages as stored where stored.id = message.id)
      order by message.ordinality
      on conflict (id) do nothing`,
      [
        messages.map(({ event }) => event.id),
        messages.map(({ event }) => event.type),
        messages.map(({ event }) => event.subject),
        messages.map(({ position }) => position),
        messages.map(({ event }) => JSON.stringify(event)),
      ],
    )
    if (rowCount !== 0) await tx.query(`select pg_notify('${CHANNEL}', '')`)
  })
}

async function readMessages(db: Queryable, after: number, limit: number): Promise<TopicMessage[]> {
  const { rows } = await db.query<{ sequence: number; event: OrderEvent }>(
    'select sequence, event from topic_messages where sequence > $1 order by sequence limit $2',
    [after, limit],
  )
  return rows
}

interface SubscriptionOptions extends PostgresTopicOptions {
  name: string
  handler: MessageHandler
  options: SubscribeOptions
}

/** Reads the log from the subscriber's position, as long as it holds the subscriber's session lock. */
class PostgresSubscription implements Subscription {
  readonly #options: SubscriptionOptions
  readonly #stopping = new AbortController()
  #running: Promise<void> | null = null

  constructor(options: SubscriptionOptions) {
    this.#options = options
  }

  async start(): Promise<void> {
    this.#running ??= this.#run()
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#running
  }

  async #run(): Promise<void> {
    const { logger, name } = this.#options
    const { signal } = this.#stopping
    let retryMs = RETRY_MIN_MS
    while (!signal.aborted) {
      let client: pg.Client | null = null
      try {
        client = await this.#becomeActive()
        if (client === null) break
        logger.info({ subscriber: name }, 'subscriber is active')
        await this.#consume(client, () => {
          retryMs = RETRY_MIN_MS
        })
      } catch (error) {
        if (signal.aborted) break
        logger.error({ err: error, subscriber: name, retryMs }, 'subscriber failed, will retry')
        await delay(retryMs, undefined, { signal }).catch(() => {})
        retryMs = Math.min(retryMs * 2, RETRY_MAX_MS)
      } finally {
        // Ends the session lock with it: another process may go on.
        await client?.end().catch(() => {})
      }
    }
  }

  /** A connection that holds the subscriber's lock and listens; null when stopped while standing by. */
  async #becomeActive(): Promise<pg.Client | null> {
    const { url, name } = this.#options
    const client = await connectClient(url, `storefront-${name}`)
    client.on('error', () => {})
    while (!this.#stopping.signal.aborted) {
      const { rows } = await client.query<{ locked: boolean }>('select pg_try_advisory_lock(hashtextextended($1, 0)) as locked', [
        `storefront subscriber ${name}`,
      ])
      if (rows[0]?.locked) {
        await client.query(`listen ${CHANNEL}`)
        return client
      }
      await delay(STANDBY_RETRY_MS, undefined, { signal: this.#stopping.signal }).catch(() => {})
    }
    await client.end()
    return null
  }

  async #consume(client: pg.Client, onProgress: () => void): Promise<void> {
    const { handler, options } = this.#options
    const { signal } = this.#stopping
    const bell = new Bell()
    for (const event of ['notification', 'end'] as const) client.on(event as 'end', () => bell.ring())
    let position = await (options.lastSequence?.() ?? this.#loadPosition(client))
    while (!signal.aborted) {
      bell.silence()
      const messages = await readMessages(client, position, BATCH_SIZE)
      const last = messages.at(-1)
      if (last === undefined) {
        await bell.wait(POLL_MS, signal)
        continue
      }
      await handler(messages, signal)
      position = last.sequence
      if (options.lastSequence === undefined) await this.#savePosition(client, position)
      onProgress()
    }
  }

  async #loadPosition(client: pg.Client): Promise<number> {
    const { rows } = await client.query<{ sequence: number }>('select sequence from topic_subscribers where name = $1', [
      this.#options.name,
    ])
    return rows[0]?.sequence ?? 0
  }

  async #savePosition(client: pg.Client, sequence: number): Promise<void> {
    await client.query(
      `insert into topic_subscribers (name, sequence) values ($1, $2)
      on conflict (name) do update set sequence = excluded.sequence, updated_at = now()`,
      [this.#options.name, sequence],
    )
  }
}

/** Remembers a ring that comes while nobody waits: a notification during a read is not missed. */
class Bell {
  #hasRung = false
  #wake: () => void = () => {}

  ring(): void {
    this.#hasRung = true
    this.#wake()
  }

  silence(): void {
    this.#hasRung = false
  }

  /** Returns at the next ring (at once if it rang since `silence`), after `timeoutMs`, or when `signal` aborts. */
  async wait(timeoutMs: number, signal: AbortSignal): Promise<void> {
    if (this.#hasRung || signal.aborted) return
    const wake = Promise.withResolvers<void>()
    this.#wake = wake.resolve
    const timer = setTimeout(wake.resolve, timeoutMs)
    signal.addEventListener('abort', this.#wake)
    await wake.promise
    clearTimeout(timer)
    signal.removeEventListener('abort', this.#wake)
  }
}
