import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pino from 'pino'
import { prepareDatabase } from '../../src/app/prepare-database.ts'
import { dataFolder } from '../../src/db/data-folder.ts'
import { startEmbeddedPostgres } from '../../src/db/embedded-postgres.ts'
import { createPool, type Pool } from '../../src/db/pool.ts'
import { COMMAND_BOUNDS } from '../../src/db/session-settings.ts'
import { freePort } from '../../test/free-port.ts'

export interface StoreProcess {
  url: string
  port: number
  pool: Pool
  /** Registers a customer over HTTP. */
  register(): Promise<{ userId: string; token: string }>
  stop(): Promise<void>
}

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url))

/**
 * PostgreSQL as `npm start` starts it (durable: fsync and synchronous_commit are on), and the store's API as a process of its own, on
 * loopback. Its log, at level info as in production, goes to a file.
 */
export async function startStoreProcess(poolSize: number, env: Record<string, string> = {}): Promise<StoreProcess> {
  const dataDir = mkdtempSync(join(tmpdir(), 'storefront-bench-'))
  const server = await startEmbeddedPostgres(dataFolder(dataDir))
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
  return {
    url: server.url,
    port,
    pool,
    async register() {
      const answer = await fetch(`${address}/auth/register`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ email: `${crypto.randomUUID()}@example.com`, password: 'a long enough passphrase' }),
      })
      const { user, access_token } = (await answer.json()) as { user: { id: string }; access_token: string }
      return { userId: user.id, token: access_token }
    },
    async stop() {
      const exit = once(child, 'exit')
      child.kill('SIGTERM')
      await exit
      await pool.end()
      await server.stop()
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
