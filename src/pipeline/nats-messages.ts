import { setTimeout as delay } from 'node:timers/promises'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import type { Msg } from '@nats-io/transport-node'
import type { OrderEvent } from '../orders/events.ts'
import type { Jetstream } from './nats-connection.ts'
import { NatsPull, type PulledMessage } from './nats-pull.ts'
import { addConsumer, type OrderStream } from './nats-stream.ts'
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

/** Reads a stream behind a position, by a consumer that ends with the stream it belongs to. */
export class NatsSource implements MessageSource {
  readonly #pull: NatsPull
  readonly #base: number
  readonly #remove: () => Promise<unknown>

  private constructor(pull: NatsPull, base: number, remove: () => Promise<unknown>) {
    this.#pull = pull
    this.#base = base
    this.#remove = remove
  }

  static async open(jetstream: Jetstream, stream: OrderStream, after: number): Promise<NatsSource> {
    const consumer = await addConsumer(jetstream, stream, after)
    const { streams, consumers } = jetstream.manager
    // Made anew in between, the stream would give sequences that are not those of this epoch.
    const { created } = await streams.info(stream.name)
    if (created !== stream.info.created) throw new Error(`the stream ${stream.name} was made anew`)
    const pull = new NatsPull(jetstream, stream.name, consumer)
    return new NatsSource(pull, stream.base, () => consumers.delete(stream.name, consumer))
  }

  async next(signal: AbortSignal): Promise<StoredMessage[]> {
    this.#pull.ask(BATCH_SIZE)
    // What comes for a read that was given up is not lost: the next holder reads behind its stored position.
    const messages = await this.#pull.take(signal)
    // Comes while these are handled.
    if (messages.length > 0) this.#pull.ask(BATCH_SIZE)
    return messages.map((message) => this.#toStored(message))
  }

  /** Up to `limit` messages; none when none came for a second. */
  async read(limit: number): Promise<StoredMessage[]> {
    this.#pull.ask(Math.min(limit, BATCH_SIZE))
    return (await this.#pull.take()).map((message) => this.#toStored(message))
  }

  async close(): Promise<void> {
    this.#pull.close()
    // It ends by itself when nobody asks it any more.
    await Promise.race([this.#remove(), delay(CLOSE_PATIENCE_MS, undefined, { ref: false })])
  }

  #toStored({ message, streamSequence }: PulledMessage): StoredMessage {
    return { sequence: this.#base + streamSequence, event: decodeEvent(message) }
  }
}
