import assert from 'node:assert/strict'
import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { describe, test } from 'node:test'
import { writeFiles } from '../../../test/lake-harness.ts'
import { makeLocalLake, makeS3Lake } from '../../../test/lake-stores.ts'
import { nameOf } from '../lake/lake-names.ts'
import { findLakeEnd, visitLakeBehind } from './lake-tail.ts'

const DAY = '2026-03-01'
const range = (first: number, last: number, level = 0) => nameOf({ ingestDate: DAY, first, last, level })

for (const [kind, makeLake] of [
  ['a folder', makeLocalLake],
  ['a bucket', makeS3Lake],
] as const) {
  describe(`a lake in ${kind}`, () => {
    test('ends with the newest file that was written under its name, whatever the names of others say', async (t) => {
      const { store, pathOf } = await makeLake(t)
      assert.equal(await findLakeEnd(store), 0)
      const events = await writeFiles(t, store, [3, 2])
      assert.equal(await findLakeEnd(store), 5)
      await writeFile(pathOf(range(9_000_000_000_001, 9_000_000_000_001)), 'junk\n')
      await writeFile(pathOf(range(9_000_000_000_002, 9_000_000_000_002)), '')
      await copyFile(pathOf(range(4, 5)), pathOf(range(9_000_000_000_003, 9_000_000_000_004)))
      const bytes = await readFile(pathOf(range(4, 5)))
      await writeFile(pathOf(range(9_000_000_000_005, 9_000_000_000_006)), bytes.subarray(0, bytes.length - 20))
      assert.equal(await findLakeEnd(store), 5)
      const tail: string[] = []
      await visitLakeBehind(store, 0, 5, async (found) => void tail.push(...found.map(({ eventId }) => eventId)))
      assert.deepEqual(tail, events.slice(3))
      // All of them are superseded by name.
      await writeFile(pathOf(range(0, 9_000_000_000_009, 9)), '')
      assert.equal(await findLakeEnd(store), 5)
    })
  })
}
