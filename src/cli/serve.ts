import { setFlagsFromString } from 'node:v8'
import pino, { type DestinationStream, type Logger } from 'pino'
import { connectionsOf } from '../app/pool-sizes.ts'
import { connectionsOfStart, processConfigs } from '../app/process-configs.ts'
import type { ProcessReport } from '../app/service.ts'
import type { App, AppOptions } from '../app.ts'
import { assertEmbeddedIsMeant, type Config, ROLES, type Role } from '../config.ts'
import type { DatabaseAddresses } from '../db/addresses.ts'
import { dataFolder, hasCluster } from '../db/embedded/data-folder.ts'
import { type DatabaseOptions, openOwnDatabase } from '../db/open-database.ts'
import type { OperatorError } from '../errors.ts'
import { EXIT_INTERRUPTED, type Terminal } from './command.ts'
import { createProgress } from './progress.ts'
import { createReadableLog, type ReadableLog, serializers } from './readable-log.ts'
import { runCommandProcess as runCommand } from './run-command-process.ts'
import { startSummary } from './start-summary.ts'
import { onStopSignal } from './stop-signal.ts'
import { createWorkers } from './workers.ts'

const EXIT_FAILURE = 1
const STOP_PATIENCE_MS = 9_500
const PIPE_BUF_BYTES = 4_096
// The share of its live part by which the heap grows before V8 collects again: docs/decisions/operations-processes.md.
const HEAP_GROWTH_PERCENT = 40

/**
 * `roles` replace those of the setting. On a terminal the log is readable, with a summary of the start. The signal of
 * `onStarted` aborts when the store shall stop.
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
  const { logger, destination, readable } = createLog(config, { isShared: config.webConcurrency > 1, beforeLine: progress.clear })
  const ended = Promise.withResolvers<number>()
  // A worker may be refused before anybody waits.
  ended.promise.catch(() => {})
  const stopping = new AbortController()
  onStopSignal(
    () => {
      stopping.abort()
      ended.resolve(0)
    },
    () => exit(EXIT_INTERRUPTED),
  )
  if (readable !== null) {
    // Other log levels, such as `debug`, show every line.
    readable.isBrief = config.logLevel === 'info'
    const isFirst = config.databaseAddresses === null && !hasCluster(dataFolder(config.dataDir))
    progress.show(isFirst ? 'Creating the database: only the first start does this' : 'Starting')
  }
  const onRefused = (error: OperatorError) => {
    ended.reject(error)
    stopping.abort()
  }
  const { app, addresses } = await createStore(config, logger, { signal: stopping.signal, onRefused }).catch((error) => {
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

/** Runs a worker until a signal, or until the parent process disconnects or ends. */
export async function serveWorker(
  config: Config,
  { exit, readStates, onStarted }: { exit: Terminal['exit']; onStarted: (report: ProcessReport) => void } & Pick<AppOptions, 'readStates'>,
): Promise<number> {
  const { logger, readable } = createLog(config, { isShared: true })
  const stopped = Promise.withResolvers<void>()
  const stopping = new AbortController()
  onStopSignal(
    () => {
      stopping.abort()
      stopped.resolve()
    },
    () => exit(EXIT_INTERRUPTED),
  )
  if (readable !== null) readable.isBrief = config.logLevel === 'info'
  const { createApp } = await importStore(config)
  const app = await createApp({ config, logger, runCommand, readStates, signal: stopping.signal })
  try {
    await app.start()
    onStarted(app.report)
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

/** Takes effect at the next collection. Setting it before the start would delay the start. */
function collectGarbageSooner(): void {
  setFlagsFromString(`--heap-growing-percent=${HEAP_GROWTH_PERCENT}`)
}

interface Log {
  logger: Logger
  destination: DestinationStream
  readable: ReadableLog | null
}

/** Creates the log. `isShared` says whether several processes write to the same output. */
function createLog(config: Config, { isShared, beforeLine }: { isShared: boolean; beforeLine?: () => void }): Log {
  // Each write contains all lines logged meanwhile. Writes up to this size do not mix in a shared pipe:
  // https://man7.org/linux/man-pages/man7/pipe.7.html
  const destination = pino.destination({ fd: 1, sync: false, ...(isShared ? { maxWrite: PIPE_BUF_BYTES } : {}) })
  const readable = isReadable(config) ? createReadableLog(destination, beforeLine) : null
  return { logger: pino({ level: config.logLevel, serializers }, readable ?? destination), destination, readable }
}

function isReadable({ logFormat }: Config): boolean {
  return logFormat === 'auto' ? process.stdout.isTTY : logFormat === 'pretty'
}

async function createStore(
  config: Config,
  logger: Logger,
  { signal, onRefused }: { signal: AbortSignal; onRefused: (error: OperatorError) => void },
): Promise<{ app: App; addresses: DatabaseAddresses }> {
  if (config.webConcurrency > 1 && !config.roles.includes('api'))
    logger.warn(`WEB_CONCURRENCY=${config.webConcurrency} has no effect without the role api: the store runs as one process`)
  const [own, ...others] = processConfigs(config)
  const { createApp, database } = await loadStore({
    ...own,
    extraConnections: others.reduce((sum, other) => sum + connectionsOf(other), 0),
    onUnexpectedExit: (message) => logger.error(`${message}; it is started again with pauses`),
    onRestarted: () => logger.info('the embedded PostgreSQL runs again'),
    onWarning: (message) => logger.warn(message),
  })
  const workers: AppOptions['createWorkers'] = (shared) =>
    createWorkers(
      others.map((other) => ({ ...other, ...shared })),
      logger,
      onRefused,
    )
  return {
    app: await createApp({
      ...{ config: own, connections: connectionsOfStart(config), logger, database, runCommand, signal },
      createWorkers: others.length === 0 ? undefined : workers,
    }),
    addresses: database.addresses,
  }
}

/** Imports the store's code while PostgreSQL starts, because each takes about a second. */
async function loadStore(options: DatabaseOptions & Pick<Config, 'roles'>) {
  const [opening, loading] = await Promise.allSettled([openOwnDatabase(options), importStore(options)])
  if (opening.status === 'rejected') throw opening.reason
  if (loading.status === 'fulfilled') return { createApp: loading.value.createApp, database: opening.value }
  await opening.value.close()
  throw loading.reason
}

/** The API is half of all code, so other roles do not import it. */
async function importStore({ roles }: Pick<Config, 'roles'>) {
  const [store] = await Promise.all([import('../app.ts'), roles.includes('api') ? import('../app/create-api.ts') : null])
  return store
}
