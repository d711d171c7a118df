import { setTimeout as delay } from 'node:timers/promises'
import { DataFolderInUse, dataFolder } from './data-folder.ts'
import { findEmbeddedPostgres, startEmbeddedPostgres } from './embedded-postgres.ts'

export interface DatabaseOptions {
  /** Null means the embedded server in `dataDir`. */
  databaseUrl: string | null
  dataDir: string
  onUnexpectedExit?: (message: string) => void
}

export interface OpenDatabase {
  readonly url: string
  /** Stops the server if it was started here. Idempotent. */
  close(): Promise<void>
}

/** Opens the database for a store that is to run: the embedded server must be its own. Throws DataFolderInUse. */
export async function openOwnDatabase({ databaseUrl, dataDir, onUnexpectedExit }: DatabaseOptions): Promise<OpenDatabase> {
  if (databaseUrl !== null) return { url: databaseUrl, close: async () => {} }
  const server = await startEmbeddedPostgres(dataFolder(dataDir), onUnexpectedExit === undefined ? {} : { onUnexpectedExit })
  return { url: server.socketUrl, close: () => server.stop('now') }
}

const WAIT_MS = 30_000
const POLL_MS = 100

/**
 * Opens the database for one command: the server of a store that runs beside it, else one that is started for as long as the
 * command takes and then waits for other commands that use it. Throws DataFolderInUse when neither works.
 */
export async function openSharedDatabase(options: DatabaseOptions): Promise<OpenDatabase> {
  if (options.databaseUrl !== null) return { url: options.databaseUrl, close: async () => {} }
  const folder = dataFolder(options.dataDir)
  const deadline = Date.now() + WAIT_MS
  for (;;) {
    try {
      const server = await startEmbeddedPostgres(folder)
      return { url: server.socketUrl, close: () => server.stop('wait') }
    } catch (error) {
      if (!(error instanceof DataFolderInUse) || Date.now() > deadline) throw error
    }
    const url = await findEmbeddedPostgres(folder)
    if (url !== null) return { url, close: async () => {} }
    await delay(POLL_MS)
  }
}
