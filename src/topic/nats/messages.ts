import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import type { Msg } from '@nats-io/transport-node'
import { withinMs } from '../../within-ms.ts'
import { type MessageSource, SourceStalled } from '../subscriber.ts'
import type { StoredMessage, TopicEvent } from '../topic.ts'
import { isBrokerError, type Jetstream } from './connection.ts'
import { NatsPull, type PulledMessage } from './pull.ts'
import { addConsumer, assertSame, type Consumer, firstFrom, isAtLeader, newestIn, type TopicStream } from './stream.ts'

/** The change-stream position at sending. The topic has every commit up to it. */
export const POSITION_HEADER = 'Storefront-Position'
/** `zstd` for a compressed event, otherwise absent. */
export const ENCODING_HEADER = 'Content-Encoding'

// Servers accept messages up to 1 MB by default. The JSON of a thousand order lines is larger, but compresses to a
// tenth.
const COMPRESS_FROM_BYTES = 64 * 1024
/**
 * The limit for a decompressed event, which is far above the largest order. Without it, a message of some kilobytes
 * from another program could fill the memory.
 */
const MAX_EVENT_BYTES = 64 * 1024 * 1024
const BATCH_SIZE = 1_000
/** How long an unavailable server may delay the stop of the store. */
const CLOSE_PATIENCE_MS = 1_000
// The number of empty takes, each about a second, until the stream is asked for its newest message, and then until the
// consumer is replaced.
const IDLE_TAKES = 5
const PATIENT_TAKES = 2
const OPENING_BRACE = '{'.charCodeAt(0)

export function encodeEvent(event: TopicEvent): { payload: Uint8Array; encoding: string | null } {
  const json = Buffer.from(JSON.stringify(event))
  return json.length < COMPRESS_FROM_BYTES ? { payload: json, encoding: null } : { payload: zstdCompressSync(json), encoding: 'zstd' }
}

/** The event of a message. Null for a payload that the store has not written. */
function decodeEvent(message: Msg): unknown {
  const payload = Buffer.from(message.data.buffer, message.data.byteOffset, message.data.byteLength)
  try {
    // Checked first, because parsing headers costs more than the rest of this function.
    if (payload[0] === OPENING_BRACE) return JSON.parse(payload.toString())
    return message.headers?.get(ENCODING_HEADER) === 'zstd'
      ? JSON.parse(zstdDecompressSync(payload, { maxOutputLength: MAX_EVENT_BYTES }).toString())
      : null
  } catch (error) {
    if (!isDecodingError(error)) throw error
    return null
  }
}

/** Whether a payload is neither JSON nor zstd, or exceeds the limit when decompressed. */
function isDecodingError(error: unknown): boolean {
  return error instanceof SyntaxError || /^(ZSTD_|Z_|ERR_BUFFER_TOO_LARGE$)/.test((error as { code?: string }).code ?? '')
}

/** Reads a stream after a position, with a consumer of its own. */
export class NatsSource implements MessageSource {
  readonly #jetstream: Jetstream
  readonly #stream: TopicStream
  readonly #consumer: Consumer
  readonly #pull: NatsPull
  /** The stream sequence of the newest message that arrived. */
  #received: number
  #idleTakes = 0
  /** The newest stream sequence that the stream has reported. */
  #newest = 0
  /** Why this consumer cannot be used any more. */
  #failure: Error | null = null

  private constructor(jetstream: Jetstream, stream: TopicStream, consumer: Consumer, received: number) {
    this.#jetstream = jetstream
    this.#stream = stream
    this.#consumer = consumer
    this.#received = received
    this.#pull = new NatsPull(jetstream, stream.name, consumer.name)
  }

  static async open(jetstream: Jetstream, stream: TopicStream, after: number): Promise<NatsSource> {
    const consumer = await addConsumer(jetstream, stream, after)
    // The stream may have been recreated meanwhile, or may be in another epoch.
    await assertSame(jetstream, stream, after)
    return new NatsSource(jetstream, stream, consumer, Math.max(after - stream.base, 0))
  }

