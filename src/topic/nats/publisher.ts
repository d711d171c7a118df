import { setTimeout as delay } from 'node:timers/promises'
import { PubHeaders } from '@nats-io/jetstream'
import { headers } from '@nats-io/transport-node'
import { type OrderEvent, toEarlierEvents } from '../../orders/events.ts'
import type { PublishedEvent } from '../delivery-log.ts'
import type { OutgoingMessage } from '../topic.ts'
import { type Jetstream, jetstreamErrorCode } from './connection.ts'
import { ENCODING_HEADER, encodeEvent, POSITION_HEADER } from './messages.ts'
import { type OrderStream, StreamRecreated } from './stream.ts'

const STORE_FAILED = 10_077
/** Messages sent and not yet acknowledged. */
const WINDOW = 512
/** They go out this many at a time: one by one, as acknowledgements come in, each would be a write to the socket by itself. */
const BURST = 128
/** Without progress for this long `publish` throws, and its caller tries again later. A process that stops waits no longer. */
const PATIENCE_MS = 3_500
const RETRY_MS = 100
const IN_FLIGHT = 'the topic refuses an event of which another publisher has a message under way'

/**
 * `stored`: at this place in the stream. `taken`: refused, because the stream has its subject; with a number, because its window of
 * duplicates remembers it there, although it may have been deleted since.
 */
type Outcome =
  | { kind: 'stored'; streamSequence: number; at?: Date }
  | { kind: 'taken'; streamSequence?: number }
  | { kind: 'failed'; error: unknown }

