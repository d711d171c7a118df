// One thread that hashes passwords; see hashing-threads.ts. No TypeScript: a thread does not inherit what bin/storefront.mjs
// registers to strip types below node_modules.
import { argon2Sync } from 'node:crypto'
import { readlinkSync } from 'node:fs'
import { getPriority, setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'

// Nice values: ten less is about a tenth of the time when both want it.
const LOWER_BY = 10
const LOWEST = 19

try {
  // On Linux a thread has a priority of its own, and this link tells its number: <process>/task/<thread>.
  const [, , thread] = readlinkSync('/proc/thread-self').split('/')
  setPriority(Number(thread), Math.min(LOWEST, getPriority() + LOWER_BY))
} catch {
  // Elsewhere it competes with the rest of the process on equal terms.
}

parentPort?.on('message', (parameters) => {
  try {
    parentPort?.postMessage({ tag: argon2Sync('argon2id', parameters) })
  } catch (error) {
    parentPort?.postMessage({ error: String(error) })
  }
})