  async next(signal: AbortSignal): Promise<StoredMessage[]> {
    this.#pull.request(BATCH_SIZE)
    // An aborted read loses no messages, because the next reader starts after the stored position.
    const messages = await this.#pull.take(signal)
    // The next batch arrives while this one is handled.
    if (messages.length > 0) this.#pull.request(BATCH_SIZE)
    return this.#toStored(messages, signal)
  }

  /** Returns up to `limit` messages. The list is empty if none has arrived for a second. */
  async read(limit: number): Promise<StoredMessage[]> {
    this.#pull.request(Math.min(limit, BATCH_SIZE))
    return this.#toStored(await this.#pull.take())
  }

  async close(): Promise<void> {
    this.#pull.close()
    // The broker removes an unused consumer after a minute, so the removal needs no long wait.
    const removed = this.#jetstream.manager.consumers.delete(this.#stream.name, this.#consumer.name)
    await withinMs(CLOSE_PATIENCE_MS, removed, null)
  }

  /**
   * Converts messages. Throws SourceStalled if the consumer has stopped, has skipped a message, or has sent a message
   * that the stream's leader lacks.
   */
  async #toStored(taken: readonly PulledMessage[], signal?: AbortSignal): Promise<StoredMessage[]> {
    const messages = await this.#untilGap(taken)
    await this.#assertAtLeader(messages.at(-1))
    if (signal?.aborted !== true) this.#assertProgress(messages)
    return messages.map(({ message, streamSequence }) => ({
      sequence: this.#stream.base + streamSequence,
      event: decodeEvent(message),
    }))
  }

  /**
   * The messages before the first one that the consumer skipped although the stream has it. See
   * docs/decisions/topic-nats.md.
   */
  async #untilGap(taken: readonly PulledMessage[]): Promise<readonly PulledMessage[]> {
    if (this.#failure !== null) throw this.#failure
    let before = this.#received
    for (const [index, { streamSequence }] of taken.entries()) {
      const existing = streamSequence > before + 1 ? await firstFrom(this.#jetstream, this.#stream, before + 1) : null
      if (existing !== null && existing < streamSequence) {
        this.#failure = this.#stalled(`has left out ${existing}, which is there`)
        if (index === 0) throw this.#failure
        return taken.slice(0, index)
      }
      before = streamSequence
    }
    return taken
  }

  /**
   * Throws if the leader lacks this message, or has another one at its sequence. The server of the consumer then has
   * messages that were never acknowledged. All later sequences differ too, so checking the last message of a batch is
   * enough. See docs/decisions/topic-nats.md.
   */
  async #assertAtLeader(last: PulledMessage | undefined): Promise<void> {
    if (last === undefined || (await isAtLeader(this.#jetstream, this.#stream, last.streamSequence, last.message.subject))) return
    this.#failure = this.#stalled(`has sent ${last.streamSequence}, which the stream's leader does not have`)
    throw this.#failure
  }

  /** Throws if the stream has newer messages that the consumer does not send. See docs/decisions/topic-nats.md. */
  #assertProgress(taken: readonly PulledMessage[]): void {
    const last = taken.at(-1)
    if (last !== undefined) {
      this.#received = last.streamSequence
      this.#idleTakes = 0
      this.#newest = 0
      return
    }
    this.#idleTakes += 1
    const turn = this.#idleTakes % IDLE_TAKES
    if (turn === 0) void this.#readNewest(this.#idleTakes)
    if (turn === PATIENT_TAKES && this.#newest > this.#received) {
      throw this.#stalled(`has sent ${this.#received} and nothing since, though there is ${this.#newest}`)
    }
  }

  #stalled(what: string): SourceStalled {
    const { leader = 'its server' } = this.#consumer
    return new SourceStalled(`the consumer of ${this.#stream.name} that ${leader} leads ${what}`)
  }

  /** Runs beside the pull, which detects a silent broker itself. Any other error fails the next take. */
  async #readNewest(idleTakes: number): Promise<void> {
    try {
      const newest = await newestIn(this.#jetstream, this.#stream)
      // Messages that have arrived meanwhile prove that the consumer works.
      if (this.#idleTakes >= idleTakes) this.#newest = newest
    } catch (error) {
      if (!isBrokerError(error)) this.#failure = error as Error
    }
  }
}
