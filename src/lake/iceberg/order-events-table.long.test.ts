import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lakeTableConformance } from '../../../test/conformance/lake-table-conformance.ts'
import { readEvents, writeFiles } from '../../../test/lake-harness.ts'
import { makeLocalLake, makeS3Lake } from '../../../test/lake-stores.ts'
import { readSnapshot } from './event-table.ts'

lakeTableConformance('bucket', makeS3Lake)

test('after a hundred files there are few snapshots and manifests, and all events', async (t) => {
  const lake = await makeLocalLake(t)
  const ids = await writeFiles(t, lake.store, Array(110).fill(1))
  const { base, files } = await readSnapshot(lake.store, 'orders')
  assert.deepEqual([files.length, base.metadata?.snapshots.length], [110, 100])
  assert.ok(base.manifests.length <= 50)
  assert.deepEqual(await readEvents(lake.store), ids)
})
