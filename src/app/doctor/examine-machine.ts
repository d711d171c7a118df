import { accessSync, constants, existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../../config.ts'
import type { DatabaseAddresses } from '../../db/addresses.ts'
import { readDatabaseId } from '../../db/database-id.ts'
import { dataFolder } from '../../db/embedded/data-folder.ts'
import { findFullDisk } from '../../db/embedded/full-disk.ts'
import type { Failing } from '../../http/health.ts'
import { withinMs } from '../../within-ms.ts'
import { readDisk } from '../watch-store.ts'
import { withDoctorClient } from './examine-database.ts'
import { describeBytes } from './examine-slot.ts'
import { check, type Finding, judgeClock, ok, problem, warning } from './finding.ts'

// The threshold of the alert DiskFillsUp.
const LITTLE_FREE = 0.1

export const DEAD_DISK_REMEDY = 'check the disk, or the server that it is mounted from, and run this again'

/** The folders to examine, which may be on different disks. */
export function foldersOf({ dataDir, databaseAddresses, lakeBucket }: Config): string[] {
  const { cluster, lake } = dataFolder(dataDir)
  return [dataDir, ...(databaseAddresses === null ? [cluster, join(cluster, 'pg_wal')] : []), ...(lakeBucket === null ? [lake] : [])]
}

/** Examines each disk once. `hanging` resolves to a folder that no call may touch. */
export async function examineDisks(config: Config, hanging: Promise<string | null>, timeoutMs: number): Promise<Finding[]> {
  const dead = await hanging
  if (dead !== null) return [problem('disk', `${dead} does not answer within ${timeoutMs / 1_000} s`, DEAD_DISK_REMEDY)]
  const { dataDir } = config
  const remedy = 'make room on it, or move the folder to a larger disk; storefront lake maintain frees some, and so does deleting old logs'
  return check('disk', { remedy, timeoutMs }, async () => {
    const existing = foldersOf(config).filter((path) => existsSync(path))
    if (existing.length === 0) return [ok('disk', `${dataDir} does not exist`)]
    const closed = existing.filter((path) => !isWritable(path))
    // If root starts the store, the cluster correctly belongs to another user.
    if (closed.length > 0)
      return [
        problem(
          'disk',
          `this user may not write to ${closed.join(', ')}`,
          'run this as the user of the store, or give the folder to that user',
        ),
      ]
    const full = findFullDisk(dataFolder(dataDir))
    if (full !== null) return [problem('disk', full.replace(/: make room on it$/, ''), remedy)]
    const disks = existing.filter((path, index) => existing.findIndex((other) => statSync(other).dev === statSync(path).dev) === index)
    return Promise.all(disks.map(async (path) => examineDisk(path, await readDisk(path), remedy)))
  })
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK)
    return true
  } catch {
    return false
  }
}

function examineDisk(path: string, disk: { freeBytes: number; sizeBytes: number } | null, remedy: string): Finding {
  if (disk === null) return ok('disk', `${path} does not exist`)
  const { freeBytes, sizeBytes } = disk
  const found = `${describeBytes(freeBytes)} of ${describeBytes(sizeBytes)} are free on the disk of ${path}`
  return freeBytes < LITTLE_FREE * sizeBytes ? warning('disk', found, remedy) : ok('disk', found)
}

/** The share of the time for `/metrics`. If it is late, the result of `/readyz` is still shown. */
const METRICS_SHARE = 0.8
const ONE_OF_SEVERAL: Record<string, string> = { '0.0.0.0': '127.0.0.1', '::': '::1', localhost: '127.0.0.1' }

/** Examines the processes through the operations port, which reports on all processes that were started together. */
export async function examineProcesses({ operations }: Config, database: Promise<FoundDatabase>, timeoutMs: number): Promise<Finding[]> {
  if (operations === null || operations.port === 0) return [ok('process', 'not asked: OPS_PORT names no port')]
  const { host, port } = operations
  return examineProcess(ONE_OF_SEVERAL[host] ?? host, port, database, timeoutMs)
}

/** The answer of `/readyz`. Previous releases do not name the database. */
interface Readiness {
  status?: string
  failing?: Failing[]
  database?: string
}

