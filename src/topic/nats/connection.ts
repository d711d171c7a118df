import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { checkServerIdentity, type PeerCertificate } from 'node:tls'
import { JetStreamApiError, type JetStreamClient, type JetStreamManager, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, credsAuthenticator, errors, type NatsConnection, type NodeConnectionOptions } from '@nats-io/transport-node'
import type { Logger } from 'pino'
import { PubAcks } from './acks.ts'

export interface NatsSettings {
  /** `nats://` or `tls://` addresses, separated by commas. The first `user:password@` or `token@` is used. */
  servers: string
  /**
   * File paths or null: credentials (JWT and NKey), then PEM files of the authority and the client's certificate and
   * key.
   */
  credentialsFile: string | null
  caFile: string | null
  certFile: string | null
  keyFile: string | null
}

const CONNECT_TIMEOUT_MS = 5_000
/**
 * The default `max_payload` of a server. The largest event of a usual shop needs two thirds of it:
 * docs/decisions/orders-changes.md.
 */
export const NEEDED_PAYLOAD_BYTES = 1024 * 1024
const RECONNECT_MS = 250
// An unreachable server is detected after two intervals.
const PING_INTERVAL_MS = 2_500

export interface Jetstream {
  connection: NatsConnection
  acks: PubAcks
  client: JetStreamClient
  manager: JetStreamManager
}

/** The process's broker connection, opened at first use. It reconnects to any server by itself. */
export class NatsClient {
  readonly #settings: NatsSettings
  readonly #name: string
  readonly #logger: Logger
  #connecting: Promise<Jetstream> | null = null
  #closed = false

  constructor(settings: NatsSettings, name: string, logger: Logger) {
    this.#settings = settings
    this.#name = name
    this.#logger = logger
  }

  /** Returns the connection. Throws if no server can be reached, or if none accepts this client. */
  async get(): Promise<Jetstream> {
    if (this.#closed) throw new Error('the connection to NATS was closed')
    this.#connecting ??= this.#connect().catch((error) => {
      this.#connecting = null
      throw error
    })
    return this.#connecting
  }

  /** Idempotent, safe before the first connection. */
  async close(): Promise<void> {
    this.#closed = true
    const jetstream = await this.#connecting?.catch(() => null)
    await jetstream?.connection.close()
  }

  async #connect(): Promise<Jetstream> {
    const connection = await connect(natsConnectOptions(this.#settings, this.#name))
    this.#logStatus(connection).catch((error) =>
      this.#logger.error({ err: error }, 'the state of the connection to NATS is no longer logged'),
    )
    const { max_payload: maxPayload = NEEDED_PAYLOAD_BYTES } = connection.info ?? {}
    if (maxPayload < NEEDED_PAYLOAD_BYTES)
      this.#logger.warn(
        { maxPayload },
        `NATS takes messages of ${maxPayload} bytes, and large orders need ${NEEDED_PAYLOAD_BYTES}: raise max_payload`,
      )
    // Closed permanently, by `close` or by a server. The next caller opens a new connection.
    const onClosed = () => {
      this.#connecting = null
    }
    connection.closed().then(onClosed, onClosed)
    const manager = await jetstreamManager(connection, { checkAPI: false })
    return { connection, acks: new PubAcks(connection), client: jetstream(connection), manager }
  }

  async #logStatus(connection: NatsConnection): Promise<void> {
    for await (const status of connection.status()) {
      if (status.type === 'disconnect') this.#logger.warn('the connection to NATS broke')
      if (status.type === 'reconnect') this.#logger.info('connected to NATS again')
      if (status.type === 'error') this.#logger.error({ err: status.error }, 'NATS reports an error')
    }
  }
}

/** The options for the driver. Reads the files in the settings, and throws if one of them cannot be read. */
export function natsConnectOptions(settings: NatsSettings, name: string): NodeConnectionOptions {
  const urls = settings.servers.split(',').map((server) => new URL(server.trim()))
  const login = urls.find(({ username }) => username !== '')
  const { caFile, certFile, keyFile, credentialsFile } = settings
  const tls = {
    // The driver does not know this option, but passes it to node:tls.
    checkServerIdentity: identityCheckFor(urls),
    ...(caFile === null ? {} : { caFile }),
    ...(certFile === null ? {} : { certFile }),
    ...(keyFile === null ? {} : { keyFile }),
  }
  const isSecure = urls.some(({ protocol }) => protocol === 'tls:') || caFile !== null || certFile !== null
  return {
    servers: urls.map(({ host }) => host),
    name,
    timeout: CONNECT_TIMEOUT_MS,
    pingInterval: PING_INTERVAL_MS,
    maxPingOut: 2,
    maxReconnectAttempts: -1,
    reconnectTimeWait: RECONNECT_MS,
    reconnectJitter: RECONNECT_MS,
    // With this option, the client keeps reconnecting while a password is changed on the servers.
    ignoreAuthErrorAbort: true,
    // Otherwise each request would create two errors in advance for their stacks.
    noAsyncTraces: true,
    ...(login === undefined ? {} : loginOf(login)),
    ...(credentialsFile === null ? {} : { authenticator: credsAuthenticator(readFileSync(credentialsFile)) }),
    ...(isSecure ? { tls } : {}),
  }
}

/**
 * Checks that the certificate is for an address in the settings. For a server with an IP address, the driver passes no
 * name, so node:tls would check the certificate for `localhost` (https://github.com/nats-io/nats.js/issues/303).
 */
function identityCheckFor(urls: readonly URL[]) {
  const addresses = urls
    .map(({ hostname }) => hostname.replace(/^\[(.*)\]$/, '$1'))
    .filter((host) => isIP(host) !== 0 || host === 'localhost')
  return (name: string, certificate: PeerCertificate): Error | undefined => {
    const expected = name === 'localhost' && addresses.length > 0 ? addresses : [name]
    const errors = expected.map((host) => checkServerIdentity(host, certificate))
    return errors.includes(undefined) ? undefined : errors[0]
  }
}

function loginOf({ username, password }: URL) {
  if (password === '') return { token: decodeURIComponent(username) }
  return { user: decodeURIComponent(username), pass: decodeURIComponent(password) }
}

/** Whether the error means that the broker is unavailable, does not answer, or rejects this client. */
export function isBrokerError(error: unknown): error is Error {
  return Object.values(errors).some((type) => error instanceof type)
}

/** The `err_code` of a server's error, as listed by `nats errors ls`. Null for any other error. */
export function jetstreamErrorCode(error: unknown): number | null {
  return error instanceof JetStreamApiError ? error.code : null
}
