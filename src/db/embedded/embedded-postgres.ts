import { existsSync, readdirSync, renameSync } from 'node:fs'
import type { DatabaseAddresses } from '../addresses.ts'
import {
  type DataFolder,
  findMovedCluster,
  firstStart,
  hasCluster,
  lockDataFolder,
  missingSecretError,
  newClusterFolder,
  readSecret,
  restoredFolder,
  syncFolder,
} from './data-folder.ts'
import { OWNER } from './embedded-roles.ts'
import { findFullDisk, isDiskFull } from './full-disk.ts'
import { PostgresUnavailable } from './postgres-launcher.ts'
import { addressesOf, type Server, type ServerOptions, startServer } from './postgres-server.ts'
import { address, PASSWORD_FILE, probe, readPidFile } from './running-postgres.ts'
import { SupervisedServer } from './server-supervisor.ts'
import { markRestored } from './unfinished-restore.ts'

export interface EmbeddedOptions extends ServerOptions {
  onUnexpectedExit?: (message: string) => void
  /** Whether to restart an exited server at the same address. `onRestarted` is called once it answers. */
  isSupervised?: boolean
  onRestarted?: () => void
}

export interface EmbeddedPostgres {
  /** The superuser's address. Contains the password and must not be logged. */
  readonly url: string
  /**
   * The addresses of the roles. If the folder supports it, they use a Unix socket in it, which costs half as much as
   * TCP.
   */
  readonly addresses: DatabaseAddresses
  readonly failure: string | null
  stop(how?: 'now' | 'wait'): Promise<void>
  /**
   * Returns the cluster's new path. Renamed back it begins an incarnation, because the other server may have sold
   * since.
   */
  setAsMoved(): Promise<string>
}

/** Returns when the server answers. Throws DataFolderInUse, SecretUnusable or PostgresUnavailable. */
export async function startEmbeddedPostgres(folder: DataFolder, options: EmbeddedOptions = {}): Promise<EmbeddedPostgres> {
  let unlock = () => {}
  try {
    unlock = lockDataFolder(folder)
    assertComplete(folder)
    if (options.isSupervised !== true) firstStart.end(folder)
    else if (!hasCluster(folder)) firstStart.begin(folder)
    const server = await startServer(folder, options)
    const supervised = options.isSupervised === true ? supervise(folder, options, server) : null
    if (supervised === null)
      server.unexpectedExit.then(options.onUnexpectedExit, (error: Error) => options.onUnexpectedExit?.(error.message))
    const stop = async (how: 'now' | 'wait' = 'now') => {
      await (supervised ?? server).stop(how)
      unlock()
    }
    const setAsMoved = async () => {
      await (supervised ?? server).stop('now')
      const moved = `${folder.cluster}.moved-${Date.now()}`
      renameSync(folder.cluster, moved)
      markRestored(moved)
      syncFolder(folder.path)
      unlock()
      return moved
    }
    const { url, addresses } = server
    return {
      url,
      addresses,
      get failure() {
        return supervised?.failure ?? null
      },
      stop,
      setAsMoved,
    }
  } catch (error) {
    unlock()
    throw isDiskFull(error) ? cannotStart(folder, error) : error
  }
}

/** A new password or an empty cluster would hide missing files. Throws SecretUnusable or PostgresUnavailable. */
export function assertComplete(folder: DataFolder): void {
  if (hasCluster(folder)) {
    if (readSecret(folder, PASSWORD_FILE) === null) throw missingSecretError(folder, PASSWORD_FILE)
    return
  }
  assertNotMoved(folder)
  if (existsSync(restoredFolder(folder)))
    throw new PostgresUnavailable(`a restore into ${folder.path} was not finished: run storefront restore again`)
  const left = findOrphanedFiles(folder)
  if (left.length === 0) return
  throw new PostgresUnavailable(
    `the database ${folder.cluster} is missing beside ${left.join(', ')}: mount its disk, or run storefront restore with a backup, or move ${left.length === 1 ? 'that' : 'those'} away for a new store; nothing was changed`,
  )
}

/** Throws PostgresUnavailable if this folder's store has moved, because a new store would be empty. */
export function assertNotMoved(folder: DataFolder): void {
  const moved = findMovedCluster(folder)
  if (moved === null) return
  throw new PostgresUnavailable(
    `the store of ${folder.path} was moved to another database: set DATABASE_URL to its address, and if it is set run storefront replay; to go back without what was sold there, rename ${moved} to ${folder.cluster}`,
  )
}

// Secrets that other rooms create once there is a cluster.
const SECRETS = ['secret', 'secret.next']

/** Files that only a store with a cluster creates. Throws SecretUnusable. */
function findOrphanedFiles(folder: DataFolder): string[] {
  const names = existsSync(newClusterFolder(folder)) ? SECRETS : [PASSWORD_FILE, ...SECRETS]
  const files = names.filter((name) => readSecret(folder, name) !== null)
  const hasLake = existsSync(folder.lake) && readdirSync(folder.lake).some((name) => name !== 'lost+found')
  return hasLake ? [...files, 'lake'] : files
}

/** Restarts use the same address, which pools and commands have. */
function supervise(folder: DataFolder, options: EmbeddedOptions, first: Server): SupervisedServer {
  const { onUnexpectedExit = () => {}, onRestarted = () => {}, onWarning: _, ...rest } = options
  const restart = async () => {
    if (!hasCluster(folder)) throw new PostgresUnavailable(`the store in ${folder.cluster} is gone`)
    const server = await startServer(folder, { ...rest, findPort: async () => first.port })
    if (server.addresses.owner === first.addresses.owner) return server
    await server.stop('now')
    throw new PostgresUnavailable(`no socket can be made in ${folder.cluster}`)
  }
  return new SupervisedServer(first, { restart, onDown: onUnexpectedExit, onUp: onRestarted })
}

function cannotStart(folder: DataFolder, cause: unknown): PostgresUnavailable {
  const reason = findFullDisk(folder) ?? `the disk of ${folder.path} is full: make room on it`
  return new PostgresUnavailable(`the embedded PostgreSQL cannot start: ${reason}`, { cause })
}

export async function findEmbeddedPostgres(folder: DataFolder): Promise<DatabaseAddresses | null> {
  const password = readSecret(folder, PASSWORD_FILE)
  const server = readPidFile(folder)
  if (password === null || !server?.ready) return null
  if ((await probe(address(server.port, { role: OWNER, password }))) !== null) return null
  return addressesOf(server.port, password, server.socketFolder === folder.cluster ? folder.cluster : null)
}