export type FoundDatabase = DatabaseAddresses | Finding[]

function examineProcess(host: string, port: number, database: Promise<FoundDatabase>, timeoutMs: number): Promise<Finding[]> {
  const place = `${host.includes(':') ? `[${host}]` : host}:${port}`
  const remedy = `look at the log of the process at ${place}, and restart it`
  return check('process', { remedy, timeoutMs }, async (signal) => {
    // Both are requested at once, because each waits for a process that does not answer.
    const metrics = withinMs(METRICS_SHARE * timeoutMs, readText(`http://${place}/metrics`, signal), null)
    const response = await fetch(`http://${place}/readyz`, { signal }).catch((error: Error) => {
      if ((error.cause as NodeJS.ErrnoException | undefined)?.code !== 'ECONNREFUSED') throw error
      return null
    })
    const start = 'start it (storefront serve), or run this where it runs, with its settings'
    if (response === null) return [warning('process', `no process of the store answers at ${place}`, start)]
    const body = (await response.json().catch(() => null)) as Readiness | null
    if (body?.database !== undefined && (await isAnother(body.database, await database, signal)))
      return [
        warning(
          'process',
          `the process at ${place} belongs to another store`,
          'start this store with an OPS_PORT of its own, and run this with it',
        ),
      ]
    const failing = body?.failing ?? []
    if (body?.status !== 'ok' && failing.length === 0)
      return [warning('process', `what answers at ${place} is no process of the store`, 'set OPS_PORT to that of the store')]
    const text = await metrics
    const others =
      text === null
        ? [warning('process', `/metrics at ${place} does not answer, so proxies and clocks were not examined`, remedy)]
        : [...findUntrustedProxy(place, text), ...findWrongClock(place, text)]
    if (failing.length === 0) return [ok('process', `the process at ${place} is ready`), ...others]
    const remedied = 'see Readiness, in docs/operate/monitor.md'
    return [
      ...failing.map(({ name, reason, process }) =>
        problem('process', `${name} at ${place}${process === undefined ? '' : `, process ${process}`}: ${reason}`, remedied),
      ),
      ...others,
    ]
  })
}

/** Returns null if there is no answer. */
async function readText(url: string, signal: AbortSignal): Promise<string | null> {
  try {
    return await (await fetch(url, { signal })).text()
  } catch {
    return null
  }
}

/**
 * Whether the process uses another database. False also if the database does not answer, which another check reports.
 */
async function isAnother(id: string, addresses: FoundDatabase, signal: AbortSignal): Promise<boolean> {
  if (Array.isArray(addresses)) return false
  const own = await withDoctorClient(addresses.api, 'DATABASE_URL', signal, readDatabaseId).catch(() => id)
  return own !== id
}

/** Whether an untrusted proxy forwards to the process. Only the process knows, so this reads its metrics. */
function findUntrustedProxy(place: string, metrics: string): Finding[] {
  const forwarded = readMetric(metrics, 'untrusted_proxy_requests_total').reduce((sum, { value }) => sum + value, 0)
  if (forwarded === 0) return []
  const found = `a proxy that TRUST_PROXY does not name has forwarded ${forwarded} requests to the process at ${place}: all clients behind it share one rate limit`
  return [warning('proxies', found, 'set TRUST_PROXY to the addresses of the proxies, or to their number')]
}

/** The process may run on another machine, or in a container with a changed clock. */
function findWrongClock(place: string, metrics: string): Finding[] {
  return readMetric(metrics, 'clock_difference_seconds')
    .map(({ process, value }) => judgeClock(process === undefined ? `the process at ${place}` : `process ${process} at ${place}`, value))
    .filter(({ status }) => status !== 'ok')
}

/** Reads a metric: one value, or one for each process. */
function readMetric(metrics: string, name: string): { process: number | undefined; value: number }[] {
  const lines = metrics.matchAll(new RegExp(`^storefront_${name}(?:\\{process="(\\d+)"\\})? (\\S+)$`, 'gm'))
  return [...lines].map(([, process, value]) => ({ process: process === undefined ? undefined : Number(process), value: Number(value) }))
}
