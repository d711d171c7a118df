import assert from 'node:assert/strict'
import { resolve } from 'node:path'
import { mock, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { isDeepStrictEqual } from 'node:util'

/** Runs test files one after the other in this process, each as a test with its path as name. */
export async function runGroup(files: readonly string[]): Promise<void> {
  const environment = { ...process.env }
  let before = describeProcess()
  for (const file of files) {
    await test(file, async () => void (await import(pathToFileURL(resolve(file)).href)))
    mock.reset()
    for (const name of Object.keys(process.env)) if (!(name in environment)) delete process.env[name]
    Object.assign(process.env, environment)
    const after = describeProcess()
    if (files.length === 1 || isDeepStrictEqual(after, before)) continue
    const found = before
    // This name is no path: alone, the file would pass.
    await test(`what ${file} leaves`, () => assert.deepEqual(after, found, `${file} changes the process for the files after it`))
    before = after
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
