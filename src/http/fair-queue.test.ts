import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FairQueue } from './fair-queue.ts'

const always = () => true

function queueOf(...items: string[]): FairQueue<string> {
  const queue = new FairQueue<string>()
  for (const item of items) queue.push(item.slice(0, 1), item)
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

test('owners take turns, and the items of one are in the order of arrival', () => {
  const queue = queueOf('a1', 'a2', 'a3', 'b1', 'c1', 'c2')
  assert.deepEqual([queue.length, queue.owners], [6, 3])
  assert.deepEqual([...queue.take(always, always)], ['a1', 'b1', 'c1', 'a2', 'c2', 'a3'])
  assert.deepEqual([queue.length, queue.owners], [0, 0])
})

test('turns continue in the next call, where an owner that is new comes after those that wait', () => {
  const queue = queueOf('a1', 'a2', 'a3', 'b1', 'b2')
  assert.deepEqual(takeSome(queue, 1), ['a1'])
  queue.push('c', 'c1')
  assert.deepEqual(takeSome(queue, 2), ['b1', 'a2'])
  assert.deepEqual([...queue.take(always, always)], ['c1', 'b2', 'a3'])
})

test('an item that is not ready lets later ones of its owner pass, and keeps its place among them', () => {
  const queue = queueOf('a1', 'a2', 'b1', 'c1')
  assert.deepEqual([...queue.take((item) => item !== 'a1' && item !== 'c1', always)], ['a2', 'b1'])
  queue.push('a', 'a3')
  assert.deepEqual([...queue.take(always, always)], ['c1', 'a1', 'a3'])
})

test('an owner whose item does not fit is passed by others and by none of its own items, and is first in the next call', () => {
  const queue = queueOf('a1', 'b1', 'b2', 'c1')
  queue.push('a', 'a2')
  assert.deepEqual([...queue.take(always, (item) => item !== 'a1' && item !== 'b2')], ['b1', 'c1'])
  assert.deepEqual([...queue.take(always, always)], ['a1', 'b2', 'a2'])
})
