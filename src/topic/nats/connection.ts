import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { checkServerIdentity, type PeerCertificate } from 'node:tls'
import { JetStreamApiError, type JetStreamClient, type JetStreamManager, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, credsAuthenticator, errors, type NatsConnection, type NodeConnectionOptions } from '@nats-io/transport-node'
import type { Logger } from 'pino'
import { PubAcks } from './acks.ts'

export interface NatsSettings {
  /** `nats://` or `tls://` addresses of servers, separated by commas. The first `user:password@` or `token@` is used. */
  servers: string
  /** Paths, null for none: a credentials file (JWT and NKey), and PEM files of the authority and the client's certificate. */
  credentialsFile: string | null
  caFile: string | null
  certFile: string | null
  keyFile: string | null
}

const CONNECT_TIMEOUT_MS = 5_000
/**
 * The default of a server. The largest event of a usual shop needs two thirds of it: see
 * docs/decisions/orders-changes.md.
 */
export const NEEDED_PAYLOAD_BYTES = 1024 * 1024
const RECONNECT_MS = 250
// A server that is cut off is detected after two intervals.
const PING_INTERVAL_MS = 2_500

export interface Jetstream {
  connection: NatsConnection
  acks: PubAcks
  client: JetStreamClient
  manager: JetStreamManager
}

/** The process's connection to the broker, opened at first use; it reconnects by itself, to any server. */
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

  /** Throws when no server can be reached, or none accepts this client. */
  async get(): Promise<Jetstream> {
    if (this.#closed) throw new Error('the connection to NATS was closed')
    this.#connecting ??= this.#connect().catch((error) => {
      this.#connecting = null
      throw error
    })
    return this.#connecting
  }

  /** Idempotent, safe before anything was connected. */
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
    // Closed permanently, by `close` or by a server: the next caller opens a new connection.
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

/** The driver's options. Reads the files named in the settings; throws when one cannot be read. */
export function natsConnectOptions(settings: NatsSettings, name: string): NodeConnectionOptions {
  const urls = settings.servers.split(',').map((server) => new URL(server.trim()))
  const login = urls.find(({ username }) => username !== '')
  const { caFile, certFile, keyFile, credentialsFile } = settings
  const tls = {
    // The driver has no such option: it passes unknown ones on to node:tls.
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
    // Continue while a password is being changed on the servers.
    ignoreAuthErrorAbort: true,
    // Otherwise every request creates two errors in advance, for their stacks.
    noAsyncTraces: true,
    ...(login === undefined ? {} : loginOf(login)),
    ...(credentialsFile === null ? {} : { authenticator: credsAuthenticator(readFileSync(credentialsFile)) }),
    ...(isSecure ? { tls } : {}),
  }
}

/**
 * For a server with an IP address the driver passes no name, and node:tls then checks the certificate for `localhost`
 * (https://github.com/nats-io/nats.js/issues/303). This check requires a certificate for one of the addresses in the settings.
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

/** Whether the driver reports that the broker is unavailable, does not answer, or does not accept this client. */
export function isBrokerError(error: unknown): error is Error {
  return Object.values(errors).some((type) => error instanceof type)
}

/** The server's `err_code`, as `nats errors ls` lists them; null for any other error. */
export function jetstreamErrorCode(error: unknown): number | null {
  return error instanceof JetStreamApiError ? error.code : null
}
