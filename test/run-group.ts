import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { mock, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { isDeepStrictEqual } from 'node:util'

export interface Group {
  files: readonly string[]
  /** The folder with an entry for each file that a process of this run has taken. */
  taken: string
  /** The number of files that this process takes at most. */
  max: number
  /** No file begins after this time, in milliseconds since 1970; null for no limit. */
  beginBefore: number | null
}

/** The entry of `taken` that a process makes when it takes no more files for lack of time. */
export const LATE = 'late'

/** Runs test files one after the other in this process, each as a test with its path as name. */
export async function runGroup({ files, taken, max, beginBefore }: Group): Promise<void> {
  const environment = { ...process.env }
  let before = describeProcess()
  for (let count = 0; count < max; count++) {
    if (beginBefore !== null && Date.now() > beginBefore) return void isTakenFirst(join(taken, LATE))
    const file = files.find((_, index) => isTakenFirst(join(taken, String(index))))
    if (file === undefined) return
    await test(file, async () => void (await import(pathToFileURL(resolve(file)).href)))
    mock.reset()
    for (const name of Object.keys(process.env)) if (!(name in environment)) delete process.env[name]
    Object.assign(process.env, environment)
    const after = describeProcess()
    if (max === 1 || isDeepStrictEqual(after, before)) continue
    const found = before
    // This name is no path: alone, the file would pass.
    await test(`what ${file} leaves`, () => assert.deepEqual(after, found, `${file} changes the process for the files after it`))
    before = after
  }
}

function isTakenFirst(entry: string): boolean {
  try {
    mkdirSync(entry)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    return false
  }
}

/** What a file could leave to the next one: its folder, clocks, timers, and what signals do. */
function describeProcess() {
  const { Date: clock, setInterval, setTimeout, setImmediate, fetch } = globalThis
  const signals = process
    .eventNames()
    .map(String)
    .filter((name) => name.startsWith('SIG') && process.listenerCount(name) > 0)
  return { folder: process.cwd(), signals, clock, setInterval, setTimeout, setImmediate, fetch, now: performance.now }
}
