import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import type { Consumer, JsMsg } from '@nats-io/jetstream'
import type { MsgHdrs } from '@nats-io/transport-node'
import type { OrderEvent } from '../orders/events.ts'
import type { Jetstream } from './nats-connection.ts'
import { addConsumer, type OrderStream } from './nats-stream.ts'
import type { MessageSource } from './subscriber.ts'
import type { StoredMessage } from './topic.ts'

/** Change-stream position of the commit that the event tells of. */
export const POSITION_HEADER = 'Storefront-Position'
/** `zstd` for a compressed event, else absent. */
export const ENCODING_HEADER = 'Content-Encoding'

// Servers take messages of 1 MB unless told otherwise; the JSON of a thousand lines is larger, and a tenth of it compressed.
const COMPRESS_FROM_BYTES = 64 * 1024
const BATCH_SIZE = 1_000
// The least the server allows.
const WAIT_MS = 1_000

/** An event as the payload of a message. */
export function encodeEvent(event: OrderEvent): { payload: Uint8Array; encoding: string | null } {
  const json = Buffer.from(JSON.stringify(event))
  return json.length < COMPRESS_FROM_BYTES ? { payload: json, encoding: null } : { payload: zstdCompressSync(json), encoding: 'zstd' }
}

/** Null for what the store has not written. */
function decodeEvent(payload: Uint8Array, headers: MsgHdrs | undefined): unknown {
  const encoding = headers?.get(ENCODING_HEADER) ?? ''
  if (encoding !== '' && encoding !== 'zstd') return null
  try {
    return JSON.parse(Buffer.from(encoding === 'zstd' ? zstdDecompressSync(payload) : payload).toString())
  } catch {
    return null
  }
}

/** Reads a stream behind a position, by a consumer that ends with the stream it belongs to. */
export class NatsSource implements MessageSource {
  readonly #consumer: Consumer
  readonly #base: number
  /** Messages that wait behind the last one that came. */
  #pending = 0
  #delivered = 0

  private constructor(consumer: Consumer, base: number) {
    this.#consumer = consumer
    this.#base = base
  }

  static async open(jetstream: Jetstream, stream: OrderStream, after: number): Promise<NatsSource> {
    const consumer = await addConsumer(jetstream, stream, after)
    // Made anew in between, the stream would give sequences that are not those of this epoch.
    const { created } = await jetstream.manager.streams.info(stream.name)
    if (created !== stream.info.created) throw new Error(`the stream ${stream.name} was made anew`)
    return new NatsSource(await jetstream.client.consumers.get(stream.name, consumer), stream.base)
  }

  async next(signal: AbortSignal): Promise<StoredMessage[]> {
    const stopped = Promise.withResolvers<StoredMessage[]>()
    const stop = () => stopped.resolve([])
    signal.addEventListener('abort', stop)
    try {
      // What comes for a read that was given up is not lost: the next holder reads behind its stored position.
      return signal.aborted ? [] : await Promise.race([this.read(BATCH_SIZE), stopped.promise])
    } finally {
      signal.removeEventListener('abort', stop)
    }
  }

  /** Up to `limit` messages; none when none came for a second. */
  async read(limit: number): Promise<StoredMessage[]> {
    const messages: StoredMessage[] = []
    if (this.#pending === 0) {
      const first = await this.#consumer.next({ expires: WAIT_MS })
      if (first === null) return messages
      messages.push(this.#take(first))
    }
    const count = Math.min(this.#pending, limit - messages.length)
    if (count === 0) return messages
    for await (const message of await this.#consumer.fetch({ max_messages: count, expires: WAIT_MS })) messages.push(this.#take(message))
    return messages
  }

  async close(): Promise<void> {
    await this.#consumer.delete()
  }

  /** Throws when messages before this one were sent and did not arrive: the consumer would not send them again. */
  #take({ data, headers, info }: JsMsg): StoredMessage {
    this.#delivered += 1
    if (info.deliverySequence !== this.#delivered) throw new Error('messages of the topic were lost on their way and are read again')
    this.#pending = info.pending
    return { sequence: this.#base + info.streamSequence, event: decodeEvent(data, headers) }
  }
}
