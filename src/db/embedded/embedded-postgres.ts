import { existsSync, readdirSync } from 'node:fs'
import type { DatabaseAddresses } from '../addresses.ts'
import { type DataFolder, draftFolder, hasCluster, lockDataFolder, missingSecret, readSecret, restoredFolder } from './data-folder.ts'
import { OWNER } from './embedded-roles.ts'
import { findFullDisk, isDiskFull } from './full-disk.ts'
import { PostgresUnavailable } from './postgres-launcher.ts'
import { addressesOf, type Server, type ServerOptions, startServer } from './postgres-server.ts'
import { address, PASSWORD_FILE, probe, readPidFile } from './running-postgres.ts'
import { KeptServer } from './server-supervisor.ts'

export interface EmbeddedOptions extends ServerOptions {
  /** Called when the server ends without having been stopped, and each time that it cannot be started again. */
  onUnexpectedExit?: (message: string) => void
  /** Whether a server that ended is started again at the same address, with pauses; `onRestarted` is called when it answers. */
  isKeptRunning?: boolean
  onRestarted?: () => void
}

/** A PostgreSQL server in the data folder, owned by this process. */
export interface EmbeddedPostgres {
  /** Superuser address of the store's database. It carries the password: not for logs. */
  readonly url: string
  /** The same by a Unix socket in the data folder, which takes half of what TCP costs; `url` where the folder takes none. */
  readonly socketUrl: string
  /** What the store connects by: likewise by the socket where there is one. */
  readonly addresses: DatabaseAddresses
  /** Why one that is kept running does not run now, null while it does. */
  readonly failure: string | null
  /** Stops the server; `wait` lets its other clients finish first. Idempotent. */
  stop(how?: 'now' | 'wait'): Promise<void>
}

/**
 * Takes the folder, makes the cluster if there is none, recovers it after a crash, and returns when it answers.
 * Throws DataFolderInUse or PostgresUnavailable.
 */
export async function startEmbeddedPostgres(folder: DataFolder, options: EmbeddedOptions = {}): Promise<EmbeddedPostgres> {
  const unlock = lockOnDisk(folder)
  try {
    assertWhole(folder)
    const server = await startServer(folder, options)
    const kept = options.isKeptRunning === true ? keepRunning(folder, options, server) : null
    if (kept === null) void server.died.then(options.onUnexpectedExit)
    const stop = async (how: 'now' | 'wait' = 'now') => {
      await (kept ?? server).stop(how)
      unlock()
    }
    const { url, addresses } = server
    return {
      url,
      socketUrl: addresses.owner,
      addresses,
      get failure() {
        return kept?.failure ?? null
      },
      stop,
    }
  } catch (error) {
    unlock()
    throw isDiskFull(error) ? cannotStart(folder, error) : error
  }
}

function lockOnDisk(folder: DataFolder): () => void {
  try {
    return lockDataFolder(folder)
  } catch (error) {
    throw isDiskFull(error) ? cannotStart(folder, error) : error
  }
}

/**
 * Without its password nobody gets into the cluster, and a store whose cluster is missing must not become an empty one: making another would
 * only hide that. Throws SecretUnusable or PostgresUnavailable.
 */
function assertWhole(folder: DataFolder): void {
  if (hasCluster(folder)) {
    if (readSecret(folder, PASSWORD_FILE) === null) throw missingSecret(folder, PASSWORD_FILE)
    return
  }
  if (existsSync(restoredFolder(folder)))
    throw new PostgresUnavailable(`a restore into ${folder.path} was not finished: run storefront restore again`)
  const left = findRemains(folder)
  if (left.length === 0) return
  throw new PostgresUnavailable(
    `the database ${folder.cluster} is missing beside ${left.join(', ')}: mount its disk, or run storefront restore with a backup, or move ${left.length === 1 ? 'that' : 'those'} away for a new store; nothing was changed`,
  )
}

// Their names are those of the part of the store that makes them, once there is a cluster.
const SECRETS = ['secret', 'secret.next']

/** What only a store that had a cluster has. Throws SecretUnusable. */
function findRemains(folder: DataFolder): string[] {
  const names = existsSync(draftFolder(folder)) ? SECRETS : [PASSWORD_FILE, ...SECRETS]
  const files = names.filter((name) => readSecret(folder, name) !== null)
  const hasLake = existsSync(folder.lake) && readdirSync(folder.lake).some((name) => name !== 'lost+found')
  return hasLake ? [...files, 'lake'] : files
}

/** At the same address, which pools and commands use. */
function keepRunning(folder: DataFolder, options: EmbeddedOptions, first: Server): KeptServer<Server> {
  const { onUnexpectedExit = () => {}, onRestarted = () => {}, onWarning: _, ...rest } = options
  const restart = async () => {
    // Starting would make an empty store.
    if (!hasCluster(folder)) throw new PostgresUnavailable(`the store in ${folder.cluster} is gone`)
    const server = await startServer(folder, { ...rest, findPort: async () => first.port })
    if (server.addresses.owner === first.addresses.owner) return server
    await server.stop('now')
    throw new PostgresUnavailable(`no socket can be made in ${folder.cluster}`)
  }
  return new KeptServer(first, { restart, onDown: onUnexpectedExit, onUp: onRestarted })
}

function cannotStart(folder: DataFolder, cause: unknown): PostgresUnavailable {
  const reason = findFullDisk(folder) ?? `the disk of ${folder.path} is full: make room on it`
  return new PostgresUnavailable(`the embedded PostgreSQL cannot start: ${reason}`, { cause })
}

/** Addresses of the server that another process runs in this folder, null while there is none that answers. */
export async function findEmbeddedPostgres(folder: DataFolder): Promise<DatabaseAddresses | null> {
  const password = readSecret(folder, PASSWORD_FILE)
  const server = readPidFile(folder)
  if (password === null || !server?.ready) return null
  if ((await probe(address(server.port, { role: OWNER, password }))) !== null) return null
  return addressesOf(server.port, password, server.socketFolder === folder.cluster ? folder.cluster : null)
}
