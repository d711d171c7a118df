import assert from 'node:assert/strict'
import { readFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { makeRandom } from '../../faults/random.ts'
import { writeFiles } from '../../test/lake-harness.ts'
import { type MakeLake, makeLocalLake, makeS3Lake } from '../../test/lake-stores.ts'
import { withComparisonTables } from '../audit/verify/comparison-tables.ts'
import { readLake } from '../audit/verify/read-lake.ts'
import { compactLake } from './compact-lake.ts'
import { checkChecksum } from './lake-checksum.ts'
import { listLake } from './list-files.ts'

const METADATA_BYTES = 320

for (const [kind, makeLake] of [
  ['a folder', makeLocalLake],
  ['a bucket', makeS3Lake],
] as const) {
  describe(`a file in ${kind}`, () => checksums(makeLake))
}

function checksums(makeLake: MakeLake): void {
  test('a file has its checksum in it, before and after a merge', async (t) => {
    const { store, pathOf } = await makeLake(t)
    await writeFiles(t, store, [2, 3])
    for (const { name } of await listLake(store)) assert.equal(await checkChecksum(pathOf(name)), 'right')
    await compactLake({ store, isWanted: () => true })
    const [merged, ...others] = await listLake(store)
    assert.deepEqual(others, [])
    assert.equal(await checkChecksum(pathOf(merged?.name ?? '')), 'right')
  })

  test('a damaged file is reported as corrupt, and merged with no other', async (t) => {
    const { store, pathOf, connect } = await makeLake(t)
    await writeFiles(t, store, [2, 3])
    const [file] = await listLake(store)
    const path = pathOf(file?.name ?? '')
    const bytes = await readFile(path)
    // The middle of the data, where Parquet notices nothing.
    bytes[400] = (bytes[400] ?? 0) ^ 1
    await writeFile(path, bytes)
    const { corrupt } = await withComparisonTables((tables) => readLake(store, 'orders', tables))
    assert.deepEqual(
      corrupt.map(({ name }) => name),
      [file?.name],
    )
    // Another process has no copy from before.
    const { merged, failures } = await compactLake({ store: await connect(), isWanted: () => true })
    assert.deepEqual([merged, failures.length], [0, 1])
  })
}

test('a checksum detects a flipped bit anywhere in a file, and a missing end', async (t) => {
  const { store, pathOf } = await makeLocalLake(t)
  await writeFiles(t, store, [1])
  const path = pathOf((await listLake(store))[0]?.name ?? '')
  const bytes = await readFile(path)
  const copy = join(path, '../copy')
  const missed: number[] = []
  // Every byte of the metadata, where the checksum is, and some of all others.
  const metadata = bytes.length - METADATA_BYTES
  const random = makeRandom(15)
  const offsets = Array.from({ length: 300 }, () => Math.floor(random() * metadata))
  for (let offset = metadata; offset < bytes.length; offset++) offsets.push(offset)
  for (const offset of offsets) {
    const damaged = Buffer.from(bytes)
    damaged[offset] = (damaged[offset] ?? 0) ^ (1 << (offset % 8))
    await writeFile(copy, damaged)
    if ((await checkChecksum(copy)) !== 'wrong') missed.push(offset)
  }
  assert.deepEqual(missed, [])
  await writeFile(copy, bytes)
  assert.equal(await checkChecksum(copy), 'right')
  await truncate(copy, bytes.length - 1)
  assert.equal(await checkChecksum(copy), 'wrong')
})
