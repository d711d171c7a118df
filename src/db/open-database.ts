import { setTimeout as delay } from 'node:timers/promises'
import { OperatorError } from '../errors.ts'
import type { DatabaseAddresses } from './addresses.ts'
import { DataFolderInUse, dataFolder, hasCluster } from './embedded/data-folder.ts'
import { assertNotMoved, findEmbeddedPostgres, startEmbeddedPostgres } from './embedded/embedded-postgres.ts'

export interface DatabaseOptions {
  databaseAddresses: DatabaseAddresses | null
  dataDir: string
  extraConnections?: number
  onUnexpectedExit?: (message: string) => void
  onRestarted?: () => void
  onWarning?: (message: string) => void
}

export interface OpenDatabase {
  readonly addresses: DatabaseAddresses
  readonly failure: string | null
  close(): Promise<void>
}

/** Starts the embedded server itself, and restarts it when it exits. Throws DataFolderInUse. */
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

function externalDatabase(addresses: DatabaseAddresses): OpenDatabase {
  return { addresses, failure: null, close: async () => {} }
}

const WAIT_MS = 30_000
const POLL_MS = 100

/** Uses the server of a running store, or starts one for the command. Throws DataFolderInUse when neither works. */
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
