import type pg from 'pg'
import type { Logger } from 'pino'
import { copyTexts } from '../../db/copy-rows.ts'
import { textArray } from '../../db/list-parameters.ts'
import type { Pool, Queryable, Transaction } from '../../db/pool.ts'
import { identifier, type Sql, sql } from '../../db/sql.ts'
import { inTransaction } from '../../db/transaction.ts'
import { OperatorError } from '../../errors.ts'
import { WakeSignal } from '../../wake-signal.ts'
import { LockSessions } from '../lock-session.ts'
import { type MessageSource, Subscriber } from '../subscriber.ts'
import type { OutgoingMessage, StoredMessage, Topic, TopicEvent, TopicPartition } from '../topic.ts'

const BATCH_SIZE = 1_000
/**
 * The stored, compressed size of a batch. A thousand product events in thirty languages would need a gigabyte of
 * memory.
 */
const BATCH_BYTES = 4 * 1024 * 1024
/**
 * Notifications wake a subscriber through a pinged session. This interval bounds the delay if one is lost nevertheless.
 */
const POLL_MS = 30_000

/** The topic of the store was moved to a broker. */
export class TopicMoved extends OperatorError {
  override readonly name = 'TopicMoved'
}

export interface PostgresTopicOptions {
  pool: Pool
  /** The address of the same database. */
  url: string
  logger: Logger
  /** The lock sessions, which all subscribers of this process share. By default, the partition creates its own. */
  sessions?: LockSessions
}

/** A partition's table, its epochs at a broker, its publishers' lock key, and its notification channel. */
interface Place {
  table: Sql
  epochs: Sql
  append(tx: Transaction, rows: readonly string[][]): Promise<void>
  lock: string
  channel: string
}

const PLACES: Readonly<Record<TopicPartition<TopicEvent>['name'], Place>> = {
  orders: {
    table: sql`topic_messages`,
    epochs: sql`topic_epochs`,
    append: (tx, rows) => copyTexts(tx, 'copy topic_messages (id, position, event) from stdin (format binary)', rows),
    lock: 'storefront topic',
    channel: 'storefront_topic',
  },
  catalogue: {
    table: sql`catalogue_messages`,
    epochs: sql`catalogue_epochs`,
    append: (tx, rows) => copyTexts(tx, 'copy catalogue_messages (id, position, event) from stdin (format binary)', rows),
    lock: 'storefront catalogue topic',
    channel: 'storefront_catalogue_topic',
  },
}

/**
 * A topic partition in an append-only table of the store's database. It is as durable as the orders, and needs no
 * broker.
 */
export function createPostgresTopic<E extends TopicEvent>(
  partition: TopicPartition<E>,
  { pool, url, logger, sessions = new LockSessions(url) }: PostgresTopicOptions,
): Topic<E> {
  const place = PLACES[partition.name]
  const openSource = (session: pg.Client, after: number) => readFrom(place, session, after)
  return {
    partition,
    isOutside: false,
    start: () => refuseAfterBroker(place, pool),
    async stop() {},
    publish: (messages) => publish(place, pool, messages),
    async newestPosition() {
      const { rows } = await pool.query<{ position: string }>(sql`select position from ${place.table} order by sequence desc limit 1`)
      return rows[0]?.position ?? null
    },
    async newestSequence() {
      const { rows } = await pool.query<{ sequence: number }>(sql`select coalesce(max(sequence), 0) as sequence from ${place.table}`)
      return rows[0]?.sequence ?? 0
    },
    read: (after, limit) => readMessages(place, pool, after, limit),
    subscribe: (name, handler, options = {}) => new Subscriber({ pool, sessions, logger, name, partition, handler, options, openSource }),
  }
}

// Sequences here would be below the broker's, so subscribers with a position there would skip every message.
async function refuseAfterBroker({ epochs }: Place, pool: Pool): Promise<void> {
  const { rows } = await pool.query(sql`select from ${epochs} limit 1`)
  if (rows.length > 0) throw new TopicMoved('the notification topic of this store is in NATS: set NATS_URL')
}

async function publish(place: Place, pool: Pool, messages: readonly OutgoingMessage<TopicEvent>[]): Promise<void> {
  await inTransaction(pool, async (tx) => {
    // One publisher at a time goes from sequence to commit. Otherwise a reader could see 8, continue, and never
    // see 7.
    await tx.query(sql`select pg_advisory_xact_lock(hashtextextended(${place.lock}, 0))`)
    const known = await findStored(place, tx, messages)
    const missing = messages.filter(({ event }) => !known.has(event.id) && known.add(event.id))
    if (missing.length === 0) return
    const rows = missing.map(({ event, position }) => [event.id, position, JSON.stringify(event)])
    await place.append(tx, rows)
    await tx.query(sql`select pg_notify(${place.channel}, '')`)
  })
}

async function findStored({ table }: Place, tx: Transaction, messages: readonly OutgoingMessage<TopicEvent>[]): Promise<Set<string>> {
  const { rows } = await tx.query<{ id: string }>(
    sql`select id from ${table} where id = any (${textArray(messages.map(({ event }) => event.id))})`,
  )
  return new Set(rows.map(({ id }) => id))
}

/**
 * The next messages, at least one if any exists. The bytes are limited too, so fewer than `limit` does not mean the
 * end.
 */
async function readMessages({ table }: Place, db: Queryable, after: number, limit: number): Promise<StoredMessage[]> {
  const { rows } = await db.query<StoredMessage>(
    sql`select sequence, event, position <> '' as "isInTurn"
    from (
      select sequence, position, event, sum(pg_column_size(event)) over (order by sequence) - pg_column_size(event) as bytes_before
      from (select sequence, position, event from ${table} where sequence > ${after} order by sequence limit ${limit}) as next
    ) as message
    where bytes_before < ${BATCH_BYTES}
    order by sequence`,
  )
  return rows
}

/** Reads the table after a position. The notifications of publishers wake it. */
async function readFrom(place: Place, session: pg.Client, after: number): Promise<MessageSource> {
  const wakeSignal = new WakeSignal()
  const onNotification = ({ channel }: pg.Notification) => {
    if (channel === place.channel) wakeSignal.notify()
  }
  session.on('notification', onNotification)
  await session.query(sql`listen ${identifier(place.channel)}`)
  let position = after
  // The first read does not wait, so a failed subscriber is healthy again as soon as it returns.
  let waitMs = 0
  return {
    async next(signal) {
      wakeSignal.reset()
      const messages = await readMessages(place, session, position, BATCH_SIZE)
      if (messages.length === 0) await wakeSignal.wait(waitMs, signal)
      waitMs = POLL_MS
      position = messages.at(-1)?.sequence ?? position
      return messages
    },
    async close() {
      session.off('notification', onNotification)
    },
  }
}
