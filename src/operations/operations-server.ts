import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Server as Listener } from 'node:net'
import type { Logger } from 'pino'
import { firstAddressOf, listenAtIpv6 } from '../loopback.ts'
import type { Metrics } from './metrics.ts'

export interface OperationsServerOptions {
  host: string
  port: number
  /** Whether a port in use fails the start. Otherwise the store runs without the port. */
  isRequired: boolean
  metrics: Pick<Metrics, 'contentType' | 'text'>
  /** The database's id, by which `doctor` recognises another store's process. */
  database: string
  /** The parts that are not ready, with a reason, and their process among several. Empty when everything is healthy. */
  check: () => Promise<{ name: string; reason: string; process?: number }[]>
  logger: Logger
  /** Whether the port answers at this value of `Host`. */
  isOwnHost: (host: string | undefined) => boolean
}

/** Serves `/metrics`, `/livez` and `/readyz` on a port that customers cannot reach. */
export class OperationsServer {
  readonly #options: OperationsServerOptions
  readonly #server: Server
  #second: Listener | null = null
  #phase: 'starting' | 'started' | 'stopping' = 'starting'

  constructor(options: OperationsServerOptions) {
    this.#options = options
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch((error) => {
        options.logger.warn({ err: error }, 'the operations port could not answer')
        if (!response.headersSent) response.writeHead(500)
        response.end()
      })
    })
  }

  get port(): number | null {
    const address = this.#server.address()
    return address === null || typeof address === 'string' ? null : address.port
  }

  /** Sets the phase in `/readyz`. */
  set phase(phase: 'started' | 'stopping') {
    this.#phase = phase
  }

  async start(): Promise<void> {
    const { host, port, isRequired, logger } = this.#options
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#server.once('error', reject)
    this.#server.listen(port, firstAddressOf(host), resolve)
    try {
      await promise
      this.#second = await listenAtIpv6(this.#server, { host, mayBeTaken: port === 0 || !isRequired })
      logger.info({ host, port: this.port }, 'metrics and health are at the operations port')
    } catch (error) {
      if (isRequired || (error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
      logger.warn({ host, port }, 'the operations port is taken, so this start has no metrics; set OPS_PORT to another port, or to off')
    }
  }

  /** Idempotent, safe before start. */
  async stop(): Promise<void> {
    if (!this.#server.listening) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#second?.close()
    this.#server.close(() => resolve())
    this.#server.closeAllConnections()
    await promise
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url?.split('?', 1)[0] ?? ''
    response.setHeader('cache-control', 'no-store')
    if (!this.#options.isOwnHost(request.headers.host))
      return sendJson(response, 421, {
        status: 'this port answers at addresses, localhost, the host of BASE_URL and the names in ALLOWED_HOSTS',
      })
    if (!PATHS.includes(path)) return sendJson(response, 404, { status: 'there is nothing at this address', paths: PATHS })
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.setHeader('allow', 'GET, HEAD')
      return sendJson(response, 405, { status: 'only GET and HEAD' })
    }
    if (path === '/livez') return sendJson(response, 200, { status: 'ok' })
    if (path === '/metrics') {
      const text = await this.#options.metrics.text()
      response.writeHead(200, { 'content-type': this.#options.metrics.contentType }).end(text)
      return
    }
    const failing = this.#phase === 'started' ? await this.#options.check() : [{ name: 'process', reason: `the process is ${this.#phase}` }]
    const { database } = this.#options
    if (failing.length === 0) sendJson(response, 200, { status: 'ok', database })
    else sendJson(response, 503, { status: 'unavailable', failing, database })
  }
}

const PATHS = ['/metrics', '/livez', '/readyz']

function sendJson(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' }).end(JSON.stringify(body))
}
