import { setTimeout as delay } from 'node:timers/promises'
import { OperatorError } from '../errors.ts'
import type { DatabaseAddresses } from './addresses.ts'
import { DataFolderInUse, dataFolder, hasCluster } from './embedded/data-folder.ts'
import { findEmbeddedPostgres, startEmbeddedPostgres } from './embedded/embedded-postgres.ts'

export interface DatabaseOptions {
  /** Null means the embedded server in `dataDir`. */
  databaseAddresses: DatabaseAddresses | null
  dataDir: string
  /** Called when the embedded server ended, and each time that it could not be started again. */
  onUnexpectedExit?: (message: string) => void
  onRestarted?: () => void
  onWarning?: (message: string) => void
}

export interface OpenDatabase {
  readonly addresses: DatabaseAddresses
  /** Why the embedded server does not run now; null while it does, and for any other. */
  readonly failure: string | null
  /** Stops the server if it was started here. Idempotent. */
  close(): Promise<void>
}

/**
 * Opens the database for a store that is to run: the embedded server must be its own, and is started again when it ends. Throws
 * DataFolderInUse.
 */
export async function openOwnDatabase({ databaseAddresses, dataDir, ...callbacks }: DatabaseOptions): Promise<OpenDatabase> {
  if (databaseAddresses !== null) return notEmbedded(databaseAddresses)
  const server = await startEmbeddedPostgres(dataFolder(dataDir), { ...callbacks, isKeptRunning: true })
  return {
    addresses: server.addresses,
    get failure() {
      return server.failure
    },
    close: () => server.stop('now'),
  }
}

/** A server that is not stopped here. */
function notEmbedded(addresses: DatabaseAddresses): OpenDatabase {
  return { addresses, failure: null, close: async () => {} }
}

const WAIT_MS = 30_000
const POLL_MS = 100

/**
 * Opens the database for one command: the server of a store that runs beside it, else one that is started for as long as the
 * command takes and then waits for other commands that use it. Throws DataFolderInUse when neither works.
 */
export async function openSharedDatabase(options: DatabaseOptions): Promise<OpenDatabase> {
  if (options.databaseAddresses !== null) return notEmbedded(options.databaseAddresses)
  const folder = dataFolder(options.dataDir)
  const deadline = Date.now() + WAIT_MS
  for (;;) {
    try {
      const server = await startEmbeddedPostgres(folder)
      return { addresses: server.addresses, failure: null, close: () => server.stop('wait') }
    } catch (error) {
      if (!(error instanceof DataFolderInUse) || Date.now() > deadline) throw error
    }
    const addresses = await findEmbeddedPostgres(folder)
    if (addresses !== null) return notEmbedded(addresses)
    await delay(POLL_MS)
  }
}

/** There is no embedded store in the folder. Its message is one line for a terminal. */
class StoreMissing extends OperatorError {
  override readonly name = 'StoreMissing'
}

/** As above, but makes no store where there is none. Throws StoreMissing. */
export async function openExistingDatabase(options: DatabaseOptions): Promise<OpenDatabase> {
  if (options.databaseAddresses === null && !hasCluster(dataFolder(options.dataDir))) {
    throw new StoreMissing(`there is no store in ${options.dataDir}; start one there, or run storefront migrate`)
  }
  return openSharedDatabase(options)
}
