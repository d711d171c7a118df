import { randomBytes } from 'node:crypto'
import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { OperatorError } from '../../errors.ts'

export interface DataFolder {
  readonly path: string
  readonly cluster: string
  readonly mail: string
  readonly lake: string
}

export function dataFolder(path: string): DataFolder {
  return { path, cluster: join(path, 'postgres'), mail: join(path, 'mail'), lake: join(path, 'lake') }
}

/**
 * The folder in which a restore collects the cluster's files. Without a cluster beside it, the restore is unfinished.
 */
export function restoredFolder({ cluster }: DataFolder): string {
  return `${cluster}.restored`
}

/** A cluster is created here before it is renamed. A password without either folder belongs to a lost cluster. */
export function newClusterFolder({ cluster }: DataFolder): string {
  return `${cluster}.new`
}

export function findMovedCluster({ path, cluster }: DataFolder): string | null {
  if (existsSync(cluster) || !existsSync(path)) return null
  const names = readdirSync(path).filter((name) => /^postgres\.moved-\d+$/.test(name))
  const newest = names.toSorted().at(-1)
  return newest === undefined ? null : join(path, newest)
}

export function hasCluster({ cluster }: DataFolder): boolean {
  return existsSync(join(cluster, 'PG_VERSION'))
}

/** Marks an unfinished first start of `serve`, so it is repeated. Any command that opens the store removes the mark. */
export const firstStart = {
  begin: ({ path }: DataFolder) => writeFileSync(join(path, 'first-start'), ''),
  isIn: ({ path }: DataFolder) => existsSync(join(path, 'first-start')),
  end: ({ path }: DataFolder) => rmSync(join(path, 'first-start'), { force: true }),
}

export class DataFolderInUse extends OperatorError {
  override readonly name = 'DataFolderInUse'
}

export class DataFolderExposed extends OperatorError {
  override readonly name = 'DataFolderExposed'
}

export class SecretUnusable extends OperatorError {
  override readonly name = 'SecretUnusable'
}

const OWN_ENTRIES =
  /^(lock(-journal)?|owner|first-start|postgres(\.new|\.log|\.probe|\.restored|\.(replaced|moved)-\d+)?|(postgres-password|secret(\.next)?)(\.new|\.replaced-\d+)?|mail|lake(-cache)?|server-root|lost\+found)$/

/** Returns the idempotent unlock function. The kernel releases SQLite's lock on any exit, so no lock is stale. */
export function lockDataFolder(folder: DataFolder): () => void {
  assertWritable(folder.path)
  restrictAccess(folder)
  const lock = openLock(join(folder.path, 'lock'))
  const ownerFile = join(folder.path, 'owner')
  try {
    lock.exec('begin exclusive')
  } catch (error) {
    lock.close()
    if ((error as { errcode?: number }).errcode !== SQLITE_BUSY) throw error
    const owner = readOptional(ownerFile)
    throw new DataFolderInUse(
      `${folder.path} is in use by another Storefront${owner === null ? '' : ` (process ${owner.trim()})`}; stop that one, or set DATA_DIR to another folder`,
    )
  }
  writeFileSync(ownerFile, `${process.pid}\n`)
  return () => {
    if (lock.isOpen) lock.close()
  }
}

// The result codes of https://www.sqlite.org/rescode.html
const [SQLITE_BUSY, SQLITE_READONLY, SQLITE_CANTOPEN] = [5, 8, 14]

const NOT_WRITABLE: Record<string, string> = {
  EACCES: 'this user may not write there; give the folder to the user who runs the store, or set DATA_DIR to another one',
  EEXIST: 'it is a file; set DATA_DIR to a folder',
  ENOSPC: 'its disk is full',
  ENOTDIR: 'its path leads through a file; set DATA_DIR to a folder',
  EPERM: 'this user may not write there; give the folder to the user who runs the store, or set DATA_DIR to another one',
  EROFS: 'its file system is read-only; set DATA_DIR to a folder that can be written to',
}

