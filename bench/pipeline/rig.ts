import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import pino from 'pino'
import { Broker } from '../../faults/broker.ts'
import { createTopic } from '../../src/app/create-topic.ts'
import { prepareDatabase } from '../../src/app/prepare-database.ts'
import { readConfig } from '../../src/config.ts'
import { dataFolder } from '../../src/db/embedded/data-folder.ts'
import { startEmbeddedPostgres } from '../../src/db/embedded/embedded-postgres.ts'
import { createPool, type Pool } from '../../src/db/pool.ts'
import { COMMAND_BOUNDS } from '../../src/db/session-settings.ts'
import type { Topic } from '../../src/topic/topic.ts'
import { type Cleanup, onCleanup } from '../../test/cleanup.ts'
import { startNatsServer } from '../../test/nats-server.ts'
import { parentOf } from '../orders/processor-time.ts'
import { nowMs } from './clock.ts'

export type TopicKind = 'postgres' | 'nats'

/** The servers and folders of a store of several processes. `cleanup` removes them all. */
export interface Rig {
  url: string
  pool: Pool
  /** The store's topic, in this process. */
  topic: Topic
  lake: string
  countMessages(): Promise<number>
  /** Starts `storefront serve` with one role. Returns when it is active, with the time of its log line. */
  startRole(role: 'stream' | 'lake' | 'email'): Promise<{ activeAtMs: number; pid: number; stop(): Promise<void> }>
  /** The process of PostgreSQL whose descendants are its others. */
  postgresPid: number
}

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
// As pino numbers its levels.
const WARN = 40
const SIGNS_OF_WORK = ['change stream is active', 'subscriber is active']

/** PostgreSQL as `npm start` starts it (durable: fsync and synchronous_commit are on) and, for the topic in NATS, one server of it. */
export async function startRig(cleanup: Cleanup, kind: TopicKind, moreSettings: Record<string, string> = {}): Promise<Rig> {
  const dataDir = mkdtempSync(join(tmpdir(), 'storefront-bench-'))
  onCleanup(cleanup, () => rmSync(dataDir, { recursive: true, force: true }))
  const server = await startEmbeddedPostgres(dataFolder(dataDir))
  onCleanup(cleanup, () => server.stop())
  const pool = createPool({ url: server.addresses.owner, size: 4, applicationName: 'bench', onError: () => {}, bounds: COMMAND_BOUNDS })
  onCleanup(cleanup, () => pool.end())
  const logger = pino({ level: 'silent' })
  await prepareDatabase(server.addresses, logger)
  const broker = kind === 'nats' ? await Broker.open(cleanup, [(await startNatsServer(cleanup)).url], 1) : null
  const settings = {
    DATABASE_URL: server.addresses.api,
    DATABASE_STREAM_URL: server.addresses.stream,
    DATA_DIR: join(dataDir, 'store'),
    STOREFRONT_SECRET: 'a secret for the benchmark, long enough',
    LAKE_FLUSH_SECONDS: '1',
    LOG_LEVEL: 'info',
    PORT: '0',
    OPS_PORT: '0',
    ...(broker === null ? {} : { NATS_URL: broker.servers }),
    ...moreSettings,
  }
  const topic = createTopic(readConfig(settings), { pool, url: server.addresses.owner, logger })
  onCleanup(cleanup, () => topic.stop())
  const { rows } = await pool.query<{ pid: number }>('select pg_backend_pid() as pid')
  return {
    url: server.addresses.owner,
    postgresPid: parentOf(rows[0]?.pid ?? 0),
    pool,
    topic,
    lake: dataFolder(settings.DATA_DIR).lake,
    countMessages: () => (broker === null ? countRows(pool) : broker.countMessages()),
    startRole: (role) => startRole(cleanup, role, settings),
  }
}

/** From the newest sequence: counting rows repeatedly would add to the measured load. */
async function countRows(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ newest: number | null }>('select max(sequence) as newest from topic_messages')
  return rows[0]?.newest ?? 0
}

async function startRole(cleanup: Cleanup, role: string, settings: Record<string, string>) {
  const flags = (process.env.BENCH_NODE_FLAGS ?? '').split(' ').filter((flag) => flag !== '')
  const child = spawn(process.execPath, [...flags, MAIN, 'serve', '--role', role], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { PATH: process.env.PATH, ...settings },
  })
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const exit = once(child, 'exit')
    child.kill('SIGTERM')
    await exit
  }
  onCleanup(cleanup, stop)
  return { activeAtMs: await untilActive(child, role), pid: child.pid ?? 0, stop }
}

function untilActive(child: ChildProcess, role: string): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  child.once('exit', (code) => reject(new Error(`the role ${role} ended with ${code}`)))
  if (child.stdout === null) throw new Error('the process has no output')
  createInterface(child.stdout).on('line', (line) => {
    const { msg, level } = JSON.parse(line) as { msg: string; level: number }
    if (SIGNS_OF_WORK.includes(msg)) resolve(nowMs())
    // Retries would distort the figure.
    else if (level >= WARN) console.error(`${role}: ${line}`)
  })
  return promise
}
