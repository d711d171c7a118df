import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { findDropped, findDroppedBelow, NEVER_REJECT } from './promises.ts'

test('no promise is left without a handler by `void`, and each function that may is one that never rejects', () => {
  const dropped = findDroppedBelow(fileURLToPath(new URL('..', import.meta.url)))
  assert.deepEqual([...new Set(dropped)].toSorted(), Object.keys(NEVER_REJECT).toSorted())
})

test('sees each way of dropping a promise, and lets handled ones pass', () => {
  const dropped = ['work()', 'running.finally(f)', 'closed().then(f)', 'a?.b()', 'promise', 'work().catch(f).then(g)', 'new Work()']
  for (const way of dropped) assert.equal(findDropped('x.ts', `timer = setInterval(() => void ${way}, 1)`).length, 1, way)
  const handled = ['work().catch(f)', 'work().then(f, g)', 'work().catch(f).finally(g)', 'a?.b().catch(f)', '(await work())', '0']
  for (const way of handled) assert.deepEqual(findDropped('x.ts', `async () => { void ${way} }`), [], way)
})
