import { setTimeout as delay } from 'node:timers/promises'
import { PubHeaders } from '@nats-io/jetstream'
import { headers } from '@nats-io/transport-node'
import type { PublishedEvent } from '../delivery-log.ts'
import type { OutgoingMessage } from '../topic.ts'
import { type Jetstream, jetstreamErrorCode } from './connection.ts'
import { ENCODING_HEADER, encodeEvent, POSITION_HEADER } from './messages.ts'
import type { OrderStream } from './stream.ts'

const STORE_FAILED = 10_077
/** Messages sent and not yet acknowledged. */
const WINDOW = 512
/** They go out this many at a time: one by one, as acknowledgements come in, each would be a write to the socket by itself. */
const BURST = 128
/** Without progress for this long `publish` throws, and its caller tries again later. A process that stops waits no longer. */
const PATIENCE_MS = 3_500
const RETRY_MS = 100

/**
 * `stored`: at this place in the stream, by now or before, as its window of duplicates knows. `taken`: the stream has the event, by its
 * subject.
 */
type Outcome = { kind: 'stored'; streamSequence: number; at?: Date } | { kind: 'taken' } | { kind: 'failed'; error: unknown }

export interface NatsPublisherOptions {
  jetstream: Jetstream
  stream: OrderStream
  subjectPrefix: string
  /** Hears of what the stream has stored, or turned out to have. */
  onStored: (events: PublishedEvent[]) => void
}

/**
 * Publishes to one stream. Messages go out without waiting for those before them, but for those of the same order. So one may get lost
 * and later ones not: each tells up to where everything was stored when it was sent. An event has a subject of its own, by which the
 * stream refuses it however late it comes again. See decision 0048.
 */
export class NatsPublisher {
  readonly #options: NatsPublisherOptions

  constructor(options: NatsPublisherOptions) {
    this.#options = options
  }

  /** Throws when the broker stores nothing for some seconds; the first messages may be stored then. One call at a time. */
  async publish(messages: readonly OutgoingMessage[]): Promise<void> {
    let rest = messages
    let deadline = performance.now() + PATIENCE_MS
    while (rest.length > 0) {
      const outcomes = await this.#send(rest)
      const stop = outcomes.find((outcome) => 'error' in outcome)
      const done = stop === undefined ? outcomes.length : outcomes.indexOf(stop)
      if (done > 0) deadline = performance.now() + PATIENCE_MS
      const settled = rest.slice(0, done)
      this.#options.onStored(settled.flatMap((message, index) => this.#toPublished(message, outcomes[index])))
      rest = rest.slice(done)
      if (outcomes.some(({ kind }) => kind === 'taken')) {
        const taken = settled.filter((_, index) => outcomes[index]?.kind === 'taken')
        const missing = await this.#withoutStored([...taken, ...rest])
        rest = missing.filter((message) => !taken.includes(message))
      }
      if (stop === undefined) continue
      if (performance.now() > deadline) throw stop.error
      await delay(RETRY_MS)
    }
  }

  /** Sends until something is wrong, and returns how each went that was sent, in order. */
  async #send(messages: readonly OutgoingMessage[]): Promise<Outcome[]> {
    const sent: Promise<Outcome>[] = []
    const newestOfOrder = new Map<string, Promise<Outcome>>()
    /** So many are stored. */
    let settled = 0
    let isInterrupted = false
    for (const [index, message] of messages.entries()) {
      if (index >= WINDOW && index % BURST === 0) {
        settled = index - WINDOW + BURST
        await Promise.all(sent.slice(settled - BURST, settled))
      }
      const before = newestOfOrder.get(message.event.subject)
      if (before !== undefined) await before
      if (isInterrupted) break
      const outcome = this.#sendOne(message, messages[settled]?.position ?? '')
      void outcome.then(({ kind }) => {
        isInterrupted ||= kind !== 'stored'
      })
      newestOfOrder.set(message.event.subject, outcome)
      sent.push(outcome)
    }
    return Promise.all(sent)
  }

  /** `position`: commits before it are stored. */
  async #sendOne({ event }: OutgoingMessage, position: string): Promise<Outcome> {
    const { payload, encoding } = encodeEvent(event)
    const header = headers()
    header.append(PubHeaders.MsgIdHdr, event.id)
    header.append(PubHeaders.ExpectedStreamHdr, this.#options.stream.name)
    if (position !== '') header.append(POSITION_HEADER, position)
    if (encoding !== null) header.append(ENCODING_HEADER, encoding)
    try {
      const ack = await this.#options.jetstream.acks.publish(this.#subjectOf(event.id), payload, header)
      if (ack.stream !== this.#options.stream.name)
        throw new Error(`the message went to the stream ${ack.stream}, not to ${this.#options.stream.name}`)
      // Without a sequence the first copy is only on its way, and may still get lost with the stream's leader.
      if (ack.duplicate && ack.seq === 0) throw new Error('the message is a duplicate of one that is not stored yet')
      return { kind: 'stored', streamSequence: ack.seq }
    } catch (error) {
      const isTaken = jetstreamErrorCode(error) === STORE_FAILED && String(error).includes('maximum messages per subject')
      return isTaken ? { kind: 'taken' } : { kind: 'failed', error }
    }
  }

  /** The messages whose event the stream lacks. A replica that lags may call one missing; the stream then refuses it again. */
  async #withoutStored(messages: readonly OutgoingMessage[]): Promise<OutgoingMessage[]> {
    const { name, info } = this.#options.stream
    const { direct, streams } = this.#options.jetstream.manager
    const reader = info.config.allow_direct ? direct : streams
    const missing: OutgoingMessage[] = []
    for (let first = 0; first < messages.length; first += WINDOW) {
      const asked = messages.slice(first, first + WINDOW)
      const found = await Promise.all(asked.map(({ event }) => reader.getMessage(name, { last_by_subj: this.#subjectOf(event.id) })))
      const outcomes = found.map((stored) => stored && ({ kind: 'stored', streamSequence: stored.seq, at: stored.time } as const))
      missing.push(...asked.filter((_, index) => outcomes[index] === null))
      this.#options.onStored(asked.flatMap((message, index) => this.#toPublished(message, outcomes[index])))
    }
    return missing
  }

  #toPublished({ event }: OutgoingMessage, outcome: Outcome | null | undefined): PublishedEvent[] {
    if (outcome?.kind !== 'stored') return []
    return [{ eventId: event.id, sequence: this.#options.stream.base + outcome.streamSequence, ...(outcome.at && { at: outcome.at }) }]
  }

  /** `<prefix>.<order id>.<version>` */
  #subjectOf(eventId: string): string {
    return `${this.#options.subjectPrefix}.${eventId}`
  }
}
