import { JetStreamApiError, JetStreamError, type PubAck } from '@nats-io/jetstream'
import {
  createInbox,
  type Msg,
  type MsgHdrs,
  type NatsConnection,
  NoRespondersError,
  type Subscription,
  TimeoutError,
} from '@nats-io/transport-node'

const NO_RESPONDERS = 503
const ACK_TIMEOUT_MS = 2_500

interface Waiting {
  sentAt: number
  resolve(ack: PubAck): void
  reject(error: unknown): void
}

/**
 * Publishes to JetStream on one connection and returns each PubAck. The driver's own `publish` creates a timer, an
 * abortable request and two errors per message, which is half of the work of draining a backlog.
 */
export class PubAcks {
  readonly #connection: NatsConnection
  readonly #inbox = createInbox()
  /** The messages in flight by the last token of their reply subject, the oldest first. */
  readonly #waiting = new Map<string, Waiting>()
  #sent = 0
  #subscription: Subscription | null = null
  #timer: NodeJS.Timeout | null = null

  constructor(connection: NatsConnection) {
    this.#connection = connection
    const onClosed = () => this.#rejectWaiting(new Error('the connection to NATS was closed'))
    connection.closed().then(onClosed, onClosed)
  }

  /**
   * Publishes a message. Throws the broker's error if it refuses the message. Throws TimeoutError if the broker does
   * not answer; the message may then be stored.
   */
  async publish(subject: string, payload: Uint8Array, headers: MsgHdrs): Promise<PubAck> {
    // The broker closes a subscription without permission, and may permit it later.
    if (this.#subscription?.isClosed() ?? true) this.#subscription = this.#subscribe()
    this.#sent += 1
    const token = this.#sent.toString(36)
    this.#connection.publish(subject, payload, { headers, reply: `${this.#inbox}.${token}` })
    this.#timer ??= setTimeout(() => this.#expire(), ACK_TIMEOUT_MS).unref()
    return new Promise((resolve, reject) => this.#waiting.set(token, { sentAt: performance.now(), resolve, reject }))
  }

  #subscribe(): Subscription {
    return this.#connection.subscribe(`${this.#inbox}.*`, { callback: (error, message) => this.#onReply(error, message) })
  }

  #onReply(error: Error | null, message: Msg): void {
    if (error !== null) {
      this.#rejectWaiting(error)
      return
    }
    const token = message.subject.slice(this.#inbox.length + 1)
    const waiting = this.#waiting.get(token)
    if (waiting === undefined) return
    this.#waiting.delete(token)
    try {
      waiting.resolve(toPubAck(message))
    } catch (refusal) {
      waiting.reject(refusal)
    }
  }

  #expire(): void {
    this.#timer = null
    this.#rejectWaiting(new TimeoutError(), performance.now() - ACK_TIMEOUT_MS)
    const [oldest] = this.#waiting.values()
    if (oldest !== undefined)
      this.#timer = setTimeout(() => this.#expire(), Math.max(oldest.sentAt + ACK_TIMEOUT_MS - performance.now(), 1)).unref()
  }

  #rejectWaiting(error: unknown, sentUntil = Number.POSITIVE_INFINITY): void {
    for (const [token, { sentAt, reject }] of this.#waiting) {
      if (sentAt > sentUntil) break
      this.#waiting.delete(token)
      reject(error)
    }
  }
}

function toPubAck(message: Msg): PubAck {
  if (message.data.length === 0 && message.headers?.code === NO_RESPONDERS) throw new NoRespondersError(message.subject)
  const answer = message.json<PubAck & { error?: ConstructorParameters<typeof JetStreamApiError>[0] }>()
  if (answer.error !== undefined) throw new JetStreamApiError(answer.error)
  if (!answer.stream) throw new JetStreamError('invalid ack response')
  return { ...answer, duplicate: answer.duplicate ?? false }
}
