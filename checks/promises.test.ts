import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { findDropped, findDroppedBelow, NEVER_REJECT } from './promises.ts'

test('no `void` leaves a promise without a handler, and each function that may never rejects', () => {
  const dropped = findDroppedBelow(fileURLToPath(new URL('..', import.meta.url)))
  assert.deepEqual([...new Set(dropped)].toSorted(), Object.keys(NEVER_REJECT).toSorted())
})

test('finds each way to drop a promise, and accepts handled promises', () => {
  const dropped = ['work()', 'running.finally(f)', 'closed().then(f)', 'a?.b()', 'promise', 'work().catch(f).then(g)', 'new Work()']
  for (const way of dropped) assert.equal(findDropped('x.ts', `timer = setInterval(() => void ${way}, 1)`).length, 1, way)
  const handled = ['work().catch(f)', 'work().then(f, g)', 'work().catch(f).finally(g)', 'a?.b().catch(f)', '(await work())', '0']
  for (const way of handled) assert.deepEqual(findDropped('x.ts', `async () => { void ${way} }`), [], way)
})
