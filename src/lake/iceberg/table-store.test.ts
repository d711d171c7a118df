import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { makeLocalLake } from '../../../test/lake-stores.ts'
import { TableStore } from './table-store.ts'

test('a file that cannot be stored rejects the call, and no other promise', async (t) => {
  const { store } = await makeLocalLake(t)
  store.put = async () => {
    throw new Error('the disk is full')
  }
  const unhandled: unknown[] = []
  const note = (reason: unknown) => void unhandled.push(reason)
  process.on('unhandledRejection', note)
  t.after(() => process.off('unhandledRejection', note))
  await assert.rejects(new TableStore(store, 'order_events').putFile('iceberg/order_events/data/a.parquet', Buffer.from('a')), /full/)
  await setImmediate()
  assert.deepEqual(unhandled, [])
})
