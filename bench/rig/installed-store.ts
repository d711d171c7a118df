import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Cleanup, onCleanup } from '../../test/cleanup.ts'
import { freePort } from '../../test/free-port.ts'
import { nowMs } from './clock.ts'

const BIN = fileURLToPath(new URL('../../bin/storefront.mjs', import.meta.url))
const POLL_MS = 2
const PATIENCE_MS = 120_000

export interface InstalledStore {
  pid: number
  port: number
  dataDir: string
  /** The time from the process's start to its first answer. */
  firstAnswerMs: number
  stop(): Promise<void>
}

/**
 * Starts the store like `npm start`: one process with all roles and its own PostgreSQL, in a new folder or in
 * `dataDir`.
 */
export async function startAsInstalled(cleanup: Cleanup, dataDir = makeFolder(cleanup)): Promise<InstalledStore> {
  const port = await freePort()
  const beganMs = nowMs()
  const child = spawn(process.execPath, [BIN, 'serve'], {
    env: { PATH: process.env.PATH, DATA_DIR: dataDir, PORT: String(port), OPS_PORT: '0' },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const exit = once(child, 'exit')
    child.kill('SIGTERM')
    await exit
  }
  onCleanup(cleanup, stop)
  while (!(await answers(port))) {
    if (child.exitCode !== null) throw new Error(`the store ended with ${child.exitCode}`)
    if (nowMs() - beganMs > PATIENCE_MS) throw new Error('the store does not answer')
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
  return { pid: child.pid ?? 0, port, dataDir, firstAnswerMs: nowMs() - beganMs, stop }
}

export function makeFolder(cleanup: Cleanup): string {
  const folder = mkdtempSync(join(tmpdir(), 'storefront-bench-'))
  onCleanup(cleanup, () => rmSync(folder, { recursive: true, force: true }))
  return folder
}

async function answers(port: number): Promise<boolean> {
  const answer = await fetch(`http://127.0.0.1:${port}/products?limit=20`).catch(() => null)
  await answer?.arrayBuffer()
  return answer?.status === 200
}