function assertWritable(path: string): void {
  try {
    makeFolder(path, 0o700)
    accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (error) {
    const problem = NOT_WRITABLE[(error as NodeJS.ErrnoException).code ?? '']
    if (problem === undefined) throw error
    throw new OperatorError(`the data folder ${path} cannot be used: ${problem}`, { cause: error })
  }
}

/** `recursive` reports a read-only file system as a missing folder and never returns in `/proc`. */
export function makeFolder(path: string, mode: number): void {
  if (!existsSync(dirname(path))) makeFolder(dirname(path), mode)
  try {
    mkdirSync(path, { mode })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST' || !statSync(path).isDirectory()) throw error
  }
}

function openLock(file: string): DatabaseSync {
  try {
    // SQLite opens a file that it cannot write for reading, and does not lock it.
    if (existsSync(file)) accessSync(file, constants.R_OK | constants.W_OK)
    return new DatabaseSync(file, { timeout: 0 })
  } catch (error) {
    const { code, errcode = 0 } = error as { code?: string; errcode?: number }
    if (code !== 'EACCES' && ![SQLITE_READONLY, SQLITE_CANTOPEN].includes(errcode)) throw error
    throw new OperatorError(`${file} cannot be written to; give the data folder's files to the user who runs the store`, {
      cause: error,
    })
  }
}

/** Restricts access to a store's folder. Does not change a folder with other files, which may be a home directory. */
function restrictAccess({ path }: DataFolder): void {
  const uid = process.getuid?.()
  const { mode, uid: owner } = statSync(path)
  if (uid === undefined || (mode & 0o077) === 0) return
  const isOwn = (uid === 0 || uid === owner) && readdirSync(path).every((name) => OWN_ENTRIES.test(name))
  if (!isOwn) {
    throw new DataFolderExposed(
      `other users can enter ${path}, and it is not the store's alone; set DATA_DIR to a new folder in it, or run chmod 700 on it`,
    )
  }
  chmodSync(path, 0o700)
}

/** Created at first use. On disk when this returns. Two processes must not call it at once. Throws SecretUnusable. */
export function readOrCreateSecret(folder: DataFolder, name: string): string {
  const known = readSecret(folder, name)
  if (known !== null) return known
  const secret = generateSecret()
  writeSecret(folder, name, secret)
  return secret
}

export function generateSecret(): string {
  return randomBytes(32).toString('base64url')
}

/** Replaces the file atomically. On disk when this returns. Two processes must not call it at once. */
export function writeSecret(folder: DataFolder, name: string, secret: string): void {
  const file = join(folder.path, name)
  // A file left by a crash may be readable to others.
  rmSync(`${file}.new`, { force: true })
  writeFileSync(`${file}.new`, `${secret}\n`, { mode: 0o600, flush: true })
  renameSync(`${file}.new`, file)
  syncFolder(folder.path)
}

export function renameSecret(folder: DataFolder, from: string, to: string): void {
  renameSync(join(folder.path, from), join(folder.path, to))
  syncFolder(folder.path)
}

export function readSecret(folder: DataFolder, name: string): string | null {
  const file = join(folder.path, name)
  const secret = readOptional(file)?.trim() ?? null
  // After a power failure a file can have its full length and contain only zeros.
  if (secret === null || /^[\x21-\x7e]+$/.test(secret)) return secret
  throw new SecretUnusable(`${file} is empty or damaged: restore it from a backup; what it protects cannot be read without it`)
}

/** A new secret could decrypt nothing of the existing store. */
export function missingSecretError(folder: DataFolder, name: string): SecretUnusable {
  return new SecretUnusable(
    `${join(folder.path, name)} is missing beside the store in ${folder.cluster}: restore it from a backup; nothing was changed`,
  )
}

export function syncFolder(path: string): void {
  if (process.platform === 'win32') return
  const folder = openSync(path, 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}

function readOptional(file: string): string | null {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}
