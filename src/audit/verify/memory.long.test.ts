import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'

const MOST_MB = 300
const PROCESS = new URL('../../../test/compare-many-process.ts', import.meta.url).pathname

test('comparing a million events takes 300 MB, and a hundred thousand take nearly as much', async (t) => {
  const compare = async (events: number) => {
    const { stdout } = await promisify(execFile)(process.execPath, [PROCESS, String(events)])
    return JSON.parse(stdout) as { found: string[]; mostMb: number }
  }
  const few = await compare(100_000)
  const many = await compare(1_000_000)
  t.diagnostic(`${Math.round(few.mostMb)} MB for 100,000, ${Math.round(many.mostMb)} MB for 1,000,000`)
  for (const { found } of [few, many]) assert.deepEqual(found, ['lake missing 1'])
  assert.ok(many.mostMb <= MOST_MB, `${many.mostMb} MB`)
})