/** Reads through the leader, or from any replica. */
type StreamReader = Jetstream['manager']['direct'] | Jetstream['manager']['streams']

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
  /** Events whose message was deleted, with its number: the window of duplicates still refuses their id. */
  readonly #deleted = new Map<string, number>()
  /** The greatest number that a message got. */
  #newest = 0

  constructor(options: NatsPublisherOptions) {
    this.#options = options
  }

  /** Throws when the first of what is left is not stored for some seconds; others may be stored then. One call at a time. */
  async publish(messages: readonly OutgoingMessage[]): Promise<void> {
    let rest = await this.#withEarlierVersions(messages)
    let deadline = performance.now() + PATIENCE_MS
    while (rest.length > 0) {
      const outcomes = await this.#send(rest)
      const failed = outcomes.find((outcome) => outcome.kind === 'failed')
      const settled = rest.slice(0, failed === undefined ? outcomes.length : outcomes.indexOf(failed))
      this.#options.onStored(settled.flatMap((message, index) => this.#toPublished(message, outcomes[index])))
      const taken = new Map(settled.flatMap((message, index) => listTaken(message, outcomes[index])))
      let left = rest.slice(settled.length)
      if (outcomes.some(({ kind }) => kind === 'taken')) left = await this.#withoutStored([...taken.keys(), ...left], taken)
      if (left.length < rest.length) deadline = performance.now() + PATIENCE_MS
      rest = left
      const isInFlight = (message: OutgoingMessage) => taken.has(message) && !this.#deleted.has(message.event.id)
      const error = failed?.error ?? (rest.some(isInFlight) ? new Error(IN_FLIGHT) : null)
      if (error === null) continue
      if (error instanceof StreamRecreated) await this.#takeBack(messages)
      if (error instanceof StreamRecreated || performance.now() > deadline) throw error
      await delay(RETRY_MS)
    }
  }

  /**
   * Deletes what a stream that was recreated meanwhile has of these: the versions before them were in the lost one, and must go in front. The
   * caller publishes the same again.
   */
  async #takeBack(messages: readonly OutgoingMessage[]): Promise<void> {
    for (const { event } of messages.filter(({ event }) => event.data.order.version > 1))
      await this.#options.jetstream.manager.streams.purge(this.#options.stream.name, { filter: this.#subjectOf(event.id) })
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
    const deletedAt = this.#deleted.get(event.id)
    // The same for each retry, so that the window of duplicates knows those too.
    header.append(PubHeaders.MsgIdHdr, deletedAt === undefined ? event.id : `${event.id}#${deletedAt}`)
    header.append(PubHeaders.ExpectedStreamHdr, this.#options.stream.name)
    if (position !== '') header.append(POSITION_HEADER, position)
    if (encoding !== null) header.append(ENCODING_HEADER, encoding)
    try {
      const ack = await this.#options.jetstream.acks.publish(this.#subjectOf(event.id), payload, header)
      if (ack.stream !== this.#options.stream.name)
        throw new Error(`the message went to the stream ${ack.stream}, not to ${this.#options.stream.name}`)
      // Without a sequence the first copy is only on its way, and may still get lost with the stream's leader.
      if (ack.duplicate && ack.seq === 0) throw new Error('the message is a duplicate of one that is not stored yet')
      if (ack.duplicate) return { kind: 'taken', streamSequence: ack.seq }
      if (ack.seq <= this.#newest) throw new StreamRecreated(ack.stream)
      this.#deleted.delete(event.id)
      this.#newest = Math.max(ack.seq, this.#newest)
      return { kind: 'stored', streamSequence: ack.seq }
    } catch (error) {
      const isTaken = jetstreamErrorCode(error) === STORE_FAILED && String(error).includes('maximum messages per subject')
      return isTaken ? { kind: 'taken' } : { kind: 'failed', error }
    }
  }

  /**
   * The messages whose event the stream lacks. A replica that lags may call one missing; the stream then refuses it again. Of `taken`,
   * which it has refused, those are left that were deleted, or are under way and may yet get lost with the stream's leader.
   */
  async #withoutStored(
    messages: readonly OutgoingMessage[],
    taken: ReadonlyMap<OutgoingMessage, number | undefined>,
  ): Promise<OutgoingMessage[]> {
    const { streams } = this.#options.jetstream.manager
    const missing = await this.#findMissing(this.#anyReplica(), messages)
    // The leader does not lag.
    const refused = missing.filter((message) => taken.has(message))
    const lost = new Set(await this.#findMissing(streams, refused))
    for (const message of lost) {
      const deletedAt = taken.get(message)
      if (await this.#isCounted(message)) lost.delete(message)
      else if (deletedAt !== undefined) this.#deleted.set(message.event.id, deletedAt)
    }
    return missing.filter((message) => !taken.has(message) || lost.has(message))
  }

  #anyReplica(): StreamReader {
    const { direct, streams } = this.#options.jetstream.manager
    return this.#options.stream.info.config.allow_direct ? direct : streams
  }

  /**
   * With the earlier versions of an order in front of an event where the stream has lost them, with its servers or by an operator's hand:
   * what `storefront replay` brought back afterwards would stand behind.
   */
  async #withEarlierVersions(messages: readonly OutgoingMessage[]): Promise<readonly OutgoingMessage[]> {
    const ids = new Set(messages.map(({ event }) => event.id))
    // A version need not be one more than the one before it: see decision 0140.
    const behind = messages.flatMap((message) => {
      const earlier = message.event.data.order.version > 1 ? toEarlierEvents(message.event) : []
      const previousId = earlier.at(-1)?.id
      return previousId === undefined || ids.has(previousId) ? [] : [{ message, earlier, previousId }]
    })
    const lacking = new Map<OutgoingMessage, OrderEvent[]>()
    for (let first = 0; first < behind.length; first += WINDOW) {
      const asked = behind.slice(first, first + WINDOW)
      const found = await Promise.all(asked.map(({ previousId }) => this.#find(this.#anyReplica(), previousId)))
      for (const [index, { message, earlier }] of asked.entries()) if (found[index] === null) lacking.set(message, earlier)
    }
    if (lacking.size === 0) return messages
    return messages.flatMap((message) => {
      const earlier = (lacking.get(message) ?? []).filter(({ id }) => !ids.has(id))
      return [...earlier.map((event) => ({ position: message.position, event })), message]
    })
  }

  #find(reader: StreamReader, eventId: string) {
    return reader.getMessage(this.#options.stream.name, { last_by_subj: this.#subjectOf(eventId) })
  }

  async #findMissing(reader: StreamReader, messages: readonly OutgoingMessage[]): Promise<OutgoingMessage[]> {
    const missing: OutgoingMessage[] = []
    for (let first = 0; first < messages.length; first += WINDOW) {
      const asked = messages.slice(first, first + WINDOW)
      const found = await Promise.all(asked.map(({ event }) => this.#find(reader, event.id)))
      const outcomes = found.map((stored) => stored && ({ kind: 'stored', streamSequence: stored.seq, at: stored.time } as const))
      missing.push(...asked.filter((_, index) => outcomes[index] === null))
      this.#options.onStored(asked.flatMap((message, index) => this.#toPublished(message, outcomes[index])))
    }
    return missing
  }

  /** Whether the stream has it, though no server may be able to read it any more. */
  async #isCounted({ event }: OutgoingMessage): Promise<boolean> {
    const subject = this.#subjectOf(event.id)
    const { state } = await this.#options.jetstream.manager.streams.info(this.#options.stream.name, { subjects_filter: subject })
    return (state.subjects?.[subject] ?? 0) > 0
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

function listTaken(message: OutgoingMessage, outcome: Outcome | undefined): [OutgoingMessage, number | undefined][] {
  return outcome?.kind === 'taken' ? [[message, outcome.streamSequence]] : []
}
