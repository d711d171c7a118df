import { resolve } from 'node:path'
import { ensureIncarnationOf, RestoreUnfinished } from '../app/ensure-incarnation.ts'
import { moveDatabase } from '../app/move-database.ts'
import { openEmbeddedSource, openExternalSource } from '../app/move-source.ts'
import { prepareDatabase } from '../app/prepare-database.ts'
import { assertEmbeddedIsMeant, type Config } from '../config.ts'
import { counted } from '../counted.ts'
import { backUpCluster, restoreCluster } from '../db/embedded/backup.ts'
import { dataFolder } from '../db/embedded/data-folder.ts'
import { LOCK_WAIT_MS } from '../db/lock-retries.ts'
import { openExistingDatabase, openSharedDatabase } from '../db/open-database.ts'
import { createPool } from '../db/pool.ts'
import { COMMAND_BOUNDS } from '../db/session-settings.ts'
import { OperatorError } from '../errors.ts'
import type { Contexts } from './command.ts'
import { reportRestoredKeys } from './key-commands.ts'
import { replayOrders } from './pipeline-commands.ts'
import { withProgress } from './progress.ts'

export async function migrate({ config, terminal, logger }: Contexts['settings'], waitMs = LOCK_WAIT_MS): Promise<number> {
  assertEmbeddedIsMeant(config)
  const database = await openSharedDatabase(config)
  try {
    await prepareDatabase(database.addresses, logger, { waitMs, onWaiting: (line) => terminal.err(`storefront: ${line}`) })
    terminal.out('the database is up to date')
    return 0
  } finally {
    await database.close()
  }
}

/** Backs up the embedded database, beside a running store or without one. */
export async function backUp({ config, terminal }: Contexts['settings'], target: string): Promise<number> {
  assertEmbedded(config)
  const database = await openExistingDatabase(config)
  try {
    const { files, sizeBytes } = await backUpCluster(dataFolder(config.dataDir), database.addresses.owner, resolve(target))
    terminal.out(`backed up ${counted(files, 'file')}, ${Math.ceil(sizeBytes / 1_000_000)} MB, to ${resolve(target)}`)
    return 0
  } finally {
    await database.close()
  }
}

/** Restores a backup, and reconciles topic and lake with the database. */
export async function restore(settings: Contexts['settings'], source: string): Promise<number> {
  const { config, terminal } = settings
  assertEmbedded(config)
  const { setAside } = await restoreCluster(dataFolder(config.dataDir), resolve(source))
  if (setAside !== null) terminal.out(`renamed the previous database to ${setAside}: delete it when you no longer need it`)
  try {
    return await finish(settings)
  } catch (error) {
    throw error instanceof RestoreUnfinished ? error : new RestoreUnfinished(error)
  }
}

async function finish(settings: Contexts['settings']): Promise<number> {
  const { config, terminal, logger } = settings
  const database = await openSharedDatabase(config)
  const { addresses } = database
  const pool = createPool({ url: addresses.api, size: 4, applicationName: 'storefront-command', bounds: COMMAND_BOUNDS, onError: () => {} })
  try {
    // These calls would log problems that are repaired later: the stream repairs the lost slot, and the replay below
    // the lost events. A failed step throws.
    const quiet = logger.child({}, { level: 'fatal' })
    await prepareDatabase(addresses, quiet)
    await ensureIncarnationOf(config, { pool, url: addresses.api, logger: quiet })
    terminal.out('restored the database')
    await reportRestoredKeys({ pool, terminal })
    const everything = { since: undefined, orderId: undefined, subscriber: undefined }
    return await replayOrders({ ...settings, pool, addresses }, { ...everything, command: 'storefront restore' })
  } finally {
    await pool.end()
    await database.close()
  }
}

/** The source is the embedded store, or another server's. */
export async function moveStore(settings: Contexts['settings'], from: string | undefined): Promise<number> {
  const { config, terminal, logger } = settings
  const target = config.databaseAddresses
  if (target === null)
    throw new OperatorError('DATABASE_URL is not set: set it, and STOREFRONT_SECRET, as for the store on its new database')
  const source = from === undefined ? await openEmbeddedSource(config) : await openExternalSource(from)
  let hasMoved = false
  let left = ''
  try {
    const { tables, rows } = await withProgress('Moving the store', ({ show }) =>
      moveDatabase({ source, target, secret: config.secret, logger, onStep: show }),
    )
    hasMoved = true
    terminal.out(`copied ${rows} rows of ${tables} tables`)
  } finally {
    left = await source.close(hasMoved ? 'moved' : 'unchanged')
  }
  terminal.out(left)
  terminal.out('start the store with the settings of this command, then run storefront verify')
  return 0
}

function assertEmbedded({ databaseAddresses }: Config): void {
  if (databaseAddresses !== null)
    throw new OperatorError('DATABASE_URL is set: back that server up by its own means, see docs/operate/backup.md')
}
