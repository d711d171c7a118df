import assert from 'node:assert/strict'
import { symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { failSyncs } from '../../faults/lake-hooks.ts'
import { makeLocalLake } from '../../test/lake-stores.ts'
import { makeTestFolder } from '../../test/test-folder.ts'
import { LocalLakeStore } from './local-store.ts'

test('removes a file whose folder cannot be synced, and stores it at the next attempt', async (t) => {
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

test('a folder that is a dangling link, such as an unmounted volume, is an error at once', async (t) => {
  const folder = makeTestFolder(t, 'storefront-lake-')
  await symlink('/nonexistent/volume', join(folder, 'lake'))
  const store = new LocalLakeStore(join(folder, 'lake'))
  await writeFile(join(folder, 'file'), 'x')
  await assert.rejects(store.put('orders/ingest_date=2026-03-01/1.parquet', join(folder, 'file')), /ENOTDIR|ENOENT|EEXIST/)
})
