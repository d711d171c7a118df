import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FairQueue } from './fair-queue.ts'

const always = () => true

function queueOf(...items: string[]): FairQueue<string> {
  const queue = new FairQueue<string>()
  for (const item of items) queue.push([item.slice(0, 1)], item)
  return queue
}

function takeSome(queue: FairQueue<string>, count: number): string[] {
  const taken: string[] = []
  for (const item of queue.take(always, always)) {
    taken.push(item)
    if (taken.length === count) break
  }
  return taken
}

test("owners take turns, and each owner's items keep their order of arrival", () => {
  const queue = queueOf('a1', 'a2', 'a3', 'b1', 'c1', 'c2')
  assert.deepEqual([queue.length, queue.owners], [6, 3])
  assert.deepEqual([...queue.take(always, always)], ['a1', 'b1', 'c1', 'a2', 'c2', 'a3'])
  assert.deepEqual([queue.length, queue.owners], [0, 0])
})

test('turns continue in the next call, where a new owner comes after the waiting ones', () => {
  const queue = queueOf('a1', 'a2', 'a3', 'b1', 'b2')
  assert.deepEqual(takeSome(queue, 1), ['a1'])
  queue.push(['c'], 'c1')
  assert.deepEqual(takeSome(queue, 2), ['b1', 'a2'])
  assert.deepEqual([...queue.take(always, always)], ['c1', 'b2', 'a3'])
})

test("an item that is not ready lets its owner's later items pass, and keeps its place", () => {
  const queue = queueOf('a1', 'a2', 'b1', 'c1')
  assert.deepEqual([...queue.take((item) => item !== 'a1' && item !== 'c1', always)], ['a2', 'b1'])
  queue.push(['a'], 'a3')
  assert.deepEqual([...queue.take(always, always)], ['c1', 'a1', 'a3'])
})

test('other owners pass an owner whose item does not fit, its own later items do not, and it is first in the next call', () => {
  const queue = queueOf('a1', 'b1', 'b2', 'c1')
  queue.push(['a'], 'a2')
  assert.deepEqual([...queue.take(always, (item) => item !== 'a1' && item !== 'b2')], ['b1', 'c1'])
  assert.deepEqual([...queue.take(always, always)], ['a1', 'b2', 'a2'])
})

/** Items of accounts in networks: `n:a1` is the first of account a in network n. */
function queueOfNetworks(...items: string[]): FairQueue<string> {
  const queue = new FairQueue<string>()
  for (const item of items) queue.push([item.slice(0, 3), item.slice(0, 1)], item)
  return queue
}

test('networks take turns, and the accounts within one do too: sixty accounts of a network have one turn between two of another', () => {
  const many = Array.from({ length: 60 }, (_, n) => `n:${String.fromCharCode(200 + n)}1`)
  const queue = queueOfNetworks('n:a1', 'n:a2', ...many, 'm:b1', 'm:b2')
  assert.equal(queue.owners, 2)
  assert.deepEqual([...queue.take(always, always)], ['n:a1', 'm:b1', many[0], 'm:b2', ...many.slice(1), 'n:a2'])
})

test('no network that had a turn passes a network whose item does not fit, and its other accounts keep their turns', () => {
  const queue = queueOfNetworks('n:a1', 'n:b1', 'm:c1', 'm:c2')
  assert.deepEqual([...queue.take(always, (item) => item !== 'n:a1' && item !== 'm:c2')], ['n:b1', 'm:c1'])
  assert.deepEqual([...queue.take(always, always)], ['n:a1', 'm:c2'])
})

test('drops the newest item of the largest account in the largest network, and at a tie the newest of all', () => {
  const queue = queueOfNetworks('m:c1', 'm:c2', 'n:a1', 'n:b1', 'n:b2', 'n:d1', 'm:c3')
  assert.deepEqual(
    Array.from({ length: 8 }, () => queue.dropFromHeaviest()),
    ['n:b2', 'm:c3', 'n:d1', 'n:b1', 'm:c2', 'n:a1', 'm:c1', undefined],
  )
  assert.equal(queue.length, 0)
})

test('the heaviest owner loses its newest item, even when another owner has more items', () => {
  const queue = queueOf('a1', 'a2', 'a3')
  queue.push(['b'], 'b1', 2)
  queue.push(['b'], 'b2', 3)
  assert.deepEqual([queue.weight, queue.dropFromHeaviest(), queue.weight, queue.dropFromHeaviest(), queue.length], [8, 'b2', 5, 'a3', 3])
})
