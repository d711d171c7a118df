import { setTimeout as delay } from 'node:timers/promises'
import {
  AckPolicy,
  DeliverPolicy,
  DiscardPolicy,
  type MsgRequest,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
  type StreamInfo,
} from '@nats-io/jetstream'
import { nanos } from '@nats-io/transport-node'
import type { Logger } from 'pino'
import type { Pool, Queryable } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { inTransaction } from '../../db/transaction.ts'
import { OperatorError } from '../../errors.ts'
import { EPOCH_SEQUENCES, type TopicEvent, type TopicPartition } from '../topic.ts'
import { type Jetstream, jetstreamErrorCode } from './connection.ts'

export const STREAM_NOT_FOUND = 10_059
const STREAM_NAME_IN_USE = 10_058
const DUPLICATE_WINDOW_MS = 120_000
/** A leader that is cut off from the other servers steps down within this time. */
const LEADER_PATIENCE_MS = 10_000

export interface StreamOptions {
  pool: Pool
  logger: Logger
  partition: TopicPartition<TopicEvent>['name']
  /** The name in lower case. The stream has it in capitals, and its subjects are `<name>.<event id>`. */
  name: string
  replicas: number
}

/** A partition's tables: its epochs, and its messages from its time in PostgreSQL. */
const TABLES = {
  orders: { epochs: sql`topic_epochs`, messages: sql`topic_messages`, refill: sql`` },
  // The change stream then fills the stream again.
  catalogue: { epochs: sql`catalogue_epochs`, messages: sql`catalogue_messages`, refill: sql`, refilled_at = null` },
} as const

export interface TopicStream {
  name: string
  /** A topic sequence is `base` plus a stream sequence. */
  base: number
  info: StreamInfo
}

/** The settings that prevent lost and duplicate messages. Operators choose all others. */
function requiredSettings(name: string) {
  return {
    subjects: [`${name}.>`],
    storage: StorageType.File,
    retention: RetentionPolicy.Limits,
    // A full stream must refuse messages, so publishing stops and PostgreSQL retains its log. The other policy drops
    // the oldest messages.
    discard: DiscardPolicy.New,
    // Each event has its own subject, which can have one message. The server therefore refuses a duplicate however late
    // it arrives.
    max_msgs_per_subject: 1,
    discard_new_per_subject: true,
    // The server would delete messages that a slow or new subscriber has not read.
    max_age: 0,
  } satisfies Partial<StreamConfig>
}

/**
 * Creates the stream, or checks that the existing one keeps every message once. Throws StreamMisconfigured otherwise.
 */
export async function openStream(jetstream: Jetstream, options: StreamOptions): Promise<TopicStream> {
  const info = await ensureStream(jetstream, options)
  return { name: info.config.name, info, base: (await registerEpoch(jetstream, info, options)) * EPOCH_SEQUENCES }
}

/** The stream that `openStream` has opened before. Changes nothing, and throws if no process has opened it. */
export async function findStream(
  { manager }: Jetstream,
  { pool, name, partition }: Pick<StreamOptions, 'pool' | 'name' | 'partition'>,
): Promise<TopicStream> {
  const info = await manager.streams.info(name.toUpperCase()).catch((error) => {
    if (jetstreamErrorCode(error) !== STREAM_NOT_FOUND) throw error
    throw new Error(`there is no stream ${name.toUpperCase()}: the change stream creates it when it starts`, { cause: error })
  })
  const epoch = await findEpoch(pool, partition, info)
  if (epoch === undefined) throw new Error(`the stream ${info.config.name} is new: the change stream has not opened it yet`)
  return { name: info.config.name, info, base: epoch * EPOCH_SEQUENCES }
}

/** The existing stream has settings that can lose messages. */
export class StreamMisconfigured extends OperatorError {
  override readonly name = 'StreamMisconfigured'
}

/** The stream was recreated or went back after it was opened, so its sequences belong to another epoch. */
export class StreamRecreated extends Error {
  override readonly name = 'StreamRecreated'

  constructor(stream: string) {
    super(`the stream ${stream} was recreated, or has lost its newest messages`)
  }
}

