import type { Socket } from 'node:net'
import pg from 'pg'
import { confirmIncarnation } from './confirm-incarnation.ts'
import { COMMAND_BOUNDS, SERVING_BOUNDS, type SessionBounds, setUpSession } from './session-settings.ts'
import { READ_ONLY_TRANSACTION } from './sql-state.ts'

export type Pool = pg.Pool
/** A connection with an open transaction. A function that takes one must not outlive it. */
export type Transaction = pg.PoolClient & { readonly __transaction?: never }
/** A connection for statements that are correct inside and outside a transaction. */
export type Queryable = Pick<pg.ClientBase, 'query'>

// All int8 columns (money in minor units, sequences, stock) are below 2^53, by constraint or because nothing counts that far.
const types: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') => {
    if (oid === pg.types.builtins.INT8) return Number
    return pg.types.getTypeParser(oid, format)
  }) as typeof pg.types.getTypeParser,
}

export interface PoolOptions {
  url: string
  size: number
  /** The name in `pg_stat_activity`. */
  applicationName: string
  onError: (error: Error) => void
  /** Connections that stay open when nothing uses them, once they are open; none by default. */
  kept?: number
  /** Default: `SERVING_BOUNDS`. */
  bounds?: SessionBounds
  /** The process's knowledge of the database; by default none. */
  witness?: DatabaseWitness | undefined
}

/** A process's knowledge of its database, whichever server a connection leads to. */
export interface DatabaseWitness {
  /** The greatest order number that the process has given to a customer, 0 for none. */
  readonly orderNumber: number
  /** Called when a new connection has found another server, or an older state, and an incarnation has begun. */
  onIncarnation(reason: string): void
}

/**
 * Closes its socket when it cannot connect: `pg` leaves it open, which keeps the process alive until the server times out after a minute.
 * A connection that breaks does not end the process: its statements reject, and it emits `end`. That holds from its first byte, since the
 * server may end a session in the packet in which it accepts it, before a caller can listen.
 * Adds the `role` and the `database` of the address to the error: PostgreSQL's message does not always contain them.
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

/** The server ends each statement earlier: a connection in use on which no byte moves for longer is dead, though no packet reports it. */
const DEAD_AFTER_STATEMENTS = 1.5
/** The time until the kernel probes an unused connection; it gives up ten seconds later. */
const KEEP_ALIVE_DELAY_MS = 10_000

/**
 * A pool of connections. `onError` is called when an idle connection breaks. Each new connection compares its server with the newest
 * incarnation before anything else is sent on it: what `confirmIncarnation` throws, the caller that waits for the connection gets.
 */
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
    // Statements that do not depend on each other's results may be sent together.
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

/** `pg` types it as any stream. */
export function socketOf(client: pg.ClientBase): Socket {
  return (client as pg.Client).connection.stream as Socket
}

const CONNECT_TIMEOUT_MS = 30_000

/**
 * A connection outside any pool, for LISTEN, session locks and commands. Rejects with SQLSTATE 25006 on a standby, whose promotion would not end
 * the connection: what it reads there may be old, and a lock binds nobody. When `signal` aborts, connecting rejects at once, also to a server that
 * does not answer.
 */
export function connectClient(url: string, applicationName: string, signal?: AbortSignal, bounds?: SessionBounds): Promise<Client> {
  return connect(url, { applicationName, signal, bounds }, refuseStandby)
}

/** Like `connectClient`, but accepts a standby. */
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
    keepAlive: true,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    types,
    // Pools have it too: a ping may be sent while another statement is executing.
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

/** Connects and runs `setUp`. When `signal` aborts, both reject at once. */
export async function connectUnlessAborted(client: pg.Client, signal?: AbortSignal, setUp = async (): Promise<void> => {}): Promise<void> {
  signal?.throwIfAborted()
  const abandon = () => abandonClient(client)
  signal?.addEventListener('abort', abandon)
  try {
    await client.connect()
    await setUp()
  } catch (error) {
    // A session without its set-up would have no bounds.
    abandon()
    throw error
  } finally {
    signal?.removeEventListener('abort', abandon)
  }
}

/** Closes the connection without telling the server, which may not answer. Pending statements reject. */
export function abandonClient(client: pg.Client): void {
  client.connection.stream.destroy()
}
