import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { assertEmbeddedIsMeant, type Config } from '../../config.ts'
import type { DatabaseAddresses } from '../../db/addresses.ts'
import { dataFolder, hasCluster } from '../../db/embedded/data-folder.ts'
import { assertComplete, findEmbeddedPostgres } from '../../db/embedded/embedded-postgres.ts'
import { isRunning, readPidFile } from '../../db/embedded/running-postgres.ts'
import { readStoreTemplates } from '../mail-templates.ts'
import { examineDatabase, examineRoles } from './examine-database.ts'
import { examineLake } from './examine-lake.ts'
import { DEAD_DISK_REMEDY, examineDisks, examineProcesses, type FoundDatabase, foldersOf } from './examine-machine.ts'
import { examineBroker, examineCaches, examineMailServer } from './examine-services.ts'
import { examineSettings } from './examine-settings.ts'
import { examineSlot } from './examine-slot.ts'
import { examineTables } from './examine-tables.ts'
import { check, type Finding, problem, warning } from './finding.ts'

const TIMEOUT_MS = 10_000

interface Options {
  misspelt?: readonly string[]
  versions: { store: string; node: string }
  timeoutMs?: number
  now?: () => number
}

/** Runs all checks at once, each with a time limit. Changes nothing. */
export async function examineStore(
  config: Config,
  { misspelt = [], versions, timeoutMs = TIMEOUT_MS, now = Date.now }: Options,
): Promise<Finding[]> {
  const hanging = findHangingFolder(foldersOf(config), timeoutMs)
  const addresses = config.databaseAddresses === null ? findEmbedded(config, hanging, timeoutMs) : Promise.resolve(config.databaseAddresses)
  const findings = await Promise.all([
    check('settings', { remedy: 'set DATABASE_URL', timeoutMs }, async () => {
      assertEmbeddedIsMeant(config)
      return []
    }),
    check('settings', { remedy: 'correct MAIL_TEMPLATES or the file, or remove the file to use the built-in one', timeoutMs }, async () => {
      if (config.roles.includes('email')) readStoreTemplates(config)
      return []
    }),
    examineSettings(config, misspelt, versions),
    examineProcesses(config, addresses, timeoutMs),
    examineDisks(config, hanging, timeoutMs),
    examineDatabases(config, addresses, timeoutMs, now),
    examineBroker(config, timeoutMs, now),
    examineMailServer(config, timeoutMs),
    examineWholeLake(config, hanging, timeoutMs),
    examineCaches(config, timeoutMs),
  ])
  return findings.flat()
}

async function examineWholeLake(config: Config, hanging: Promise<string | null>, timeoutMs: number): Promise<Finding[]> {
  // A folder on a dead disk is not touched. A bucket's checks need not wait for the disk.
  const isTouched = config.lakeBucket !== null || (await hanging) === null
  const [files, dead] = await Promise.all([isTouched ? examineLake(config, timeoutMs) : [], hanging])
  if (dead !== null) return [...files, warning('lake tables', `not examined: the disk of ${dead} does not answer`, DEAD_DISK_REMEDY)]
  return files.every(({ status }) => status === 'ok') ? [...files, ...(await examineTables(config, timeoutMs))] : files
}

async function examineDatabases(config: Config, found: Promise<FoundDatabase>, timeoutMs: number, now: () => number): Promise<Finding[]> {
  const addresses = await found
  if (Array.isArray(addresses)) return addresses
  const examined = [
    examineDatabase(config, addresses, timeoutMs, now),
    examineRoles(addresses, timeoutMs),
    examineSlot(config, addresses, timeoutMs),
  ]
  const [database = [], roles = [], slot = []] = await Promise.all(examined)
  // For an unreachable database one line is enough.
  const isReached = database.some(({ status }) => status !== 'problem') || database.length > 1
  return isReached ? [...database, ...roles, ...slot] : [...database, ...roles.filter(({ found: line }) => line !== database[0]?.found)]
}

/**
 * Finds the embedded database. Does not start its server, because a start recovers a crashed cluster, which would be a
 * change.
 */
async function findEmbedded({ dataDir }: Config, hanging: Promise<string | null>, timeoutMs: number): Promise<FoundDatabase> {
  const dead = await hanging
  if (dead !== null) return [warning('database', `not examined: the disk of ${dead} does not answer`, DEAD_DISK_REMEDY)]
  const folder = dataFolder(dataDir)
  const log = join(dataDir, 'postgres.log')
  const damage = await check('database', { remedy: 'run this as the user of the store, who may read the folder', timeoutMs }, async () => {
    assertComplete(folder)
    return []
  })
  if (damage.length > 0) return damage
  if (!hasCluster(folder)) {
    const remedy = existsSync(folder.path)
      ? 'start one there, mount its disk, or run storefront restore'
      : 'set DATA_DIR to the folder of the store, or start one there'
    return [warning('database', `there is no store in ${dataDir}`, remedy)]
  }
  let addresses: DatabaseAddresses | null = null
  const failed = await check('database', { remedy: `look at the end of ${log}`, timeoutMs }, async () => {
    addresses = await findEmbeddedPostgres(folder)
    return []
  })
  if (addresses !== null || failed.length > 0) return addresses ?? failed
  const server = readPidFile(folder)
  if (server !== null && isRunning(server.pid))
    return [
      problem(
        'database',
        `the embedded PostgreSQL (process ${server.pid}) does not answer`,
        `look at the end of ${log}, and restart the store`,
      ),
    ]
  const stopped = server === null ? 'is stopped' : 'was killed; its next start recovers it'
  return [
    warning(
      'database',
      `the embedded PostgreSQL ${stopped}, so nothing in it was examined`,
      'start the store, and run this again while it runs',
    ),
  ]
}

// Prints a byte for each folder whose disk answers. It calls statfs, which asks a network disk's server; other calls
// may use a cache.
const PROBE = `
  const fs = require('node:fs')
  for (const folder of process.argv.slice(1)) {
    try { fs.statfsSync(folder) } catch {}
    fs.writeSync(1, '.')
  }`

/** A separate process asks, because Node.js cannot exit while one of its threads hangs in such a call. */
async function findHangingFolder(folders: readonly string[], timeoutMs: number): Promise<string | null> {
  const { promise, resolve } = Promise.withResolvers<string | null>()
  const child = spawn(process.execPath, ['--eval', PROBE, ...folders], { stdio: ['ignore', 'pipe', 'ignore'] })
  let answered = 0
  child.stdout.on('data', ({ length }: Buffer) => {
    answered += length
  })
  child.once('error', () => resolve(null)).once('exit', () => resolve(null))
  const timer = setTimeout(() => resolve(folders[answered] ?? null), timeoutMs)
  return promise.finally(() => {
    clearTimeout(timer)
    child.kill('SIGKILL')
    child.unref()
  })
}
