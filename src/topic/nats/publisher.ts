import { setTimeout as delay } from 'node:timers/promises'
import { PubHeaders } from '@nats-io/jetstream'
import { headers } from '@nats-io/transport-node'
import type { PublishedEvent } from '../delivery-log.ts'
import { EventTooLarge, type OutgoingMessage, type TopicEvent, type TopicPartition } from '../topic.ts'
import { type Jetstream, jetstreamErrorCode } from './connection.ts'
import { ENCODING_HEADER, encodeEvent, POSITION_HEADER } from './messages.ts'
import { hasSubject, StreamRecreated, type TopicStream } from './stream.ts'

const STORE_FAILED = 10_077
/** The message exceeds the stream's own `max_msg_size`. */
const MESSAGE_TOO_LARGE = 10_054
/** Bounds a message's headers, which count towards the server's `max_payload`. */
const HEADER_BYTES = 1_024
/** The most unacknowledged messages. */
const WINDOW = 512
/** Messages sent together. Sending one for each acknowledgement would need a socket write for each. */
const BURST = 128
/** `publish` throws after this time without progress, and its caller retries. This also bounds a stop's wait. */
const PATIENCE_MS = 3_500
const RETRY_MS = 100
const IN_FLIGHT = 'the topic refuses an event that another publisher has in flight'

/**
 * The outcome of sending a message. `stored`: the stream now has it at this sequence. `duplicate`: the stream already
 * has a message with its subject. If the duplicate window remembers its id, there is a sequence, but the message at it
 * may have been deleted.
 */
type Outcome =
  | { kind: 'stored'; streamSequence: number; at?: Date }
  | { kind: 'duplicate'; streamSequence?: number }
  | { kind: 'failed'; error: unknown }

export interface NatsPublisherOptions<E extends TopicEvent> {
  partition: TopicPartition<E>
  jetstream: Jetstream
  stream: TopicStream
  subjectPrefix: string
  /** Called with the events that the stream has stored now, or already had. */
  onStored: (events: PublishedEvent[]) => void
}

/**
 * Publishes to one stream. A message waits only for earlier messages of its subject, so later messages can be stored
 * while one is lost. Each message therefore has the position up to which everything was stored when it was sent. Each
 * event has its own subject, so the stream refuses a duplicate however late it arrives. See
 * docs/decisions/topic-nats.md#publishing.
 */
export class NatsPublisher<E extends TopicEvent> {
  readonly #options: NatsPublisherOptions<E>
  /** Stream sequences of deleted messages by event id. The duplicate window still refuses these ids. */
  readonly #deleted = new Map<string, number>()
  /** The greatest stream sequence published here. */
  #newest = 0

  constructor(options: NatsPublisherOptions<E>) {
    this.#options = options
  }

  /**
   * Publishes messages. Throws if nothing is stored for some seconds; some of the messages may then be stored. Only one
   * call may run at a time.
   */
  async publish(messages: readonly OutgoingMessage<E>[]): Promise<void> {
    let rest = await this.#withEarlierVersions(messages)
    let deadline = performance.now() + PATIENCE_MS
    while (rest.length > 0) {
      const outcomes = await this.#send(rest)
      const failed = outcomes.find((outcome) => outcome.kind === 'failed')
      const answered = rest.slice(0, failed === undefined ? outcomes.length : outcomes.indexOf(failed))
      this.#options.onStored(answered.flatMap((message, index) => this.#toPublished(message, outcomes[index])))
      const duplicates = new Map(answered.flatMap((message, index) => listDuplicates(message, outcomes[index])))
      let left = rest.slice(answered.length)
      if (outcomes.some(({ kind }) => kind === 'duplicate')) left = await this.#withoutStored([...duplicates.keys(), ...left], duplicates)
      if (left.length < rest.length) deadline = performance.now() + PATIENCE_MS
      rest = left
      const isInFlight = (message: OutgoingMessage<E>) => duplicates.has(message) && !this.#deleted.has(message.event.id)
      const error = failed?.error ?? (rest.some(isInFlight) ? new Error(IN_FLIGHT) : null)
      if (error === null) continue
      if (error instanceof StreamRecreated) await this.#deleteLaterVersions(messages)
      if (error instanceof StreamRecreated || error instanceof EventTooLarge || performance.now() > deadline) throw error
      await delay(RETRY_MS)
    }
  }

