import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pino from 'pino'
import { Broker } from '../../faults/broker.ts'
import { createTopic } from '../../src/app/create-topic.ts'
import { prepareDatabase } from '../../src/app/prepare-database.ts'
import { type Role, readConfig } from '../../src/config.ts'
import { type DatabaseAddresses, oneRole } from '../../src/db/addresses.ts'
import { dataFolder } from '../../src/db/embedded/data-folder.ts'
import { startEmbeddedPostgres } from '../../src/db/embedded/embedded-postgres.ts'
import { createPool, type Pool } from '../../src/db/pool.ts'
import { COMMAND_BOUNDS } from '../../src/db/session-settings.ts'
import type { Topic } from '../../src/topic/topic.ts'
import { type Cleanup, onCleanup } from '../../test/cleanup.ts'
import { startDebianPostgres } from '../../test/debian-postgres.ts'
import { eventually } from '../../test/eventually.ts'
import { freePort } from '../../test/free-port.ts'
import { startNatsServer } from '../../test/nats-server.ts'
import { nowMs } from './clock.ts'
import { parentOf } from './processor-time.ts'

export type TopicKind = 'postgres' | 'nats'

/**
 * The PostgreSQL server: `embedded` like in `npm start`, `defaults` like that with PostgreSQL's own default of `jit`,
 * and `debian` the unchanged one of the installed Debian package.
 */
export type Server = 'embedded' | 'defaults' | 'debian'

export interface StoreOptions {
  topic?: TopicKind
  server?: Server
  /** Whether store and floor connect by TCP. By default they use a Unix socket, like `npm start`. */
  isTcp?: boolean
  env?: Record<string, string>
}

/** The servers and folders of a store, without its processes. */
export interface Store {
  url: string
  pool: Pool
  /** The main process of PostgreSQL. */
  postgresPid: number
  /** The store's topic, in this process. */
  topic: Topic
  dataDir: string
  lake: string
  settings: Record<string, string>
  countMessages(): Promise<number>
  /** Starts `storefront serve` with one role, or with all of them. Returns once it works. */
  start(role: Role | 'all', env?: Record<string, string>): Promise<Running>
}

export interface Running {
  pid: number
  /** The port of the API, if the process has one. */
  port: number
  /** The time at which its last role became active, by `nowMs`. */
  activeAtMs: number
  /** The address of its inspector. Null without `--inspect` in BENCH_NODE_FLAGS. */
  inspectorUrl: string | null
  stop(): Promise<void>
}

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
const SHOWN_WARNINGS = 5
const EXPECTED_WARNING = /set EMAIL_VERIFICATION=required/
const SUBSCRIBES = /^subscriber is active/
const SIGNS_OF_WORK: Partial<Record<Role, RegExp>> = { api: /^Storefront answers/, stream: /^change stream is active/ }

/**
 * Starts PostgreSQL like `npm start` (durable: fsync and synchronous_commit are on) and, for the topic in NATS, one
 * NATS server.
 */
export async function openStore(cleanup: Cleanup, options: StoreOptions = {}): Promise<Store> {
  const { topic: kind = 'postgres', server = 'embedded', isTcp = false, env = {} } = options
  const dataDir = mkdtempSync(join(tmpdir(), 'storefront-bench-'))
  onCleanup(cleanup, () => rmSync(dataDir, { recursive: true, force: true }))
  const addresses = await startServer(cleanup, dataDir, server, isTcp)
  const pool = createPool({ url: addresses.owner, size: 4, applicationName: 'bench', onError: () => {}, bounds: COMMAND_BOUNDS })
  onCleanup(cleanup, () => pool.end())
  const logger = pino({ level: 'silent' })
  await prepareDatabase(addresses, logger)
  const broker = kind === 'nats' ? await Broker.open(cleanup, [(await startNatsServer(cleanup)).url], 1) : null
  const settings = {
    DATABASE_URL: addresses.api,
    DATABASE_STREAM_URL: addresses.stream,
    DATA_DIR: join(dataDir, 'store'),
    STOREFRONT_SECRET: 'a secret for the benchmark, long enough',
    LAKE_FLUSH_SECONDS: '1',
    LOG_LEVEL: 'info',
    // All clients come from one address and register at once.
    RATE_LIMITS: 'off',
    // A few accounts place all orders, and nobody confirms them. The setting is a number, so the store compares it like
    // in production.
    MAX_PENDING_ORDERS_PER_USER: '1000000',
    MAIL_MAX_PER_HOUR: '0',
    OPS_PORT: '0',
    BASE_URL: 'http://localhost:3000',
    ...(broker === null ? {} : { NATS_URL: broker.servers }),
    ...tracesSettings(),
    ...env,
  }
  const topic = await createTopic(readConfig(settings), { pool, url: addresses.owner, logger })
  onCleanup(cleanup, () => topic.stop())
  const { rows } = await pool.query<{ pid: number }>('select pg_backend_pid() as pid')
  return {
    url: addresses.owner,
    postgresPid: parentOf(rows[0]?.pid ?? 0),
    pool,
    topic,
    dataDir,
    lake: dataFolder(settings.DATA_DIR).lake,
    settings,
    countMessages: () => (broker === null ? countRows(pool) : broker.countMessages()),
    start: (role, more = {}) => startProcess(cleanup, role, dataDir, { ...settings, ...more }),
  }
}

