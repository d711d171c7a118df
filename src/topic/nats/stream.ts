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
import type { Pool } from '../../db/pool.ts'
import { inTransaction } from '../../db/transaction.ts'
import { OperatorError } from '../../errors.ts'
import { EPOCH_SEQUENCES } from '../topic.ts'
import { type Jetstream, jetstreamErrorCode } from './connection.ts'

const STREAM_NOT_FOUND = 10_059
const STREAM_NAME_IN_USE = 10_058
const DUPLICATE_WINDOW_MS = 120_000

export interface StreamOptions {
  pool: Pool
  logger: Logger
  /** Lower case; the stream has it in capitals, and subjects `<name>.<order id>.<version>`. */
  name: string
  replicas: number
}

/** The stream of the broker, and which life of the topic it is. */
export interface OrderStream {
  name: string
  /** What the topic's sequences are above the stream's. */
  base: number
  info: StreamInfo
}

/** The settings without which a message could be lost or stored twice. What else a stream has is its operator's business. */
function requiredSettings(name: string) {
  return {
    subjects: [`${name}.>`],
    storage: StorageType.File,
    retention: RetentionPolicy.Limits,
    // A full stream refuses, so that publishing stops and PostgreSQL keeps its log. The other policy would drop the oldest.
    discard: DiscardPolicy.New,
    // One message for each subject, and a subject for each event: the server refuses a second one however late it comes.
    max_msgs_per_subject: 1,
    discard_new_per_subject: true,
  } satisfies Partial<StreamConfig>
}

/** Makes the stream, or checks that the one that is there keeps every message once. Throws StreamMisconfigured when it does not. */
export async function openStream(jetstream: Jetstream, options: StreamOptions): Promise<OrderStream> {
  const info = await ensureStream(jetstream, options)
  return { name: info.config.name, info, base: (await registerEpoch(info, options)) * EPOCH_SEQUENCES }
}

/** The stream is there, with settings under which messages can be lost. */
export class StreamMisconfigured extends OperatorError {
  override readonly name = 'StreamMisconfigured'
}

/** Its numbers are not those of the epoch in hand. */
export class StreamRecreated extends Error {
  override readonly name = 'StreamRecreated'

  constructor(stream: string) {
    super(`the stream ${stream} was made anew`)
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
      logger.info({ stream: streamName, replicas }, 'made the stream of the notification topic')
    } catch (addError) {
      // Another process was quicker.
      if (jetstreamErrorCode(addError) !== STREAM_NAME_IN_USE) throw addError
      info = await streams.info(streamName)
    }
  }
  const config = info.config as unknown as Record<string, unknown>
  const unfit = Object.entries(required).filter(([key, value]) => JSON.stringify(config[key]) !== JSON.stringify(value))
  if (unfit.length > 0) {
    throw new StreamMisconfigured(
      `the NATS stream ${streamName} must have ${unfit.map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(', ')}`,
    )
  }
  if (info.config.num_replicas < replicas) {
    logger.info({ stream: streamName, from: info.config.num_replicas, to: replicas }, 'the stream gets more replicas')
    info = await streams.update(streamName, { num_replicas: replicas })
  }
  return info
}

/** A stream that was made anew counts from 1 again: its time of creation tells, and it gets an epoch of its own. */
async function registerEpoch({ config, created }: StreamInfo, { pool, logger }: StreamOptions): Promise<number> {
  const stream = `${config.name} ${created}`
  const find = 'select epoch from topic_epochs where stream = $1'
  const { rows } = await pool.query<{ epoch: number }>(find, [stream])
  if (rows[0] !== undefined) return rows[0].epoch
  return inTransaction(pool, async (tx) => {
    await tx.query('lock table topic_epochs in share row exclusive mode')
    const { rows: found } = await tx.query<{ epoch: number }>(find, [stream])
    if (found[0] !== undefined) return found[0].epoch
    const { rows: added } = await tx.query<{ epoch: number }>(
      `insert into topic_epochs (epoch, stream)
      select greatest(
        coalesce(max(epoch), 0),
        -- A topic in PostgreSQL has begun epochs too, when its database was restored.
        (select coalesce(max(sequence), 0) / $2 from topic_messages),
        (select coalesce(max(sequence), 0) / $2 from topic_subscribers)
      ) + 1, $1 from topic_epochs
      returning epoch`,
      [stream, EPOCH_SEQUENCES],
    )
    const epoch = added[0]?.epoch ?? Number.NaN
    if (epoch > 1) {
      logger.error(
        { stream, epoch },
        'the stream of the notification topic was lost and made anew: storefront replay publishes again what it held',
      )
    }
    return epoch
  })
}

/** A consumer of the stream. `leader` is the server that sends, undefined where there is only one. */
export interface Consumer {
  name: string
  leader: string | undefined
}

/** A consumer that reads on behind `after`, kept in the servers' memory for a minute after its last use: positions are kept in PostgreSQL. */
export async function addConsumer(jetstream: Jetstream, stream: OrderStream, after: number): Promise<Consumer> {
  const { name, cluster } = await jetstream.manager.consumers.add(stream.name, {
    name: `storefront-${crypto.randomUUID()}`,
    ack_policy: AckPolicy.None,
    deliver_policy: DeliverPolicy.StartSequence,
    // Whoever stands in an earlier epoch has seen nothing of this one.
    opt_start_seq: Math.max(after - stream.base, 0) + 1,
    inactive_threshold: nanos(60_000),
    mem_storage: true,
    // One that a single server keeps may be put on a server that has just died, and then cannot be made for half a minute.
    num_replicas: stream.info.config.num_replicas,
  })
  return { name, leader: cluster?.leader }
}

// Of what is there the leader is asked, and by subject: the list of deleted messages is not whole on every server.

/** The number of the newest message that is there: an operator may have deleted later ones. 0 for none. Throws as `assertSame`. */
export async function newestIn(jetstream: Jetstream, stream: OrderStream): Promise<number> {
  await assertSame(jetstream, stream)
  return (await jetstream.manager.streams.getMessage(stream.name, { last_by_subj: subjectsOf(stream) }))?.seq ?? 0
}

/** The number of the first message that is there from `number` on; null for none. Null too when the servers cannot read any. */
export async function firstFrom({ manager: { streams } }: Jetstream, stream: OrderStream, number: number): Promise<number | null> {
  // The driver's types know it of direct reads only.
  const query: MsgRequest = { seq: number, ...{ next_by_subj: subjectsOf(stream) } }
  return (await streams.getMessage(stream.name, query))?.seq ?? null
}

function subjectsOf({ info }: OrderStream): string {
  return info.config.subjects?.[0] ?? '>'
}

/** Throws StreamRecreated when the stream is another one by now. */
export async function assertSame({ manager: { streams } }: Jetstream, { name, info }: OrderStream): Promise<void> {
  const { created } = await streams.info(name)
  if (created !== info.created) throw new StreamRecreated(name)
}
