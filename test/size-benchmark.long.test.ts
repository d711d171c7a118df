import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { WORKS } from '../bench/size/works.ts'

const RUN = fileURLToPath(new URL('../bench/run.ts', import.meta.url))
const SIZES = ['--products', '2000', '--orders', '4000', '--rounds', '1']

test('the benchmark of sizes has each of its works answered by both shops, and names what grows', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [RUN, 'size', ...SIZES], { maxBuffer: 10_000_000 })
  const rows = new Map(stdout.split('\n').flatMap((line) => (line.startsWith('| ') ? [[line.split(' | ')[0]?.slice(2), line]] : [])))
  for (const { name } of WORKS) assert.match(rows.get(name) ?? '', /\| [\d.,]+.*\| [\d.,]+.*\| × [\d.]+/, name)
  assert.match(stdout, /^Constant, and more than 2 ×: /m)
})
