import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeLocalLake } from '../../../test/lake-stores.ts'
import { Catalogue } from './catalogue.ts'

test('opens the lake again after it could not be opened, and can be closed meanwhile', async (t) => {
  const { store } = await makeLocalLake(t)
  let [openings, closings] = [0, 0]
  store.close = () => {
    closings += 1
  }
  const catalogue = new Catalogue(async () => {
    if (++openings === 1) throw new Error('the bucket cannot be reached')
    return store
  })
  await catalogue.close()
  const opening = assert.rejects(catalogue.list(), /bucket/)
  await catalogue.close()
  await opening
  assert.deepEqual(await catalogue.list(), [])
  assert.deepEqual(await catalogue.list(), [])
  await catalogue.close()
  assert.deepEqual([openings, closings], [2, 1])
})
