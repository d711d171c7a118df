import assert from 'node:assert/strict'
import { test } from 'node:test'
import { boundCheck } from './service.ts'

test('a check that waits for a dependency reports that it takes long, and another check answers by itself', async () => {
  const reason = 'its checks take longer than 0.01 s: a dependency does not answer'
  assert.deepEqual(await boundCheck(() => new Promise(() => {}), 10)(), [{ name: 'process', reason }])
  const failing = [{ name: 'lake', reason: 'the disk is full' }]
  assert.deepEqual(await boundCheck(async () => failing)(), failing)
})
