import { zstdDecompressSync } from 'node:zlib'
import { JetStreamApiError, type JetStreamManager, jetstreamManager } from '@nats-io/jetstream'
import { connect, nanos } from '@nats-io/transport-node'
import { type Cleanup, onCleanup } from '../test/cleanup.ts'
import { retryUntil } from '../test/eventually.ts'

const STREAM = 'ORDERS'
/**
 * The timeout of one request, which is short because there may be no leader, and of repeated requests that must
 * succeed.
 */
const TIMEOUT_MS = 2_000
const PATIENCE_MS = 60_000
const AT_ONCE = 256

/** Reads and changes the broker through its own interface. Shares no code with the store. */
export class Broker {
  /** The addresses separated by commas, and the number of servers that keep each message. */
  readonly servers: string
  readonly replicas: number
  readonly #manager: JetStreamManager

  private constructor(servers: string, replicas: number, manager: JetStreamManager) {
    this.servers = servers
    this.replicas = replicas
    this.#manager = manager
  }

  static async open(cleanup: Cleanup, servers: readonly string[], replicas: number): Promise<Broker> {
    const connection = await connect({
      servers: servers.map((server) => new URL(server).host),
      maxReconnectAttempts: -1,
      reconnectTimeWait: 200,
      pingInterval: 1_000,
      ignoreClusterUpdates: true,
    })
    onCleanup(cleanup, () => connection.close())
    return new Broker(servers.join(','), replicas, await jetstreamManager(connection, { checkAPI: false, timeout: TIMEOUT_MS }))
  }

  /** The name of the server that leads the stream. Throws while there is none. */
  async leader(): Promise<string> {
    const { cluster } = await this.#manager.streams.info(STREAM)
    if (cluster?.leader === undefined) throw new Error('the stream has no leader')
    return cluster.leader
  }

  /** Whether every server has every message. */
  async isWhole(): Promise<boolean> {
    const { cluster } = await this.#manager.streams.info(STREAM)
    const others = cluster?.replicas ?? []
    return others.length === this.replicas - 1 && others.every(({ current, offline }) => current && !offline)
  }

  async countMessages(): Promise<number> {
    return (await this.#findState())?.messages ?? 0
  }

  /** The ids of the events in the payloads, in order. */
  async readEventIds(): Promise<string[]> {
    const state = await retryUntil(() => this.#findState(), PATIENCE_MS)
    const ids: string[] = []
    if (state === null || state.messages === 0) return ids
    for (let first = state.first_seq; first <= state.last_seq; first += AT_ONCE) {
      const sequences = Array.from({ length: Math.min(AT_ONCE, state.last_seq - first + 1) }, (_, index) => first + index)
      const messages = await Promise.all(
        sequences.map((seq) => retryUntil(() => this.#manager.streams.getMessage(STREAM, { seq }), PATIENCE_MS)),
      )
      for (const message of messages) {
        if (message === null) continue
        const isCompressed = message.header.get('Content-Encoding') === 'zstd'
        ids.push(JSON.parse(Buffer.from(isCompressed ? zstdDecompressSync(message.data) : message.data).toString()).id)
      }
    }
    return ids
  }

  /** Sets how long the broker remembers message ids. */
  async setDedupeWindow(ms: number): Promise<void> {
    await retryUntil(() => this.#manager.streams.update(STREAM, { duplicate_window: nanos(ms) }), PATIENCE_MS)
  }

  /**
   * Sets how many more messages the stream accepts; null means that only the disk limits it. A limit in bytes does not
   * work: nats-server 2.9.10 stores a message that crosses `max_bytes` by its header and then deletes the oldest,
   * regardless of `discard`.
   */
  async setRoom(messages: number | null): Promise<void> {
    const stored = (await retryUntil(() => this.#findState(), PATIENCE_MS))?.messages ?? 0
    await retryUntil(() => this.#manager.streams.update(STREAM, { max_msgs: messages === null ? -1 : stored + messages }), PATIENCE_MS)
  }

  /** Deletes every message. */
  async empty(): Promise<void> {
    await retryUntil(() => this.#manager.streams.purge(STREAM), PATIENCE_MS)
  }

  async #findState() {
    try {
      return (await this.#manager.streams.info(STREAM)).state
    } catch (error) {
      const STREAM_NOT_FOUND = 10_059
      if (error instanceof JetStreamApiError && error.code === STREAM_NOT_FOUND) return null
      throw error
    }
  }
}
