import type { Socket } from 'node:net'
import pg from 'pg'
import { confirmIncarnation } from './confirm-incarnation.ts'
import { COMMAND_BOUNDS, SERVING_BOUNDS, type SessionBounds, setUpSession } from './session-settings.ts'
import { READ_ONLY_TRANSACTION } from './sql-state.ts'

export type Pool = pg.Pool
export type Transaction = pg.PoolClient & { readonly __transaction?: never }
export type Queryable = Pick<pg.ClientBase, 'query'>

// All int8 columns (money, sequences, stock) are below 2^53: a constraint ensures it, or nothing counts that far.
const types: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') => {
    if (oid === pg.types.builtins.INT8) return Number
    return pg.types.getTypeParser(oid, format)
  }) as typeof pg.types.getTypeParser,
}

export interface PoolOptions {
  url: string
  size: number
  applicationName: string
  onError: (error: Error) => void
  kept?: number
  bounds?: SessionBounds
  witness?: DatabaseWitness | undefined
}

export interface DatabaseWitness {
  readonly orderNumber: number
  /** Called when a new connection has found another server or an older state and an incarnation has begun. */
  onIncarnation(reason: string): void
}

/**
 * A client that closes its socket if it cannot connect, which `pg` would leave open for a minute. A broken connection
 * rejects its statements without ending the process. Errors contain the address's `role` and `database`.
 */
class ClosingClient extends pg.Client {
  constructor(config?: pg.ClientConfig) {
    super(config)
    this.on('error', () => {})
  }

  override connect(): Promise<pg.Client>
  override connect(callback: (error: Error | null) => void): void
  override connect(callback?: (error: Error | null) => void): Promise<pg.Client> | undefined {
    const connecting = super.connect().catch((error: Error) => {
      abandonClient(this)
      throw Object.assign(error, { role: this.user, database: this.database })
    })
    if (callback === undefined) return connecting
    connecting.then(() => callback(null), callback)
    return undefined
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end()
  }
}

/** The server ends each statement earlier, so a longer silence means a dead connection that no packet reports. */
const DEAD_AFTER_STATEMENTS = 1.5
/** The kernel probes an unused connection after this time, and gives up ten seconds later. */
const KEEP_ALIVE_DELAY_MS = 10_000

/** Each new connection first runs `confirmIncarnation`, whose errors the waiting caller gets. */
export function createPool(options: PoolOptions): Pool {
  const { bounds = SERVING_BOUNDS, witness } = options
  const deadAfterMs = DEAD_AFTER_STATEMENTS * bounds.statement
  const pool = new pg.Pool({
    Client: ClosingClient,
    connectionString: options.url,
    max: options.size,
    min: options.kept ?? 0,
    application_name: options.applicationName,
    connectionTimeoutMillis: 5_000,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_DELAY_MS,
    types,
    // Lets statements that do not depend on each other's results be sent together.
    pipeline: true,
    async onConnect(client) {
      const socket = socketOf(client)
      socket.setTimeout(deadAfterMs).on('timeout', () => socket.destroy())
      await setUpSession(client, bounds)
      const reason = await confirmIncarnation(client, witness?.orderNumber)
      if (reason !== null) witness?.onIncarnation(reason)
    },
  })
  pool.on('error', options.onError)
  pool.on('acquire', (client) => void socketOf(client).setTimeout(deadAfterMs))
  pool.on('release', (_error, client) => void socketOf(client).setTimeout(0))
  return pool
}

export function socketOf(client: pg.ClientBase): Socket {
  return (client as pg.Client).connection.stream as Socket
}

export const CONNECT_TIMEOUT_MS = 30_000
/** The settings of a connection that stays open outside a pool. */
export const LASTING_CONNECTION = {
  connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  keepAlive: true,
  keepAliveInitialDelayMillis: KEEP_ALIVE_DELAY_MS,
} as const

/** Rejects with SQLSTATE 25006 on a standby, whose promotion would not end the connection, and when `signal` aborts. */
export function connectClient(url: string, applicationName: string, signal?: AbortSignal, bounds?: SessionBounds): Promise<Client> {
  return connect(url, { applicationName, signal, bounds }, refuseStandby)
}

export function connectToAny(url: string, applicationName: string, signal?: AbortSignal, bounds?: SessionBounds): Promise<Client> {
  return connect(url, { applicationName, signal, bounds })
}

type Client = pg.Client & AsyncDisposable

async function connect(
  url: string,
  options: { applicationName: string; signal: AbortSignal | undefined; bounds: SessionBounds | undefined },
  examine = async (_client: pg.Client): Promise<void> => {},
): Promise<Client> {
  const { applicationName, signal, bounds = COMMAND_BOUNDS } = options
  const client = new ClosingClient({
    connectionString: url,
    application_name: applicationName,
    ...LASTING_CONNECTION,
    types,
    pipeline: true,
  } as pg.ClientConfig)
  await connectUnlessAborted(client, signal, async () => {
    await setUpSession(client, bounds)
    await examine(client)
  })
  return client
}

async function refuseStandby(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ is_standby: boolean }>('select pg_catalog.pg_is_in_recovery() as is_standby')
  if (rows[0]?.is_standby === true)
    throw Object.assign(new Error('the server is a standby that is not promoted'), { code: READ_ONLY_TRANSACTION })
}

/** Connects and runs `setUp`. Rejects at once when `signal` aborts. */
export async function connectUnlessAborted(client: pg.Client, signal?: AbortSignal, setUp = async (): Promise<void> => {}): Promise<void> {
  signal?.throwIfAborted()
  const abandon = () => abandonClient(client)
  signal?.addEventListener('abort', abandon)
  try {
    await client.connect()
    await setUp()
  } catch (error) {
    // A session whose set-up failed would have no timeouts.
    abandon()
    throw error
  } finally {
    signal?.removeEventListener('abort', abandon)
  }
}

/** Closes a connection without a message to the server, which may not answer. Pending statements reject. */
export function abandonClient(client: pg.Client): void {
  client.connection.stream.destroy()
}
