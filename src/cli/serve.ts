import { setFlagsFromString } from 'node:v8'
import pino, { type DestinationStream, type Logger } from 'pino'
import { connectionsOf } from '../app/pool-sizes.ts'
import type { App, AppOptions } from '../app.ts'
import { assertEmbeddedIsMeant, type Config, ROLES, type Role } from '../config.ts'
import type { DatabaseAddresses } from '../db/addresses.ts'
import { dataFolder, hasCluster } from '../db/embedded/data-folder.ts'
import { type DatabaseOptions, openOwnDatabase } from '../db/open-database.ts'
import { createApiWorkers } from './api-workers.ts'
import { EXIT_INTERRUPTED, type Terminal } from './command.ts'
import { createProgress } from './progress.ts'
import { createReadableLog, type ReadableLog, serializers } from './readable-log.ts'
import { runCommandProcess as runCommand } from './run-command-process.ts'
import { startSummary } from './start-summary.ts'
import { onStopSignal } from './stop-signal.ts'

const EXIT_FAILURE = 1
const STOP_PATIENCE_MS = 9_500
const PIPE_BUF_BYTES = 4_096
// The heap grows by this share of its live part until V8 collects again: docs/decisions/operations-processes.md.
const HEAP_GROWTH_PERCENT = 40

/**
 * Runs the store until a signal. `roles` of the command line replace those of the setting. On a terminal the log is readable, and a summary
 * replaces what it says about the start. `onStarted` is called with a signal that is aborted when the store shall stop.
 */
export async function serve(
  settings: Config,
  { exit }: Terminal,
  roles: readonly Role[] = settings.roles,
  onStarted: (addresses: DatabaseAddresses, signal: AbortSignal) => Promise<void> = async () => {},
): Promise<number> {
  const config = Object.freeze({ ...settings, roles: ROLES.filter((role) => roles.includes(role)) })
  assertEmbeddedIsMeant(config)
  const progress = createProgress()
  const { logger, destination, readable } = createLog(config, progress.clear)
  const ended = Promise.withResolvers<number>()
  const stopping = new AbortController()
  onStopSignal(
    () => {
      stopping.abort()
      ended.resolve(0)
    },
    () => exit(EXIT_INTERRUPTED),
  )
  if (readable !== null) {
    // A reader of `debug` wants all of it.
    readable.isBrief = config.logLevel === 'info'
    const isFirst = config.databaseAddresses === null && !hasCluster(dataFolder(config.dataDir))
    progress.show(isFirst ? 'Creating the database: only the first start does this' : 'Starting')
  }
  const { app, addresses } = await createStore(config, logger, stopping.signal).catch((error) => {
    progress.end()
    throw error
  })
  try {
    await app.start().finally(progress.end)
    collectGarbageSooner()
    if (readable !== null) {
      destination.write(startSummary(config))
      readable.isBrief = false
    }
    await onStarted(addresses, stopping.signal)
    const status = await ended.promise
    logger.info('stopping')
    return status
  } finally {
    await stopInTime(app, config, logger, exit)
  }
}

/** Runs a further process of the API until a signal, or until its parent disconnects or ends. */
export async function serveApiWorker(config: Config, exit: Terminal['exit'], onStarted: () => void): Promise<number> {
  const { logger, readable } = createLog(config)
  const stopped = Promise.withResolvers<void>()
  const stopping = new AbortController()
  const stop = () => {
    stopping.abort()
    stopped.resolve()
  }
  onStopSignal(stop, () => exit(EXIT_INTERRUPTED))
  process.once('disconnect', stop)
  if (readable !== null) readable.isBrief = config.logLevel === 'info'
  const { createApp } = await import('../app.ts')
  const app = await createApp({ config, logger, runCommand, signal: stopping.signal })
  try {
    await app.start()
    onStarted()
    collectGarbageSooner()
    if (readable !== null) readable.isBrief = false
    await stopped.promise
    logger.info('stopping')
    return 0
  } finally {
    await stopInTime(app, config, logger, exit)
  }
}

async function stopInTime(app: App, { drainDelaySeconds }: Config, logger: Logger, exit: Terminal['exit']): Promise<void> {
  const impatience = setTimeout(
    () => {
      logger.fatal('did not stop in time')
      exit(EXIT_FAILURE)
    },
    STOP_PATIENCE_MS + 1_000 * drainDelaySeconds,
  )
  await app.stop()
  clearTimeout(impatience)
}

/** Takes effect with the next collection. Set before the start, it would delay that. */
function collectGarbageSooner(): void {
  setFlagsFromString(`--heap-growing-percent=${HEAP_GROWTH_PERCENT}`)
}

interface Log {
  logger: Logger
  destination: DestinationStream
  /** The readable log on a terminal, otherwise null. */
  readable: ReadableLog | null
}

function createLog(config: Config, beforeLine?: () => void): Log {
  // Lines logged during a write are written together: not one write for each request. Writes of processes that share a pipe do not mix
  // up to this size: https://man7.org/linux/man-pages/man7/pipe.7.html
  const destination = pino.destination({ fd: 1, sync: false, ...(config.webConcurrency > 1 ? { maxWrite: PIPE_BUF_BYTES } : {}) })
  const readable = isReadable(config) ? createReadableLog(destination, beforeLine) : null
  return { logger: pino({ level: config.logLevel, serializers }, readable ?? destination), destination, readable }
}

function isReadable({ logFormat }: Config): boolean {
  return logFormat === 'auto' ? process.stdout.isTTY : logFormat === 'pretty'
}

async function createStore(config: Config, logger: Logger, signal: AbortSignal): Promise<{ app: App; addresses: DatabaseAddresses }> {
  const { createApp, database } = await loadStore({
    ...config,
    extraConnections: (config.webConcurrency - 1) * connectionsOf({ ...config, roles: ['api'] }),
    onUnexpectedExit: (message) => logger.error(`${message}; it is started again with pauses`),
    onRestarted: () => logger.info('the embedded PostgreSQL runs again'),
    onWarning: (message) => logger.warn(message),
  })
  const createWorkers: AppOptions['createWorkers'] = (configs) => createApiWorkers(configs, logger)
  return { app: await createApp({ config, logger, database, runCommand, createWorkers, signal }), addresses: database.addresses }
}

/** Starts PostgreSQL while the code of the store is imported: each takes about a second. */
async function loadStore(options: DatabaseOptions) {
  const [opening, loading] = await Promise.allSettled([openOwnDatabase(options), import('../app.ts')])
  if (opening.status === 'rejected') throw opening.reason
  if (loading.status === 'fulfilled') return { createApp: loading.value.createApp, database: opening.value }
  await opening.value.close()
  throw loading.reason
}
