import { setTimeout as delay } from 'node:timers/promises'
import { OperatorError } from '../errors.ts'
import type { DatabaseAddresses } from './addresses.ts'
import { DataFolderInUse, dataFolder, hasCluster } from './data-folder.ts'
import { findEmbeddedPostgres, startEmbeddedPostgres } from './embedded-postgres.ts'

export interface DatabaseOptions {
  /** Null means the embedded server in `dataDir`. */
  databaseAddresses: DatabaseAddresses | null
  dataDir: string
  onUnexpectedExit?: (message: string) => void
  onWarning?: (message: string) => void
}

export interface OpenDatabase {
  readonly addresses: DatabaseAddresses
  /** Stops the server if it was started here. Idempotent. */
  close(): Promise<void>
}

/** Opens the database for a store that is to run: the embedded server must be its own. Throws DataFolderInUse. */
export async function openOwnDatabase({ databaseAddresses, dataDir, onUnexpectedExit, onWarning }: DatabaseOptions): Promise<OpenDatabase> {
  if (databaseAddresses !== null) return { addresses: databaseAddresses, close: async () => {} }
  const server = await startEmbeddedPostgres(dataFolder(dataDir), {
    ...(onUnexpectedExit === undefined ? {} : { onUnexpectedExit }),
    ...(onWarning === undefined ? {} : { onWarning }),
  })
  return { addresses: server.addresses, close: () => server.stop('now') }
}

const WAIT_MS = 30_000
const POLL_MS = 100

/**
 * Opens the database for one command: the server of a store that runs beside it, else one that is started for as long as the
 * command takes and then waits for other commands that use it. Throws DataFolderInUse when neither works.
 */
export async function openSharedDatabase(options: DatabaseOptions): Promise<OpenDatabase> {
  if (options.databaseAddresses !== null) return { addresses: options.databaseAddresses, close: async () => {} }
  const folder = dataFolder(options.dataDir)
  const deadline = Date.now() + WAIT_MS
  for (;;) {
    try {
      const server = await startEmbeddedPostgres(folder)
      return { addresses: server.addresses, close: () => server.stop('wait') }
    } catch (error) {
      if (!(error instanceof DataFolderInUse) || Date.now() > deadline) throw error
    }
    const addresses = await findEmbeddedPostgres(folder)
    if (addresses !== null) return { addresses, close: async () => {} }
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
