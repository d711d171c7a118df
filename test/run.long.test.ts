import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { makeTestFolder } from './test-folder.ts'

test('with --again a file that fails beside others runs a second time, alone, and is named', (t) => {
  const { status, output } = runFiles(t, ['once', 'passes'])
  assert.equal(status, 0, output)
  assert.match(output, /^ℹ again \S+once\.test\.ts$/m)
  assert.match(output, /^failed beside other tests, and passed alone: \S+once\.test\.ts$/m)
  assert.equal(output.match(/✔ passes/g)?.length, 1)
})

test('a file that fails twice fails the run, and without --again once is enough', (t) => {
  const { status, output } = runFiles(t, ['always'])
  assert.equal(status, 1, output)
  assert.match(output, /^ℹ again /m)
  assert.doesNotMatch(output, /passed alone/)
  assert.equal(runFiles(t, ['once'], []).status, 1)
})

test('more than three failed files are not run again', (t) => {
  const { status, output } = runFiles(t, ['once', 'once-2', 'once-3', 'once-4'])
  assert.equal(status, 1, output)
  assert.doesNotMatch(output, /^ℹ again /m)
})

test('files that share a process get its environment and clocks as they were, and one that keeps a signal fails the run', (t) => {
  const change = `process.env.LEFT = 'by the first'\nmock.timers.enable({ apis: ['Date'], now: 0 })\n`
  const look = `test('unchanged', () => assert.deepEqual([process.env.LEFT, Date.now() > 0], [undefined, true]))\n`
  const names = ['a', 'b', 'c', 'd'].map((name) => `passes-${name}`)
  const { status, output } = runFiles(t, [...names, 'passes-e'], [], { 'passes-a': change, 'passes-e': look })
  assert.equal(status, 0, output)
  const keep = `process.on('SIGHUP', () => {})\n`
  const kept = runFiles(t, [...names, 'passes-e'], [], { 'passes-a': keep })
  assert.equal(kept.status, 1, kept.output)
  assert.match(kept.output, /passes-a\.test\.ts changes the process for the files after it/)
  const again = runFiles(t, ['once', ...names], ['--again'], { once: keep })
  assert.equal(again.status, 1, again.output)
  assert.doesNotMatch(again.output, /^ℹ again /m)
})

test('a test that a helper makes fails its file, also when it runs again', (t) => {
  const helper = `import { test } from 'node:test'
export const fail = () => test('of a helper', () => Promise.reject(new Error('as meant')))
`
  const use = `const helper = import.meta.filename.replace('.test', '')
writeFileSync(helper, ${JSON.stringify(helper)})
const { fail } = await import(helper)
fail()
`
  const { status, output } = runFiles(t, ['passes'], ['--again'], { passes: use })
  assert.equal(status, 1, output)
  assert.match(output, /^ℹ again \S+passes\.test\.ts$/m)
})

test('files that a process did not reach are run again, and fail the run', (t) => {
  const end = `if (!existsSync(mark)) test('ends', () => {
  writeFileSync(mark, '')
  process.exit(0)
})
`
  const { status, output } = runFiles(t, ['passes-a', 'passes-b', 'passes-c', 'passes-d', 'always'], ['--again'], { 'passes-a': end })
  assert.equal(status, 1, output)
  assert.match(output, /^ℹ again \S+passes-a\.test\.ts \S+always\.test\.ts$/m)
})

for (const options of [[], ['--again'], ['--long'], ['--long', '--again']]) {
  test(`a file that ends its process with status 0 fails the run: ${options.join(' ') || 'no option'}`, (t) => {
    const { status, output } = runFiles(t, ['passes'], options, { passes: `test('ends', () => process.exit(0))\n` })
    assert.equal(status, 1, output)
    assert.match(output, /^failed or without a result: \S+passes\.test\.ts$/m)
  })
}

/**
 * Runs test/run.ts on files made for it: `once…` fails the first time, `always` each time. `more` is what a file does
 * besides.
 */
function runFiles(t: TestContext, names: string[], options = ['--again'], more: Record<string, string> = {}) {
  const folder = makeTestFolder(t, 'storefront-run-')
  const files = names.map((name) => {
    const file = join(folder, `${name}.test.ts`)
    writeFileSync(
      file,
      `import assert from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { mock, test } from 'node:test'
const mark = ${JSON.stringify(`${file}.failed`)}
test(${JSON.stringify(name)}, () => {
  if (${name.startsWith('passes')} || ${name.startsWith('once')} && existsSync(mark)) return
  writeFileSync(mark, '')
  throw new Error('as meant')
})
${more[name] ?? ''}`,
    )
    return file
  })
  // A runner inside a test would report to the outer one.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const args = [
    'test/run.ts',
    ...options.filter((option) => option === '--long'),
    ...files,
    ...options.filter((option) => option !== '--long'),
  ]
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', env })
  return { status, output: stdout + stderr }
}
