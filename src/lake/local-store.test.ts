import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { failSyncs } from '../../faults/lake-hooks.ts'
import { makeLocalLake } from '../../test/lake-stores.ts'

test('removes a file whose folder cannot be synced, and stores it again', async (t) => {
  const { store } = await makeLocalLake(t)
  const put = (name: string) =>
    store.withWorkspace(async (folder) => {
      await writeFile(join(folder, 'file'), 'rows')
      return store.put(`orders/ingest_date=2026-03-01/${name}.parquet`, join(folder, 'file'))
    })
  assert.equal(await put('a'), 'stored')
  failSyncs(1)
  await assert.rejects(put('b'), { code: 'EIO' })
  assert.equal((await store.list('orders/')).length, 1)
  assert.equal(await put('b'), 'stored')
  assert.equal((await store.list('orders/')).length, 2)
})