async function ensureStream(jetstream: Jetstream, { name, replicas, logger }: StreamOptions): Promise<StreamInfo> {
  const { streams } = jetstream.manager
  const streamName = name.toUpperCase()
  const required = requiredSettings(name)
  let info: StreamInfo
  try {
    info = await streams.info(streamName)
  } catch (error) {
    if (jetstreamErrorCode(error) !== STREAM_NOT_FOUND) throw error
    try {
      info = await streams.add({
        ...required,
        name: streamName,
        num_replicas: replicas,
        allow_direct: true,
        duplicate_window: nanos(DUPLICATE_WINDOW_MS),
      })
      logger.info({ stream: streamName, replicas }, 'created the stream of the notification topic')
    } catch (addError) {
      // Another process has created it in between.
      if (jetstreamErrorCode(addError) !== STREAM_NAME_IN_USE) throw addError
      info = await streams.info(streamName)
    }
  }
  const wrong = findMisconfiguration(info, name)
  if (wrong !== null) throw new StreamMisconfigured(wrong)
  if (info.config.num_replicas < replicas) {
    logger.info({ stream: streamName, from: info.config.num_replicas, to: replicas }, 'the stream gets more replicas')
    info = await streams.update(streamName, { num_replicas: replicas })
  }
  return info
}

/** The settings that the stream must have to store every message once. Null if it has them. */
export function findMisconfiguration(info: StreamInfo, name: string): string | null {
  const config = info.config as unknown as Record<string, unknown>
  const wrong = Object.entries(requiredSettings(name)).filter(([key, value]) => JSON.stringify(config[key]) !== JSON.stringify(value))
  if (wrong.length === 0) return null
  return `the NATS stream ${info.config.name} must have ${wrong.map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(', ')}`
}

/**
 * A recreated stream counts from 1 again, so it needs a new epoch. Its creation time identifies it. A stream that went
 * back gives sequences again that subscribers have passed, so it needs a new epoch too.
 */
async function registerEpoch(jetstream: Jetstream, info: StreamInfo, options: StreamOptions): Promise<number> {
  const { pool, logger, partition } = options
  const { epochs, messages, refill } = TABLES[partition]
  const known = await findEpoch(pool, partition, info)
  if (known !== undefined && !(await hasGoneBack(jetstream, info, known * EPOCH_SEQUENCES, options))) return known
  return inTransaction(pool, async (tx) => {
    await tx.query(sql`lock table ${epochs} in share row exclusive mode`)
    const found = await findEpoch(tx, partition, info)
    if (found !== undefined && found !== known) return found
    const stream = identify(info)
    const { rows: added } = await tx.query<{ epoch: number }>(
      sql`insert into ${epochs} (epoch, stream)
      select greatest(
        coalesce(max(epoch), 0),
        -- Restoring the database begins an epoch of a topic in PostgreSQL, too.
        (select coalesce(max(sequence), 0) / ${EPOCH_SEQUENCES} from ${messages}),
        (select coalesce(max(sequence), 0) / ${EPOCH_SEQUENCES} from topic_subscribers where partition = ${partition})
      ) + 1, ${stream} from ${epochs}
      on conflict (stream) do update set epoch = excluded.epoch, started_at = now() ${refill}
      returning epoch`,
    )
    const epoch = added[0]?.epoch ?? Number.NaN
    if (epoch > 1) {
      const remedy =
        partition === 'orders' ? 'storefront replay publishes its events again' : 'the change stream publishes its events again'
      const what = known === undefined ? 'was lost and recreated' : 'has lost its newest messages'
      logger.error({ stream, epoch }, `the stream of the notification topic ${what}: ${remedy}`)
    }
    return epoch
  })
}

/**
 * Whether a subscriber has read messages beyond the end of the stream, as after a server lost its newest ones or an
 * operator restored the stream. Deleting messages does not lower the end.
 */
