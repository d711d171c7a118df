import { setTimeout as delay } from 'node:timers/promises'
import { createInbox, type Msg, nanos, type Subscription } from '@nats-io/transport-node'
import { WakeSignal } from '../../wake-signal.ts'
import type { Jetstream } from './connection.ts'

const MAX_BYTES = 8 * 1024 * 1024
// Some servers drop a request without a word when a message comes just as it expires, so it seldom does.
const EXPIRES_MS = 300_000
// The least that the driver, and newer servers, allow is half of it.
const HEARTBEAT_MS = 1_000
/** Without messages and heartbeats for this long the request, or what was sent for it, got lost. */
const SILENCE_MS = 2_500
// After the process was held up, what came meanwhile is read before the server is called silent.
const READ_MS = 100
/** So long it waits, once a message has come, for those that the server says are behind it. */
const GATHER_MS = 10
const HEARTBEAT = 100
/** In a heartbeat: what the consumer has sent. */
const LAST_DELIVERED_HEADER = 'Nats-Last-Consumer'
const REQUEST_TIMEOUT = 408
const CONFLICT = 409
const ENDINGS = ['message size exceeds maxbytes', 'batch completed']

/** A message as the consumer sent it. */
export interface PulledMessage {
  message: Msg
  streamSequence: number
  /** Counts what the consumer has sent, from 1. */
  deliverySequence: number
}

/**
 * Asks a consumer for messages, by requests that stay with the server until they are used up: messages come as
 * they are stored, none is asked for by itself. What is in memory is bounded by one request, since the next one is made when its
 * messages have been taken.
 */
export class NatsPull {
  readonly #jetstream: Jetstream
  readonly #stream: string
  readonly #consumer: string
  readonly #inbox = createInbox()
  readonly #subscription: Subscription
  #messages: PulledMessage[] = []
  #requests = 0
  /** Messages that may still come of the request in hand; 0 when it is over. */
  #open = 0
  #isFruitless = true
  #isIdle = false
  #delivered = 0
  /** Messages that wait in the stream behind the last one that came. */
  #pending = 0
  #heardAt = 0
  #failure: Error | null = null
  readonly #wakeSignal = new WakeSignal()

  constructor(jetstream: Jetstream, stream: string, consumer: string) {
    this.#jetstream = jetstream
    this.#stream = stream
    this.#consumer = consumer
    this.#subscription = jetstream.connection.subscribe(`${this.#inbox}.*`, { callback: (error, message) => this.#hear(error, message) })
  }

  /** Makes a request for so many messages, unless one is in hand or messages wait to be taken. */
  ask(count: number): void {
    if (this.#open > 0 || this.#messages.length > 0) return
    this.#requests += 1
    this.#open = count
    this.#isFruitless = true
    this.#heardAt = performance.now()
    const request = { batch: count, max_bytes: MAX_BYTES, expires: nanos(EXPIRES_MS), idle_heartbeat: nanos(HEARTBEAT_MS) }
    const { client, connection } = this.#jetstream
    const subject = `${client.apiPrefix}.CONSUMER.MSG.NEXT.${this.#stream}.${this.#consumer}`
    connection.publish(subject, JSON.stringify(request), { reply: this.#replyTo() })
  }

  /**
   * What has come, with what follows it at once; none when none came for a second, or `signal` aborts. Throws when the consumer is
   * gone, the server is silent, or messages got lost: it takes another consumer to get them.
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
      const ended = () => signal?.aborted === true || this.#isSettled()
      // A server that is away answers nothing, also not when it is asked what it has sent.
      while (!ended() && this.#messages.length === 0) await Promise.race([this.#untilHeard(), aborted.promise])
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

  #isSettled(): boolean {
    return this.#failure !== null || this.#isIdle || this.#open === 0 || (this.#messages.length > 0 && this.#pending === 0)
  }

  async #untilHeard(): Promise<void> {
    const heardAt = this.#heardAt
    const silentMs = performance.now() - heardAt
    if (silentMs < SILENCE_MS) {
      await this.#untilWoken(SILENCE_MS - silentMs)
      return
    }
    await delay(READ_MS)
    if (this.#heardAt === heardAt) await this.#recover()
  }

  /** Asks again, once it is certain that nothing was sent that did not arrive. */
  async #recover(): Promise<void> {
    const { delivered } = await this.#jetstream.manager.consumers.info(this.#stream, this.#consumer)
    if (delivered.consumer_seq > this.#delivered) throw lost()
    this.#open = 0
  }

  async #untilWoken(ms: number): Promise<void> {
    this.#wakeSignal.reset()
    await this.#wakeSignal.wait(ms)
  }

  #hear(error: Error | null, message: Msg): void {
    this.#heardAt = performance.now()
    if (error !== null) this.#failure = error
    else if (message.reply) this.#add(message, message.reply)
    else if (message.subject === this.#replyTo()) this.#end(message)
    if (this.#isSettled() || this.#messages.length === 1) this.#wakeSignal.notify()
  }

  #add(message: Msg, reply: string): void {
    // $JS.ACK.<stream>.<consumer>.<deliveries>.<stream sequence>.<delivery sequence>.<time>.<pending>, or with a domain and an account
    // before the stream and one more token at the end.
    const tokens = reply.split('.')
    const end = tokens.length > 9 ? 11 : 9
    const deliverySequence = Number(tokens[end - 3])
    // The consumer would not send again what did not arrive.
    if (deliverySequence !== this.#delivered + 1) this.#failure = lost()
    this.#messages.push({ message, streamSequence: Number(tokens[end - 4]), deliverySequence })
    this.#delivered = deliverySequence
    this.#pending = Number(tokens[end - 1])
    this.#isFruitless = false
    if (this.#open > 0) this.#open -= 1
  }

  /** The server says something about the request in hand: it is over, or cannot be met. */
  #end({ headers }: Msg): void {
    const code = headers?.code ?? 0
    if (code === HEARTBEAT) {
      // A request may outlive the connection that a message got lost with.
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
  return new Error('messages of the topic were lost on their way and are read again')
}
