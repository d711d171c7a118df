import { setTimeout as delay } from 'node:timers/promises'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import type { Msg } from '@nats-io/transport-node'
import type { OrderEvent } from '../orders/events.ts'
import type { Jetstream } from './nats-connection.ts'
import { NatsPull, type PulledMessage } from './nats-pull.ts'
import { addConsumer, newestIn, type OrderStream } from './nats-stream.ts'
import type { MessageSource } from './subscriber.ts'
import type { StoredMessage } from './topic.ts'

/** Change-stream position of the commit that the event tells of. */
export const POSITION_HEADER = 'Storefront-Position'
/** `zstd` for a compressed event, else absent. */
export const ENCODING_HEADER = 'Content-Encoding'

// Servers take messages of 1 MB unless told otherwise; the JSON of a thousand lines is larger, and a tenth of it compressed.
const COMPRESS_FROM_BYTES = 64 * 1024
/** Far more than the largest order. A foreign message of some kilobytes could be made to fill the memory. */
const MAX_EVENT_BYTES = 64 * 1024 * 1024
const BATCH_SIZE = 1_000
/** A server that is away would hold up the end of the store. */
const CLOSE_PATIENCE_MS = 1_000
// Takes without a message, of about a second each, before the stream is asked what it has.
const IDLE_TAKES = 5
const OPENING_BRACE = '{'.charCodeAt(0)

/** An event as the payload of a message. */
export function encodeEvent(event: OrderEvent): { payload: Uint8Array; encoding: string | null } {
  const json = Buffer.from(JSON.stringify(event))
  return json.length < COMPRESS_FROM_BYTES ? { payload: json, encoding: null } : { payload: zstdCompressSync(json), encoding: 'zstd' }
}

/** Null for what the store has not written. */
function decodeEvent(message: Msg): unknown {
  const payload = Buffer.from(message.data.buffer, message.data.byteOffset, message.data.byteLength)
  try {
    // Taking the headers apart costs more than all else here.
    if (payload[0] === OPENING_BRACE) return JSON.parse(payload.toString())
    return message.headers?.get(ENCODING_HEADER) === 'zstd'
      ? JSON.parse(zstdDecompressSync(payload, { maxOutputLength: MAX_EVENT_BYTES }).toString())
      : null
  } catch {
    return null
  }
}

/** The stream has messages that the consumer does not send, though its server says that all is well: see decision 0047. */
export class ConsumerStalled extends Error {
  override readonly name = 'ConsumerStalled'
}

/** Reads a stream behind a position, by a consumer that ends with the stream it belongs to. */
export class NatsSource implements MessageSource {
  readonly #jetstream: Jetstream
  readonly #stream: OrderStream
  readonly #consumer: string
  readonly #pull: NatsPull
  /** The newest message that came, by its number in the stream. */
  #sent: number
  #idleTakes = 0
  /** The newest message that the stream was seen to have. */
  #awaited = 0

  private constructor(jetstream: Jetstream, stream: OrderStream, consumer: string, sent: number) {
    this.#jetstream = jetstream
    this.#stream = stream
    this.#consumer = consumer
    this.#sent = sent
    this.#pull = new NatsPull(jetstream, stream.name, consumer)
  }

  static async open(jetstream: Jetstream, stream: OrderStream, after: number): Promise<NatsSource> {
    const consumer = await addConsumer(jetstream, stream, after)
    const { streams } = jetstream.manager
    // Made anew in between, the stream would give sequences that are not those of this epoch.
    const { created } = await streams.info(stream.name)
    if (created !== stream.info.created) throw new Error(`the stream ${stream.name} was made anew`)
    return new NatsSource(jetstream, stream, consumer, Math.max(after - stream.base, 0))
  }

  async next(signal: AbortSignal): Promise<StoredMessage[]> {
    this.#pull.ask(BATCH_SIZE)
    // What comes for a read that was given up is not lost: the next holder reads behind its stored position.
    const messages = await this.#pull.take(signal)
    // Comes while these are handled.
    if (messages.length > 0) this.#pull.ask(BATCH_SIZE)
    if (!signal.aborted) await this.#assertMoving(messages)
    return messages.map((message) => this.#toStored(message))
  }

  /** Up to `limit` messages; none when none came for a second. */
  async read(limit: number): Promise<StoredMessage[]> {
    this.#pull.ask(Math.min(limit, BATCH_SIZE))
    const messages = await this.#pull.take()
    await this.#assertMoving(messages)
    return messages.map((message) => this.#toStored(message))
  }

  async close(): Promise<void> {
    this.#pull.close()
    // It ends by itself when nobody asks it any more.
    const removed = this.#jetstream.manager.consumers.delete(this.#stream.name, this.#consumer)
    await Promise.race([removed, delay(CLOSE_PATIENCE_MS, undefined, { ref: false })])
  }

  async #assertMoving(taken: readonly PulledMessage[]): Promise<void> {
    const last = taken.at(-1)
    if (last !== undefined) {
      this.#sent = last.streamSequence
      this.#idleTakes = 0
      return
    }
    // A second ago: what was stored just then has had its time.
    if (this.#awaited > this.#sent) {
      const { name } = this.#stream
      throw new ConsumerStalled(`the consumer of ${name} has sent ${this.#sent} and nothing since, though there is ${this.#awaited}`)
    }
    this.#idleTakes += 1
    // A broker that does not answer is found out by the pull.
    if (this.#idleTakes % IDLE_TAKES === 0) this.#awaited = await newestIn(this.#jetstream, this.#stream).catch(() => 0)
  }

  #toStored({ message, streamSequence }: PulledMessage): StoredMessage {
    return { sequence: this.#stream.base + streamSequence, event: decodeEvent(message) }
  }
}
