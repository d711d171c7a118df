import { setTimeout as delay } from 'node:timers/promises'
import { createInbox, type Msg, nanos, type Subscription } from '@nats-io/transport-node'
import { WakeSignal } from '../../wake-signal.ts'
import type { Jetstream } from './connection.ts'

const MAX_BYTES = 8 * 1024 * 1024
// Some servers silently drop a request if a message arrives just as it expires, so requests rarely expire.
const EXPIRES_MS = 300_000
// The driver and newer servers accept half of this or more.
const HEARTBEAT_MS = 1_000
/** After this silence, the request or its messages count as lost. */
const SILENCE_MS = 2_500
// Time to read buffered input after this process paused, before the server counts as silent.
const READ_MS = 100
/** How long `take` waits for announced messages after the first one. */
const GATHER_MS = 10
const HEARTBEAT = 100
/** A heartbeat header: the delivery sequence that the consumer sent last. */
const LAST_DELIVERED_HEADER = 'Nats-Last-Consumer'
const REQUEST_TIMEOUT = 408
const CONFLICT = 409
const ENDINGS = ['message size exceeds maxbytes', 'batch completed']

export interface PulledMessage {
  message: Msg
  streamSequence: number
  /** The number of the message among those that the consumer has sent, from 1. */
  deliverySequence: number
}

/**
 * Pulls messages from a consumer. A request stays open at the server, so messages arrive as soon as they are stored.
 * The next request follows after the messages of the current one were taken, so memory holds the messages of at most
 * one request.
 */
export class NatsPull {
  readonly #jetstream: Jetstream
  readonly #stream: string
  readonly #consumer: string
  readonly #inbox = createInbox()
  readonly #subscription: Subscription
  #messages: PulledMessage[] = []
  #requests = 0
  /** How many messages the current request may still deliver. 0 if the request is over. */
  #open = 0
  #isFruitless = true
  #isIdle = false
  #delivered = 0
  /** How many messages the stream has after the last one that has arrived. */
  #pending = 0
  #lastInputAt = 0
  #failure: Error | null = null
  readonly #wakeSignal = new WakeSignal()

  constructor(jetstream: Jetstream, stream: string, consumer: string) {
    this.#jetstream = jetstream
    this.#stream = stream
    this.#consumer = consumer
    this.#subscription = jetstream.connection.subscribe(`${this.#inbox}.*`, { callback: (error, message) => this.#onInput(error, message) })
  }

  /** Requests up to `count` messages, unless a request is open or messages wait to be taken. */
  request(count: number): void {
    if (this.#open > 0 || this.#messages.length > 0) return
    this.#requests += 1
    this.#open = count
    this.#isFruitless = true
    this.#lastInputAt = performance.now()
    const request = { batch: count, max_bytes: MAX_BYTES, expires: nanos(EXPIRES_MS), idle_heartbeat: nanos(HEARTBEAT_MS) }
    const { client, connection } = this.#jetstream
    const subject = `${client.apiPrefix}.CONSUMER.MSG.NEXT.${this.#stream}.${this.#consumer}`
    connection.publish(subject, JSON.stringify(request), { reply: this.#replyTo() })
  }

  /**
   * Returns the messages that have arrived, and those that follow at once. The list is empty if none arrives for a
   * second, or if `signal` aborts. Throws if the consumer is gone, the server is silent, or messages were lost, which
   * only another consumer can deliver.
   */
  async take(signal?: AbortSignal): Promise<PulledMessage[]> {
    this.#isIdle = false
    const aborted = Promise.withResolvers<void>()
    const abort = () => {
      this.#wakeSignal.notify()
      aborted.resolve()
    }
    signal?.addEventListener('abort', abort)
    try {
      const ended = () => signal?.aborted === true || this.#isReady()
      // Raced with the abort, because an unavailable server does not answer `#recover` either.
      while (!ended() && this.#messages.length === 0) await Promise.race([this.#waitForInput(), aborted.promise])
      if (!ended()) await Promise.race([this.#untilWoken(GATHER_MS), aborted.promise])
    } finally {
      signal?.removeEventListener('abort', abort)
    }
    if (signal?.aborted) return []
    if (this.#failure !== null) throw this.#failure
    const taken = this.#messages
    this.#messages = []
    return taken
  }

  close(): void {
    this.#subscription.unsubscribe()
  }

  #isReady(): boolean {
    return this.#failure !== null || this.#isIdle || this.#open === 0 || (this.#messages.length > 0 && this.#pending === 0)
  }

  async #waitForInput(): Promise<void> {
    const lastInputAt = this.#lastInputAt
    const silentMs = performance.now() - lastInputAt
    if (silentMs < SILENCE_MS) {
      await this.#untilWoken(SILENCE_MS - silentMs)
      return
    }
    await delay(READ_MS)
    if (this.#lastInputAt === lastInputAt) await this.#recover()
  }

  /** Allows another request, after checking that every sent message has arrived. */
  async #recover(): Promise<void> {
    const { delivered } = await this.#jetstream.manager.consumers.info(this.#stream, this.#consumer)
    if (delivered.consumer_seq > this.#delivered) throw lost()
    this.#open = 0
  }

  async #untilWoken(ms: number): Promise<void> {
    this.#wakeSignal.reset()
    await this.#wakeSignal.wait(ms)
  }

  #onInput(error: Error | null, message: Msg): void {
    this.#lastInputAt = performance.now()
    if (error !== null) this.#failure = error
    else if (message.reply) this.#add(message, message.reply)
    else if (message.subject === this.#replyTo()) this.#onStatus(message)
    if (this.#isReady() || this.#messages.length === 1) this.#wakeSignal.notify()
  }

  #add(message: Msg, reply: string): void {
    // $JS.ACK.<stream>.<consumer>.<deliveries>.<stream sequence>.<delivery sequence>.<time>.<pending>. Newer servers
    // add a domain and an account before the stream, and a token at the end.
    const tokens = reply.split('.')
    const end = tokens.length > 9 ? 11 : 9
    const deliverySequence = Number(tokens[end - 3])
    // The consumer does not send a lost message again.
    if (deliverySequence !== this.#delivered + 1) this.#failure = lost()
    this.#messages.push({ message, streamSequence: Number(tokens[end - 4]), deliverySequence })
    this.#delivered = deliverySequence
    this.#pending = Number(tokens[end - 1])
    this.#isFruitless = false
    if (this.#open > 0) this.#open -= 1
  }

  /** Handles a status of the current request: a heartbeat, its end, or an error. */
  #onStatus({ headers }: Msg): void {
    const code = headers?.code ?? 0
    if (code === HEARTBEAT) {
      // A request may outlive the connection that lost a message.
      if (Number(headers?.get(LAST_DELIVERED_HEADER) ?? 0) > this.#delivered) this.#failure = lost()
      this.#isIdle = true
      return
    }
    const description = headers?.description.toLowerCase() ?? ''
    const isOver = code === REQUEST_TIMEOUT || (code === CONFLICT && ENDINGS.includes(description))
    if (!isOver || (code === CONFLICT && this.#isFruitless)) {
      this.#failure = new Error(`the server of the topic refuses to send messages: ${code} ${description}`)
    }
    this.#open = 0
  }

  #replyTo(): string {
    return `${this.#inbox}.${this.#requests}`
  }
}

function lost(): Error {
  return new Error('messages of the topic were lost in transit and will be read again')
}
