import { spawn } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connectClient } from '../src/db/pool.ts'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { retryUntil } from './eventually.ts'
import { freePort } from './free-port.ts'
import { missingProgram, PROGRAM_PATH } from './programs.ts'

/** Why tests with PgBouncer are skipped here, false where they run. With CI=true they run or fail. */
export const pgbouncerMissing = missingProgram('pgbouncer', 'pgbouncer')

const NOBODY = 65_534

/** A real PgBouncer in front of the database of an address. Returns the address through it, with the same role. */
export async function startPgbouncer(t: Cleanup, url: string, mode: 'session' | 'transaction' | 'statement'): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'storefront-pgbouncer-'))
  const { hostname, port, username, password, pathname } = new URL(url)
  const database = pathname.slice(1)
  const listenPort = await freePort()
  const file = join(folder, 'pgbouncer.ini')
  writeFileSync(
    file,
    `[databases]
${database} = host=${hostname} port=${port} user=${username} password=${decodeURIComponent(password)}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${listenPort}
unix_socket_dir =
auth_type = any
pool_mode = ${mode}
default_pool_size = 20
`,
  )
  chmodSync(folder, 0o755)
  // PgBouncer does not run as root.
  const identity = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {}
  const child = spawn('pgbouncer', [file], { ...identity, env: { ...process.env, PATH: PROGRAM_PATH }, stdio: 'ignore' })
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()).once('error', () => resolve()))
  onCleanup(t, async () => {
    child.kill('SIGTERM')
    await exited
    rmSync(folder, { recursive: true, force: true })
  })
  const address = `postgres://${username}@127.0.0.1:${listenPort}/${database}`
  await retryUntil(async () => (await connectClient(address, 'test')).end())
  return address
}