/** The environment's OpenTelemetry settings, to measure the cost of traces. */
function tracesSettings(): Record<string, string> {
  return Object.fromEntries(Object.entries(process.env).flatMap(([name, value = '']) => (name.startsWith('OTEL_') ? [[name, value]] : [])))
}

async function startServer(cleanup: Cleanup, dataDir: string, server: Server, isTcp: boolean): Promise<DatabaseAddresses> {
  if (server === 'debian') {
    const postgres = await startDebianPostgres(cleanup, { wal_level: 'logical' })
    return oneRole((await postgres.createDatabase('C.UTF-8')).url)
  }
  const embedded = await startEmbeddedPostgres(dataFolder(dataDir), server === 'defaults' ? { settings: { jit: 'on' } } : {})
  onCleanup(cleanup, () => embedded.stop())
  const { api, stream, owner } = embedded.addresses
  const byTcp = (url: string) => (isTcp ? Object.assign(new URL(url), { search: '' }).href : url)
  return { api: byTcp(api), stream: byTcp(stream), owner: byTcp(owner) }
}

/** The number of rows. It is the newest sequence, because counting rows repeatedly would add to the measured load. */
async function countRows(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ newest: number | null }>('select max(sequence) as newest from topic_messages')
  return rows[0]?.newest ?? 0
}

async function startProcess(cleanup: Cleanup, role: Role | 'all', dataDir: string, env: Record<string, string>): Promise<Running> {
  const flags = (process.env.BENCH_NODE_FLAGS ?? '').split(' ').filter((flag) => flag !== '')
  const port = await freePort()
  // The log goes to a file, because reading each line of a pipe would take processor time from the measured processes.
  const logFile = join(dataDir, `${role}-${port}.log`)
  const file = openSync(logFile, 'a')
  const child = spawn(process.execPath, [...flags, MAIN, 'serve', ...(role === 'all' ? [] : ['--role', role])], {
    stdio: ['ignore', file, 'pipe'],
    env: { PATH: process.env.PATH, PORT: String(port), ...env },
  })
  closeSync(file)
  let inspectorUrl: string | null = null
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    inspectorUrl ??= /^Debugger listening on (ws:\S+)/m.exec(text)?.[1] ?? null
    if (!text.includes('nodejs.org/') || inspectorUrl === null) process.stderr.write(text)
  })
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const exit = once(child, 'exit')
    child.kill('SIGTERM')
    await exit
    printWarnings(role, logFile)
  }
  onCleanup(cleanup, stop)
  const signs = role === 'all' ? [...Object.values(SIGNS_OF_WORK), SUBSCRIBES] : [SIGNS_OF_WORK[role] ?? SUBSCRIBES]
  const activeAtMs = await eventually(
    async () => {
      if (child.exitCode !== null) throw new Error(`the process with the role ${role} ended with ${child.exitCode}`)
      const lines = readLog(logFile)
      const signed = signs.map((sign) => lines.findLast(({ msg }) => sign.test(msg)))
      // The lines contain the time of day.
      const agesMs = signed.map((line) => (line === undefined ? null : Date.now() - line.time))
      return agesMs.includes(null) ? false : nowMs() - Math.min(...agesMs.map(Number))
    },
    { what: `the role ${role} at work` },
  )
  return { pid: child.pid ?? 0, port, activeAtMs, inspectorUrl, stop }
}

function readLog(file: string): { time: number; msg: string }[] {
  const text = readFileSync(file, 'utf8')
  return text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .flatMap((line) => (line.startsWith('{') ? [JSON.parse(line)] : []))
}

/**
 * Prints the first warnings of a log, because retries distort a measurement. The log of a loaded API is too long to be
 * parsed here.
 */
function printWarnings(role: string, logFile: string): void {
  const { stdout } = spawnSync('grep', ['-m', String(SHOWN_WARNINGS), '-E', '^\\{"level":[4-6]0,', logFile], { encoding: 'utf8' })
  for (const line of stdout.split('\n').filter((line) => line !== '' && !EXPECTED_WARNING.test(line))) console.error(`${role}: ${line}`)
}
