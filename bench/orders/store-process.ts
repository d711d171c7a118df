import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pino from 'pino'
import { prepareDatabase } from '../../src/app/prepare-database.ts'
import { type DatabaseAddresses, oneRole } from '../../src/db/addresses.ts'
import { dataFolder } from '../../src/db/embedded/data-folder.ts'
import { startEmbeddedPostgres } from '../../src/db/embedded/embedded-postgres.ts'
import { createPool, type Pool } from '../../src/db/pool.ts'
import { COMMAND_BOUNDS } from '../../src/db/session-settings.ts'
import { type Cleanup, onCleanup } from '../../test/cleanup.ts'
import { startDebianPostgres } from '../../test/debian-postgres.ts'
import { freePort } from '../../test/free-port.ts'
import { parentOf } from './processor-time.ts'

export interface StoreProcess {
  url: string
  port: number
  pool: Pool
  apiPid: number
  postgresPid: number
  /** Registers a customer over HTTP. */
  register(): Promise<{ userId: string; token: string }>
  /** Registers an operator, and returns an access token. */
  registerOperator(): Promise<string>
  stop(): Promise<void>
}

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url))

/** `embedded` as `npm start` starts it; `defaults`: the same with PostgreSQL's own default of `jit`; `debian`: the one that Debian has here, as it is. */
export type Server = 'embedded' | 'defaults' | 'debian'

async function startServer(cleanup: Cleanup, dataDir: string, server: Server): Promise<{ url: string; addresses: DatabaseAddresses }> {
  if (server === 'debian') {
    const postgres = await startDebianPostgres(cleanup, { wal_level: 'logical' })
    const { url } = await postgres.createDatabase('C.UTF-8')
    return { url, addresses: oneRole(url) }
  }
  const embedded = await startEmbeddedPostgres(dataFolder(dataDir), server === 'defaults' ? { settings: { jit: 'on' } } : {})
  onCleanup(cleanup, () => embedded.stop())
  return embedded
}

/**
 * PostgreSQL as `npm start` starts it (durable: fsync and synchronous_commit are on), and the store's API as a process of its own, on
 * loopback. Its log, at level info as in production, goes to a file.
 */
export async function startStoreProcess(
  poolSize: number,
  env: Record<string, string> = {},
  kind: Server = 'embedded',
): Promise<StoreProcess> {
  const dataDir = mkdtempSync(join(tmpdir(), 'storefront-bench-'))
  const undo: (() => Promise<void> | void)[] = []
  const server = await startServer({ after: (work) => void undo.push(work) }, dataDir, kind)
  const pool = createPool({ url: server.url, size: 4, applicationName: 'bench', onError: () => {}, bounds: COMMAND_BOUNDS })
  await prepareDatabase(server.addresses, pino({ level: 'silent' }))
  const port = await freePort()
  const log = openSync(join(dataDir, 'store.log'), 'a')
  const flags = (process.env.BENCH_NODE_FLAGS ?? '').split(' ').filter((flag) => flag !== '')
  const child = spawn(process.execPath, [...flags, MAIN, 'serve', '--role', 'api'], {
    stdio: ['ignore', log, log],
    env: {
      ...process.env,
      PORT: String(port),
      OPS_PORT: '0',
      DATABASE_URL: Object.assign(new URL(server.addresses.api), { search: '' }).href,
      DATABASE_POOL_SIZE: String(poolSize),
      STOREFRONT_SECRET: 'a secret for the benchmark, long enough',
      // All clients come from one address, and register at once.
      RATE_LIMITS: 'off',
      // Few accounts place everything, and nobody confirms it. A number, so that it is compared as in production.
      MAX_PENDING_ORDERS_PER_USER: '1000000',
      LOG_LEVEL: 'info',
      ...env,
    },
  })
  const address = `http://127.0.0.1:${port}`
  await untilReady(`${address}/livez`)
  const credentials = () => ({ email: `${crypto.randomUUID()}@example.com`, password: 'a long enough passphrase' })
  const post = async (path: string, body: object) => {
    const answer = await fetch(`${address}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    return (await answer.json()) as { user: { id: string }; access_token: string }
  }
  const { rows } = await pool.query<{ pid: number }>('select pg_backend_pid() as pid')
  return {
    url: server.url,
    port,
    pool,
    apiPid: child.pid ?? 0,
    postgresPid: parentOf(rows[0]?.pid ?? 0),
    async register() {
      const { user, access_token } = await post('/auth/register', credentials())
      return { userId: user.id, token: access_token }
    },
    async registerOperator() {
      const mine = credentials()
      const { user } = await post('/auth/register', mine)
      await pool.query(`update users set role = 'admin' where id = $1`, [user.id])
      return (await post('/auth/login', mine)).access_token
    },
    async stop() {
      const exit = once(child, 'exit')
      child.kill('SIGTERM')
      await exit
      await pool.end()
      for (const work of undo) await work()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

async function untilReady(url: string): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    try {
      if ((await fetch(url)).ok) return
    } catch (error) {
      if (attempt > 200) throw error
    }
    await delay(50)
  }
}
