import type { Logger } from 'pino'
import type { Pool } from '../../db/pool.ts'
import type { PublishedEvent } from '../delivery-log.ts'
import { LockSessions } from '../lock-session.ts'
import { SourceStalled, Subscriber } from '../subscriber.ts'
import type {
  MessageHandler,
  OutgoingMessage,
  StoredMessage,
  SubscribeOptions,
  Subscription,
  Topic,
  TopicEvent,
  TopicPartition,
} from '../topic.ts'
import { type Jetstream, NatsClient, type NatsSettings } from './connection.ts'
import { NatsSource, POSITION_HEADER } from './messages.ts'
import { NatsPublisher } from './publisher.ts'
import { findStream, newestIn, openStream, StreamMisconfigured, StreamRecreated, type TopicStream } from './stream.ts'

// The most consumers for one read. The broker chooses a server for each of them. If one of three servers is out of
// step, one read in 2,000 fails.
const READ_ATTEMPTS = 7

export interface NatsTopicOptions {
  nats: NatsSettings
  /** The number of servers that store each message: 1, 3 or 5. */
  replicas: number
  /**
   * Whether this process only reads. It then never creates or changes the stream, so another process must open it
   * first.
   */
  isReadOnly?: boolean
  /**
   * The name of the stream (in capitals) and the prefix of its subjects. The default is the name of the partition.
   * Stores that share a broker account need different names.
   */
  name?: string
  /** Stores the subscribers' locks and positions, and the topic's epochs. */
  pool: Pool
  url: string
  sessions?: LockSessions
  logger: Logger
  /** Called with the events that `publish` has stored, or has found to be stored already. */
  onStored?: (events: PublishedEvent[]) => void
}

/** The opened stream. Dropped after any failure, because the stream may have been recreated. */
interface OpenTopic<E extends TopicEvent> {
  jetstream: Jetstream
  stream: TopicStream
  publisher: NatsPublisher<E>
}

/** A partition of the notification topic, as a NATS JetStream stream. */
export class NatsTopic<E extends TopicEvent> implements Topic<E> {
  readonly partition: TopicPartition<E>
  readonly isOutside = true
  readonly #options: NatsTopicOptions
  readonly #name: string
  readonly #client: NatsClient
  readonly #sessions: LockSessions
  #opening: Promise<OpenTopic<E>> | null = null
  /** Settles when all calls of `publish` have ended. They run one after another. */
  #publishing: Promise<unknown> = Promise.resolve()

  constructor(partition: TopicPartition<E>, options: NatsTopicOptions) {
    this.partition = partition
    this.#options = options
    this.#name = options.name ?? partition.name
    this.#sessions = options.sessions ?? new LockSessions(options.url)
    this.#client = new NatsClient(options.nats, 'storefront', options.logger)
  }

  async start(): Promise<void> {
    await this.#use(async () => {}).catch((error) => {
      if (error instanceof StreamMisconfigured) throw error
      this.#options.logger.error({ err: error }, 'NATS cannot be used yet, will retry')
    })
  }

  async stop(): Promise<void> {
    await this.#publishing
    await this.#client.close()
  }

  publish(messages: readonly OutgoingMessage<E>[]): Promise<void> {
    const published = this.#publishing.then(() =>
      messages.length === 0 ? undefined : this.#use(({ publisher }) => publisher.publish(firstOfEach(messages))),
    )
    this.#publishing = published.catch(() => {})
    return published
  }

  newestPosition(): Promise<string | null> {
    return this.#use(async ({ jetstream, stream }) => {
      const { streams } = jetstream.manager
      const { state } = await streams.info(stream.name)
      if (state.messages === 0) return null
      const newest = await streams.getMessage(stream.name, { seq: state.last_seq })
      return newest?.header.get(POSITION_HEADER) ?? ''
    })
  }

  newestSequence(): Promise<number> {
    return this.#use(async ({ jetstream, stream }) => {
      const { created, state } = await jetstream.manager.streams.info(stream.name)
      if (created !== stream.info.created) throw new StreamRecreated(stream.name)
      return stream.base + state.last_seq
    })
  }

  read(after: number, limit: number): Promise<StoredMessage[]> {
    return this.#use(({ jetstream, stream }) => readBehind(jetstream, stream, after, limit))
  }

  subscribe(name: string, handler: MessageHandler<E>, options: SubscribeOptions = {}): Subscription {
    const { pool, logger } = this.#options
    return new Subscriber({
      pool,
      sessions: this.#sessions,
      logger,
      name,
      partition: this.partition,
      handler,
      options,
      openSource: (_session, after) => this.#use(({ jetstream, stream }) => NatsSource.open(jetstream, stream, after)),
    })
  }

  /**
   * Runs `work` with the stream, which opens at first use and after each failure. Opening creates a missing stream,
   * unless this is read-only.
   */
  async #use<T>(work: (topic: OpenTopic<E>) => Promise<T>): Promise<T> {
    this.#opening ??= this.#open()
    const opening = this.#opening
    try {
      return await work(await opening)
    } catch (error) {
      if (this.#opening === opening) this.#opening = null
      throw error
    }
  }

  async #open(): Promise<OpenTopic<E>> {
    const { pool, logger, replicas, isReadOnly = false, onStored = () => {} } = this.#options
    const jetstream = await this.#client.get()
    const options = { pool, logger, name: this.#name, partition: this.partition.name, replicas }
    const stream = isReadOnly ? await findStream(jetstream, options) : await openStream(jetstream, options)
    return {
      jetstream,
      stream,
      publisher: new NatsPublisher({ partition: this.partition, jetstream, stream, subjectPrefix: this.#name, onStored }),
    }
  }
}

async function readBehind(jetstream: Jetstream, stream: TopicStream, after: number, limit: number): Promise<StoredMessage[]> {
  const messages: StoredMessage[] = []
  // Positions below this epoch's base have nothing left to read.
  const position = () => messages.at(-1)?.sequence ?? Math.max(after, stream.base)
  const newest = async () => stream.base + (await newestIn(jetstream, stream))
  let last = await newest()
  let attemptsLeft = READ_ATTEMPTS
  while (messages.length < limit && position() < last) {
    const source = await NatsSource.open(jetstream, stream, position())
    try {
      while (messages.length < limit && position() < last) {
        const more = await source.read(limit - messages.length)
        messages.push(...more)
        // The last message may have been deleted meanwhile.
        if (more.length === 0) last = await newest()
      }
    } catch (error) {
      attemptsLeft -= 1
      if (!(error instanceof SourceStalled) || attemptsLeft === 0) throw error
    } finally {
      await source.close().catch(() => {})
    }
  }
  return messages
}

function firstOfEach<E extends TopicEvent>(messages: readonly OutgoingMessage<E>[]): OutgoingMessage<E>[] {
  const byId = new Map<string, OutgoingMessage<E>>()
  for (const message of messages) if (!byId.has(message.event.id)) byId.set(message.event.id, message)
  return [...byId.values()]
}
