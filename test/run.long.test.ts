import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'

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

/** Runs test/run.ts on files made for it: `once…` fails the first time, `always` each time. */
function runFiles(t: TestContext, names: string[], options = ['--again']) {
  const folder = mkdtempSync(join(tmpdir(), 'storefront-run-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const files = names.map((name) => {
    const file = join(folder, `${name}.test.ts`)
    writeFileSync(
      file,
      `import { existsSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
const mark = ${JSON.stringify(`${file}.failed`)}
test(${JSON.stringify(name)}, () => {
  if (${name === 'passes'} || ${name.startsWith('once')} && existsSync(mark)) return
  writeFileSync(mark, '')
  throw new Error('as meant')
})
`,
    )
    return file
  })
  // A runner inside a test would report to the outer one.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const { status, stdout, stderr } = spawnSync(process.execPath, ['test/run.ts', ...files, ...options], { encoding: 'utf8', env })
  return { status, output: stdout + stderr }
}
