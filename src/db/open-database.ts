import { setTimeout as delay } from 'node:timers/promises'
import { OperatorError } from '../errors.ts'
import type { DatabaseAddresses } from './addresses.ts'
import { DataFolderInUse, dataFolder, hasCluster } from './embedded/data-folder.ts'
import { assertNotMoved, findEmbeddedPostgres, startEmbeddedPostgres } from './embedded/embedded-postgres.ts'

export interface DatabaseOptions {
  /** Is null for the embedded server in `dataDir`. */
  databaseAddresses: DatabaseAddresses | null
  dataDir: string
  /** Connections that an embedded server allows besides those of commands and of one process with every role. */
  extraConnections?: number
  /** Called when the embedded server exits, and each time a restart fails. */
  onUnexpectedExit?: (message: string) => void
  onRestarted?: () => void
  onWarning?: (message: string) => void
}

export interface OpenDatabase {
  readonly addresses: DatabaseAddresses
  /** Why the embedded server is not running now; null while it is, and for any other server. */
  readonly failure: string | null
  /** Stops the embedded server if this process has started it. Idempotent. */
  close(): Promise<void>
}

/** Opens the database for a store: it starts the embedded server itself, and restarts it when it exits. Throws DataFolderInUse. */
export async function openOwnDatabase({ databaseAddresses, dataDir, ...callbacks }: DatabaseOptions): Promise<OpenDatabase> {
  if (databaseAddresses !== null) return externalDatabase(databaseAddresses)
  const server = await startEmbeddedPostgres(dataFolder(dataDir), { ...callbacks, isSupervised: true })
  return {
    addresses: server.addresses,
    get failure() {
      return server.failure
    },
    close: () => server.stop('now'),
  }
}

/** A server that this process has not started. */
function externalDatabase(addresses: DatabaseAddresses): OpenDatabase {
  return { addresses, failure: null, close: async () => {} }
}

const WAIT_MS = 30_000
const POLL_MS = 100

/**
 * Opens the database for one command: the server of a running store, or one for the duration of the command, which
 * waits for other commands that use it. Throws DataFolderInUse when neither works.
 */
export async function openSharedDatabase(options: DatabaseOptions): Promise<OpenDatabase> {
  if (options.databaseAddresses !== null) return externalDatabase(options.databaseAddresses)
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
    if (addresses !== null) return externalDatabase(addresses)
    await delay(POLL_MS)
  }
}

/** The folder contains no embedded store. */
class StoreMissing extends OperatorError {
  override readonly name = 'StoreMissing'
}

/** Like `openSharedDatabase`, but never creates a store. Throws StoreMissing. */
export async function openExistingDatabase(options: DatabaseOptions): Promise<OpenDatabase> {
  if (options.databaseAddresses === null && !hasCluster(dataFolder(options.dataDir))) {
    assertNotMoved(dataFolder(options.dataDir))
    throw new StoreMissing(`there is no store in ${options.dataDir}; start one there, or run storefront migrate`)
  }
  return openSharedDatabase(options)
}
