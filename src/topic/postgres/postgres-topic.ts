import type pg from 'pg'
import type { Logger } from 'pino'
import { copyTexts } from '../../db/copy-rows.ts'
import { textArray } from '../../db/list-parameters.ts'
import type { Pool, Queryable, Transaction } from '../../db/pool.ts'
import { identifier, sql } from '../../db/sql.ts'
import { inTransaction } from '../../db/transaction.ts'
import { OperatorError } from '../../errors.ts'
import { WakeSignal } from '../../wake-signal.ts'
import { type MessageSource, Subscriber } from '../subscriber.ts'
import type { OutgoingMessage, StoredMessage, Topic } from '../topic.ts'

const CHANNEL = 'storefront_topic'
const BATCH_SIZE = 1_000
/** Notifications wake a subscriber; this interval bounds the delay when one is lost. */
const POLL_MS = 1_000

/** The store's topic has been moved to a broker. */
export class TopicMoved extends OperatorError {
  override readonly name = 'TopicMoved'
}

export interface PostgresTopicOptions {
  pool: Pool
  /** Address of the same database, for the subscribers' own connections. */
  url: string
  logger: Logger
}

/** The notification topic as an append-only table in the store's database: as durable as the orders, without a broker. */
export function createPostgresTopic({ pool, url, logger }: PostgresTopicOptions): Topic {
  return {
    isOutside: false,
    start: () => refuseAfterBroker(pool),
    async stop() {},
    publish: (messages) => publish(pool, messages),
    async newestPosition() {
      const { rows } = await pool.query<{ position: string }>('select position from topic_messages order by sequence desc limit 1')
      return rows[0]?.position ?? null
    },
    async newestSequence() {
      const { rows } = await pool.query<{ sequence: number }>('select coalesce(max(sequence), 0) as sequence from topic_messages')
      return rows[0]?.sequence ?? 0
    },
    read: (after, limit) => readMessages(pool, after, limit),
    subscribe: (name, handler, options = {}) => new Subscriber({ pool, url, logger, name, handler, options, openSource }),
  }
}

// Sequences here would be below those of the broker's streams, so subscribers with a position there would skip every message.
async function refuseAfterBroker(pool: Pool): Promise<void> {
  const { rows } = await pool.query('select from topic_epochs limit 1')
  if (rows.length > 0) throw new TopicMoved('the notification topic of this store is in NATS: set NATS_URL')
}

async function publish(pool: Pool, messages: readonly OutgoingMessage[]): Promise<void> {
  await inTransaction(pool, async (tx) => {
    // One publisher at a time from sequence to commit: otherwise a reader could see 8, continue, and never see 7.
    await tx.query(`select pg_advisory_xact_lock(hashtextextended('storefront topic', 0))`)
    const known = await findStored(tx, messages)
    const missing = messages.filter(({ event }) => !known.has(event.id) && known.add(event.id))
    if (missing.length === 0) return
    const rows = missing.map(({ event, position }) => [event.id, position, JSON.stringify(event)])
    await copyTexts(tx, 'copy topic_messages (id, position, event) from stdin (format binary)', rows)
    await tx.query(sql`select pg_notify(${CHANNEL}, '')`)
  })
}

async function findStored(tx: Transaction, messages: readonly OutgoingMessage[]): Promise<Set<string>> {
  const { rows } = await tx.query<{ id: string }>(
    sql`select id from topic_messages where id = any (${textArray(messages.map(({ event }) => event.id))})`,
  )
  return new Set(rows.map(({ id }) => id))
}

async function readMessages(db: Queryable, after: number, limit: number): Promise<StoredMessage[]> {
  const { rows } = await db.query<StoredMessage>(
    'select sequence, event from topic_messages where sequence > $1 order by sequence limit $2',
    [after, limit],
  )
  return rows
}

/** Reads the table after a position, woken by the publishers' notifications. */
async function openSource(session: pg.Client, after: number): Promise<MessageSource> {
  const wakeSignal = new WakeSignal()
  session.on('notification', wakeSignal.notify)
  await session.query(sql`listen ${identifier(CHANNEL)}`)
  let position = after
  return {
    async next(signal) {
      wakeSignal.reset()
      const messages = await readMessages(session, position, BATCH_SIZE)
      if (messages.length === 0) await wakeSignal.wait(POLL_MS, signal)
      position = messages.at(-1)?.sequence ?? position
      return messages
    },
    async close() {
      session.off('notification', wakeSignal.notify)
    },
  }
}