async function hasGoneBack(
  { manager }: Jetstream,
  { config }: StreamInfo,
  base: number,
  { pool, partition }: StreamOptions,
): Promise<boolean> {
  const { rows } = await pool.query<{ newest: number | null }>(
    sql`select greatest(max(sequence), max(stored_sequence)) as newest from topic_subscribers where partition = ${partition}`,
  )
  const newest = rows[0]?.newest ?? 0
  // The stream is asked after the subscribers, because they continue meanwhile.
  const isBeyond = async () => newest > base + (await manager.streams.info(config.name)).state.last_seq
  if (!(await isBeyond())) return false
  if (config.num_replicas === 1) return true
  await delay(LEADER_PATIENCE_MS)
  return isBeyond()
}

async function findEpoch(db: Queryable, partition: StreamOptions['partition'], info: StreamInfo): Promise<number | undefined> {
  const { rows } = await db.query<{ epoch: number }>(sql`select epoch from ${TABLES[partition].epochs} where stream = ${identify(info)}`)
  return rows[0]?.epoch
}

function identify({ config, created }: StreamInfo): string {
  return `${config.name} ${created}`
}

/** A consumer of the stream. `leader` is the server that sends its messages. It is undefined for a single server. */
export interface Consumer {
  name: string
  leader: string | undefined
}

/**
 * Adds a consumer that reads after `after`. Servers keep it in memory until a minute after its last use, because
 * positions are in PostgreSQL.
 */
export async function addConsumer(jetstream: Jetstream, stream: TopicStream, after: number): Promise<Consumer> {
  const { name, cluster } = await jetstream.manager.consumers.add(stream.name, {
    name: `storefront-${crypto.randomUUID()}`,
    ack_policy: AckPolicy.None,
    deliver_policy: DeliverPolicy.StartSequence,
    // A position in an earlier epoch has seen nothing of this one.
    opt_start_seq: Math.max(after - stream.base, 0) + 1,
    inactive_threshold: nanos(60_000),
    mem_storage: true,
    // With one replica, the broker may choose a server that has just died. Creating the consumer would then fail for
    // half a minute.
    num_replicas: stream.info.config.num_replicas,
  })
  return { name, leader: cluster?.leader }
}

// The following functions ask the leader of the stream. The first two ask by subject, because the list of deleted
// messages is incomplete on some servers.

/**
 * The stream sequence of the newest existing message. 0 if there is none. An operator may have deleted later messages.
 * Throws like `assertSame`.
 */
export async function newestIn(jetstream: Jetstream, stream: TopicStream): Promise<number> {
  await assertSame(jetstream, stream)
  return (await jetstream.manager.streams.getMessage(stream.name, { last_by_subj: subjectsOf(stream) }))?.seq ?? 0
}

/**
 * The stream sequence of the first existing message from `number` on. Null if there is none, or if no server can read
 * it.
 */
export async function firstFrom({ manager: { streams } }: Jetstream, stream: TopicStream, number: number): Promise<number | null> {
  // The types of the driver allow this only for direct reads.
  const query: MsgRequest = { seq: number, ...{ next_by_subj: subjectsOf(stream) } }
  return (await streams.getMessage(stream.name, query))?.seq ?? null
}

/** Whether the leader has this message at this stream sequence, even if it can no longer read it. */
export async function isAtLeader(jetstream: Jetstream, stream: TopicStream, seq: number, subject: string): Promise<boolean> {
  const { streams } = jetstream.manager
  const stored = (await streams.getMessage(stream.name, { seq })) ?? (await streams.getMessage(stream.name, { last_by_subj: subject }))
  return stored === null ? hasSubject(jetstream, stream, subject) : stored.seq === seq && stored.subject === subject
}

/** Whether the leader has a message with this subject, even if no server can read it. */
export async function hasSubject({ manager: { streams } }: Jetstream, { name }: TopicStream, subject: string): Promise<boolean> {
  const { state } = await streams.info(name, { subjects_filter: subject })
  return (state.subjects?.[subject] ?? 0) > 0
}

function subjectsOf({ info }: TopicStream): string {
  return info.config.subjects?.[0] ?? '>'
}

/** Throws StreamRecreated if the stream is not the one that was opened, or ends before the position `after`. */
export async function assertSame({ manager: { streams } }: Jetstream, { name, info, base }: TopicStream, after = 0): Promise<void> {
  const { created, state } = await streams.info(name)
  if (created !== info.created || after > base + state.last_seq) throw new StreamRecreated(name)
}
