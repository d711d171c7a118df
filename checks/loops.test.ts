import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

/** A loop with its own start and stop, by `stopping` or a similar signal. */
const BY_HAND = /\bsetInterval\(|\bwhile \(!(?:this\.#stopping|stopping)\.signal\.aborted\)/

function findOwnTimers(files: readonly (readonly [file: string, source: string])[]): string[] {
  return files.filter(([, source]) => BY_HAND.test(source)).map(([file]) => file)
}

test('every repetition until a stop is a Loop of src/loop.ts', () => {
  const files = globSync('src/**/*.ts', { cwd: ROOT }).filter((file) => !file.endsWith('.test.ts'))
  assert.ok(files.length > 500)
  assert.deepEqual(findOwnTimers(files.toSorted().map((file) => [file, readFileSync(`${ROOT}/${file}`, 'utf8')] as const)), [])
})

test('finds intervals and loops with their own stop', () => {
  for (const way of [
    'timer ??= setInterval(() => check(), 1)',
    'while (!stopping.signal.aborted) {',
    'while (!this.#stopping.signal.aborted) {',
  ])
    assert.deepEqual(findOwnTimers([['src/x.ts', way]]), ['src/x.ts'], way)
  assert.deepEqual(findOwnTimers([['src/x.ts', 'const end = every(1_000, draw)']]), [])
})
