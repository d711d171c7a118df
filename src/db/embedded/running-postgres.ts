import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { connectToAny } from '../pool.ts'
import { CANNOT_CONNECT_NOW, sqlState } from '../sql-state.ts'
import { type DataFolder, readSecret } from './data-folder.ts'
import { type Credentials, OWNER } from './embedded-roles.ts'

export const DATABASE = 'storefront'
export const PASSWORD_FILE = 'postgres-password'
const POLL_MS = 100
const ORPHAN_PATIENCE_MS = 20_000
const STRANGER_PATIENCE_MS = 3_000

/** Stops a server whose store was killed, and waits until it has exited. Such a server runs on for a moment. */
export async function stopOrphan(folder: DataFolder): Promise<void> {
  const password = readSecret(folder, PASSWORD_FILE) ?? ''
  const started = performance.now()
  for (;;) {
    const orphan = readPidFile(folder)
    if (orphan === null || !sendSignal(orphan.pid, 0)) return
    const failure = await probe(address(orphan.port, { role: OWNER, password }))
    // The pid may now belong to another process. A server that accepts this folder's password is this store's.
    const isOurs = failure === null || sqlState(failure) === CANNOT_CONNECT_NOW
    const waitedMs = performance.now() - started
    if (isOurs) sendSignal(orphan.pid, waitedMs > ORPHAN_PATIENCE_MS ? 'SIGQUIT' : 'SIGINT')
    else if (waitedMs > STRANGER_PATIENCE_MS) return
    await delay(POLL_MS)
  }
}

/** Removes the sockets of killed servers. Their names contain a port. */
export function removeStaleSockets({ cluster }: DataFolder): void {
  for (const name of readdirSync(cluster)) if (name.startsWith('.s.PGSQL.')) rmSync(join(cluster, name))
}

// The layout of https://www.postgresql.org/docs/current/storage-file-layout.html: line 1 is the pid, 4 the port, 5 the
// socket's folder, and 8 the state.
export function readPidFile(folder: DataFolder): { pid: number; port: number; socketFolder: string; ready: boolean } | null {
  try {
    const lines = readFileSync(join(folder.cluster, 'postmaster.pid'), 'utf8').split('\n')
    return { pid: Number(lines[0]), port: Number(lines[3]), socketFolder: lines[4]?.trim() ?? '', ready: lines[7]?.trim() === 'ready' }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

export function address(port: number, { role, password }: Credentials, database = DATABASE): string {
  return `postgres://${role}:${password}@127.0.0.1:${port}/${database}`
}

const PROBE_TIMEOUT_MS = 5_000

export async function probe(url: string): Promise<Error | null> {
  try {
    await using _client = await connectToAny(url, 'storefront-probe', AbortSignal.timeout(PROBE_TIMEOUT_MS))
    return null
  } catch (error) {
    return error as Error
  }
}

export function isRunning(pid: number): boolean {
  return sendSignal(pid, 0)
}

function sendSignal(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ESRCH') return false
    if (code === 'EPERM' && signal === 0) return true
    throw error
  }
}
