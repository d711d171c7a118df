// A thread that hashes passwords; see hashing-threads.ts. Plain JavaScript, because threads do not inherit the hook
// with which bin/storefront.mjs strips types below node_modules.
import { argon2Sync } from 'node:crypto'
import { readlinkSync } from 'node:fs'
import { getPriority, setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { deriveForeign } from './foreign-derivations.mjs'

// Nice values. At ten more, a thread gets about a tenth of a contended core.
const LOWER_BY = 10
const LOWEST = 19

try {
  // On Linux each thread has its own priority. This link names the thread: <process>/task/<thread>.
  const [, , thread] = readlinkSync('/proc/thread-self').split('/')
  setPriority(Number(thread), Math.min(LOWEST, getPriority() + LOWER_BY))
} catch {
  // Other systems have no such link, so the thread keeps the process's priority.
}

parentPort?.on('message', (parameters) => {
  try {
    parentPort?.postMessage({ tag: 'scheme' in parameters ? deriveForeign(parameters) : argon2Sync('argon2id', parameters) })
  } catch (error) {
    parentPort?.postMessage({ error: String(error) })
  }
})