  /**
   * Deletes later versions from a recreated stream, which must store their earlier versions first. The caller publishes
   * the same messages again.
   */
  async #deleteLaterVersions(messages: readonly OutgoingMessage<E>[]): Promise<void> {
    for (const { event } of messages.filter(({ event }) => Number(event.sequence) > 1))
      await this.#options.jetstream.manager.streams.purge(this.#options.stream.name, { filter: this.#subjectOf(event.id) })
  }

  /** Sends until the first outcome other than `stored`. Returns the outcomes of sent messages in order. */
  async #send(messages: readonly OutgoingMessage<E>[]): Promise<Outcome[]> {
    const sent: Promise<Outcome>[] = []
    const newestOfOrder = new Map<string, Promise<Outcome>>()
    let storedCount = 0
    let isInterrupted = false
    for (const [index, message] of messages.entries()) {
      if (index >= WINDOW && index % BURST === 0) {
        storedCount = index - WINDOW + BURST
        await Promise.all(sent.slice(storedCount - BURST, storedCount))
      }
      const before = newestOfOrder.get(message.event.subject)
      if (before !== undefined) await before
      if (isInterrupted) break
      // Caught here, because a rejection before the later await would end the process.
      const outcome = this.#sendOne(message, messages[storedCount]?.position ?? '')
        .catch((error: unknown): Outcome => ({ kind: 'failed', error }))
        .then((answer) => {
          isInterrupted ||= answer.kind !== 'stored'
          return answer
        })
      newestOfOrder.set(message.event.subject, outcome)
      sent.push(outcome)
    }
    return Promise.all(sent)
  }

  /** All commits before `position` are stored. */
  async #sendOne({ event }: OutgoingMessage<E>, position: string): Promise<Outcome> {
    const { payload, encoding } = encodeEvent(event)
    const tooLarge = () => ({ kind: 'failed', error: new EventTooLarge(event, payload.length) }) as const
    // The driver would throw an error that only its text identifies.
    if (payload.length + HEADER_BYTES > (this.#options.jetstream.connection.info?.max_payload ?? Number.POSITIVE_INFINITY))
      return tooLarge()
    const header = headers()
    const deletedAt = this.#deleted.get(event.id)
    // A retry has the same id, so the duplicate window recognizes it.
    header.append(PubHeaders.MsgIdHdr, deletedAt === undefined ? event.id : `${event.id}#${deletedAt}`)
    header.append(PubHeaders.ExpectedStreamHdr, this.#options.stream.name)
    if (position !== '') header.append(POSITION_HEADER, position)
    if (encoding !== null) header.append(ENCODING_HEADER, encoding)
    try {
      const ack = await this.#options.jetstream.acks.publish(this.#subjectOf(event.id), payload, header)
      if (ack.stream !== this.#options.stream.name)
        throw new Error(`the message went to the stream ${ack.stream}, not to ${this.#options.stream.name}`)
      // If the sequence is missing, the first copy is still in flight. It may be lost with the leader of the stream.
      if (ack.duplicate && ack.seq === 0) throw new Error('the message is a duplicate of one that is not stored yet')
      if (ack.duplicate) return { kind: 'duplicate', streamSequence: ack.seq }
      if (ack.seq <= this.#newest) throw new StreamRecreated(ack.stream)
      this.#deleted.delete(event.id)
      this.#newest = Math.max(ack.seq, this.#newest)
      return { kind: 'stored', streamSequence: ack.seq }
    } catch (error) {
      if (jetstreamErrorCode(error) === MESSAGE_TOO_LARGE) return tooLarge()
      const isDuplicate = jetstreamErrorCode(error) === STORE_FAILED && String(error).includes('maximum messages per subject')
      return isDuplicate ? { kind: 'duplicate' } : { kind: 'failed', error }
    }
  }

  /**
   * Returns the messages whose event the stream lacks. `duplicates` are messages that it has refused. They stay in the
   * result if their first copy was deleted, or is in flight and may be lost with the leader of the stream.
   */
  async #withoutStored(
    messages: readonly OutgoingMessage<E>[],
    duplicates: ReadonlyMap<OutgoingMessage<E>, number | undefined>,
  ): Promise<OutgoingMessage<E>[]> {
    const { jetstream, stream } = this.#options
    const missing = await this.#findMissing(messages)
    const lost = new Set(missing.filter((message) => duplicates.has(message)))
    for (const message of lost) {
      const deletedAt = duplicates.get(message)
      if (await hasSubject(jetstream, stream, this.#subjectOf(message.event.id))) lost.delete(message)
      else if (deletedAt !== undefined) this.#deleted.set(message.event.id, deletedAt)
    }
    return missing.filter((message) => !duplicates.has(message) || lost.has(message))
  }

  /**
   * Inserts an order's earlier versions before an event whose previous version the stream has lost, with its servers or
   * by an operator's deletion. `storefront replay` would publish them after their successor.
   */
  async #withEarlierVersions(messages: readonly OutgoingMessage<E>[]): Promise<readonly OutgoingMessage<E>[]> {
    const ids = new Set(messages.map(({ event }) => event.id))
    // Version numbers may have gaps: docs/decisions/audit-incarnations.md.
    const successors = messages.flatMap((message) => {
      const previousId = this.#options.partition.previousEventId(message.event)
      return previousId === null || ids.has(previousId) ? [] : [{ message, previousId }]
    })
    const previousIds = successors.map(({ previousId }) => previousId)
    const found = await this.#find(previousIds)
    const lacking = new Set(successors.flatMap(({ message }, index) => (found[index] === null ? [message] : [])))
    if (lacking.size === 0) return messages
    return messages.flatMap((message) => {
      const earlier = lacking.has(message) ? this.#options.partition.earlierEvents(message.event).filter(({ id }) => !ids.has(id)) : []
      return [...earlier.map((event) => ({ position: message.position, event })), message]
    })
  }

  /**
   * The place of each event. Null if the stream lacks it. The leader is asked, because another server may lag, or may
   * have messages that a former leader has lost. See docs/decisions/topic-nats.md#only-the-leader-counts.
   */
  async #find(eventIds: readonly string[]): Promise<(Outcome | null)[]> {
    const { streams } = this.#options.jetstream.manager
    const found: (Outcome | null)[] = []
    for (let first = 0; first < eventIds.length; first += WINDOW) {
      const subjects = eventIds.slice(first, first + WINDOW).map((id) => this.#subjectOf(id))
      const stored = await Promise.all(subjects.map((last_by_subj) => streams.getMessage(this.#options.stream.name, { last_by_subj })))
      found.push(...stored.map((message) => message && ({ kind: 'stored', streamSequence: message.seq, at: message.time } as const)))
    }
    return found
  }

  async #findMissing(messages: readonly OutgoingMessage<E>[]): Promise<OutgoingMessage<E>[]> {
    const eventIds = messages.map(({ event }) => event.id)
    const outcomes = await this.#find(eventIds)
    this.#options.onStored(messages.flatMap((message, index) => this.#toPublished(message, outcomes[index])))
    return messages.filter((_, index) => outcomes[index] === null)
  }

  #toPublished({ event }: OutgoingMessage<E>, outcome: Outcome | null | undefined): PublishedEvent[] {
    if (outcome?.kind !== 'stored') return []
    return [{ eventId: event.id, sequence: this.#options.stream.base + outcome.streamSequence, ...(outcome.at && { at: outcome.at }) }]
  }

  /** `<prefix>.<order id>.<version>`. Other events have their id after the prefix. */
  #subjectOf(eventId: string): string {
    return `${this.#options.subjectPrefix}.${eventId}`
  }
}

function listDuplicates<Message>(message: Message, outcome: Outcome | undefined): [Message, number | undefined][] {
  return outcome?.kind === 'duplicate' ? [[message, outcome.streamSequence]] : []
}
