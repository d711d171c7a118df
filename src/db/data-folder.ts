import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/** The folder of an embedded store, and what lies where in it. */
export interface DataFolder {
  readonly path: string
  /** PostgreSQL's cluster. */
  readonly cluster: string
  readonly mail: string
  readonly lake: string
}

export function dataFolder(path: string): DataFolder {
  return { path, cluster: join(path, 'postgres'), mail: join(path, 'mail'), lake: join(path, 'lake') }
}

/** The folder belongs to a running Storefront. Its message is one line for a terminal. */
export class DataFolderInUse extends Error {
  override readonly name = 'DataFolderInUse'
}

/**
 * Takes the folder for this process and returns the function that gives it back, idempotent. Throws DataFolderInUse.
 * The lock is SQLite's on an empty file: the kernel frees it with the process, however that ends, so none is ever stale.
 */
export function lockDataFolder(folder: DataFolder): () => void {
  mkdirSync(folder.path, { recursive: true, mode: 0o700 })
  const lock = new DatabaseSync(join(folder.path, 'lock'), { timeout: 0 })
  const ownerFile = join(folder.path, 'owner')
  try {
    lock.exec('begin exclusive')
  } catch (error) {
    lock.close()
    if (!isBusy(error)) throw error
    const owner = readOptional(ownerFile)
    throw new DataFolderInUse(`${folder.path} is in use by another Storefront${owner === null ? '' : ` (process ${owner.trim()})`}`)
  }
  writeFileSync(ownerFile, `${process.pid}\n`)
  return () => {
    if (lock.isOpen) lock.close()
  }
}

function isBusy(error: unknown): boolean {
  const SQLITE_BUSY = 5
  return (error as { errcode?: number }).errcode === SQLITE_BUSY
}

/** A secret of this folder, made at first use and kept in a file that only its owner can read. Not for two processes at once. */
export function keepSecret(folder: DataFolder, name: string): string {
  const file = join(folder.path, name)
  const kept = readOptional(file)
  if (kept !== null) return kept.trim()
  const secret = randomBytes(32).toString('base64url')
  writeFileSync(`${file}.new`, `${secret}\n`, { mode: 0o600 })
  renameSync(`${file}.new`, file)
  return secret
}

/** A secret that the folder's owner has made, null when there is none yet. */
export function readSecret(folder: DataFolder, name: string): string | null {
  return readOptional(join(folder.path, name))?.trim() ?? null
}

function readOptional(file: string): string | null {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}
