import { setTimeout as delay } from 'node:timers/promises'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import type { Msg } from '@nats-io/transport-node'
import type { OrderEvent } from '../../orders/events.ts'
import { type MessageSource, SourceStalled } from '../subscriber.ts'
import type { StoredMessage } from '../topic.ts'
import type { Jetstream } from './connection.ts'
import { NatsPull, type PulledMessage } from './pull.ts'
import { addConsumer, assertSame, type Consumer, firstFrom, newestIn, type OrderStream } from './stream.ts'

/** Change-stream position before which the topic had every commit when the message was sent. */
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
// Takes without a message, of about a second each, before the stream is asked what it has, and then before the consumer is given up.
const IDLE_TAKES = 5
const PATIENT_TAKES = 2
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
  readonly #jetstream: Jetstream
  readonly #stream: OrderStream
  readonly #consumer: Consumer
  readonly #pull: NatsPull
  /** The newest message that came, by its number in the stream. */
  #sent: number
  #idleTakes = 0
  /** The newest message that the stream was seen to have. */
  #awaited = 0
  /** Why nothing more is taken from this consumer. */
  #gap: SourceStalled | null = null

  private constructor(jetstream: Jetstream, stream: OrderStream, consumer: Consumer, sent: number) {
    this.#jetstream = jetstream
    this.#stream = stream
    this.#consumer = consumer
    this.#sent = sent
    this.#pull = new NatsPull(jetstream, stream.name, consumer.name)
  }

  static async open(jetstream: Jetstream, stream: OrderStream, after: number): Promise<NatsSource> {
    const consumer = await addConsumer(jetstream, stream, after)
    // The consumer may be of a stream that was made anew in between.
    await assertSame(jetstream, stream)
    return new NatsSource(jetstream, stream, consumer, Math.max(after - stream.base, 0))
  }

  async next(signal: AbortSignal): Promise<StoredMessage[]> {
    this.#pull.ask(BATCH_SIZE)
    // What comes for a read that was given up is not lost: the next holder reads behind its stored position.
    const messages = await this.#pull.take(signal)
    // Comes while these are handled.
    if (messages.length > 0) this.#pull.ask(BATCH_SIZE)
    const whole = await this.#untilGap(messages)
    if (!signal.aborted) this.#assertMoving(whole)
    return whole.map((message) => this.#toStored(message))
  }

  /** Up to `limit` messages; none when none came for a second. */
  async read(limit: number): Promise<StoredMessage[]> {
    this.#pull.ask(Math.min(limit, BATCH_SIZE))
    const messages = await this.#pull.take()
    const whole = await this.#untilGap(messages)
    this.#assertMoving(whole)
    return whole.map((message) => this.#toStored(message))
  }

  async close(): Promise<void> {
    this.#pull.close()
    // It ends by itself when nobody asks it any more.
    const removed = this.#jetstream.manager.consumers.delete(this.#stream.name, this.#consumer.name)
    await Promise.race([removed, delay(CLOSE_PATIENCE_MS, undefined, { ref: false })])
  }

  /** What was sent up to the first message that was left out, although it is there. See decision 0047. */
  async #untilGap(taken: readonly PulledMessage[]): Promise<readonly PulledMessage[]> {
    if (this.#gap !== null) throw this.#gap
    let before = this.#sent
    for (const [index, { streamSequence }] of taken.entries()) {
      const held = streamSequence > before + 1 ? await firstFrom(this.#jetstream, this.#stream, before + 1) : null
      if (held !== null && held < streamSequence) {
        this.#gap = this.#stalled(`has left out ${held}, which is there`)
        if (index === 0) throw this.#gap
        return taken.slice(0, index)
      }
      before = streamSequence
    }
    return taken
  }

  /** See decision 0047. */
  #assertMoving(taken: readonly PulledMessage[]): void {
    const last = taken.at(-1)
    if (last !== undefined) {
      this.#sent = last.streamSequence
      this.#idleTakes = 0
      this.#awaited = 0
      return
    }
    this.#idleTakes += 1
    const turn = this.#idleTakes % IDLE_TAKES
    if (turn === 0) void this.#look(this.#idleTakes)
    if (turn === PATIENT_TAKES && this.#awaited > this.#sent) {
      throw this.#stalled(`has sent ${this.#sent} and nothing since, though there is ${this.#awaited}`)
    }
  }

  #stalled(what: string): SourceStalled {
    const { leader = 'its server' } = this.#consumer
    return new SourceStalled(`the consumer of ${this.#stream.name} that ${leader} leads ${what}`)
  }

  /** Nobody waits for it: that a broker does not answer is found out by the pull. */
  async #look(idleTakes: number): Promise<void> {
    const newest = await newestIn(this.#jetstream, this.#stream).catch(() => 0)
    // Messages that came meanwhile show that the consumer moves.
    if (this.#idleTakes >= idleTakes) this.#awaited = newest
  }

  #toStored({ message, streamSequence }: PulledMessage): StoredMessage {
    return { sequence: this.#stream.base + streamSequence, event: decodeEvent(message) }
  }
}
