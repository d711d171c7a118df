import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeTestFolder } from '../../test/test-folder.ts'
import { readOnce } from './read-once.ts'

test('reads each file once, even for simultaneous calls, and retries a failed read at the next call', async (t) => {
  const folder = makeTestFolder(t, 'storefront-read-')
  const names: string[] = []
  const read = readOnce((name) => {
    names.push(name)
    return readFile(join(folder, name), 'utf8')
  })
  const failed = await Promise.allSettled([read('a'), read('a')])
  assert.deepEqual(
    failed.map(({ status }) => status),
    ['rejected', 'rejected'],
  )
  assert.deepEqual(names, ['a'])
  writeFileSync(join(folder, 'a'), 'here')
  writeFileSync(join(folder, 'b'), 'there')
  assert.deepEqual(await Promise.all([read('a'), read('a'), read('b')]), ['here', 'here', 'there'])
  assert.equal(await read('a'), 'here')
  assert.deepEqual(names, ['a', 'a', 'b'])
})
