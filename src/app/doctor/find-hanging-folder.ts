import { spawn } from 'node:child_process'

// One byte for each folder whose disk has answered. statfs asks the server of a network disk; other calls may be answered from a cache.
const PROBE = `
  const fs = require('node:fs')
  for (const folder of process.argv.slice(1)) {
    try { fs.statfsSync(folder) } catch {}
    fs.writeSync(1, '.')
  }`

/**
 * The first folder whose disk does not answer in time, such as an unavailable network disk; null when all answer or are
 * missing. It asks in a process of its own, because Node.js cannot exit while one of its threads hangs in such a call.
 */
export async function findHangingFolder(folders: readonly string[], timeoutMs: number): Promise<string | null> {
  const { promise, resolve } = Promise.withResolvers<string | null>()
  const child = spawn(process.execPath, ['--eval', PROBE, ...folders], { stdio: ['ignore', 'pipe', 'ignore'] })
  let answered = 0
  child.stdout.on('data', ({ length }: Buffer) => {
    answered += length
  })
  child.once('error', () => resolve(null)).once('exit', () => resolve(null))
  const timer = setTimeout(() => resolve(folders[answered] ?? null), timeoutMs)
  return promise.finally(() => {
    clearTimeout(timer)
    child.kill('SIGKILL')
    child.unref()
  })
}
