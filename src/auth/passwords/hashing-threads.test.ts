import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { getPriority } from 'node:os'
import { test } from 'node:test'
import { AppError } from '../../errors.ts'
import { HashingThreads } from './hashing-threads.ts'

const PARAMETERS = { message: Buffer.from('x'), nonce: Buffer.alloc(16), memory: 64, passes: 1, parallelism: 1, tagLength: 32 }

test('returns each hash to its caller', async (t) => {
  const threads = new HashingThreads({ threads: 3, maxWaiting: 100 })
  t.after(() => threads.stop())
  const lengths = Array.from({ length: 40 }, (_, i) => 16 + i)
  const tags = await Promise.all(lengths.map((tagLength) => threads.derive({ ...PARAMETERS, tagLength })))
  assert.deepEqual(
    tags.map((tag) => tag.length),
    lengths,
  )
})

test('hashes at a lower priority than the event loop', {
  skip: process.platform !== 'linux' && 'a thread has no priority of its own here',
}, async (t) => {
  const lower = Math.min(19, getPriority(process.pid) + 10)
  // The stores of other test files in this process have such threads too.
  const countLower = () => readdirSync('/proc/self/task').filter((thread) => getPriority(Number(thread)) === lower).length
  const before = countLower()
  const threads = new HashingThreads({ threads: 1, maxWaiting: 0 })
  t.after(() => threads.stop())
  await threads.derive(PARAMETERS)
  assert.equal(countLower(), before + 1)
})

test('continues after a failed hash and after a stop', async (t) => {
  const threads = new HashingThreads({ threads: 1, maxWaiting: 1 })
  t.after(() => threads.stop())
  await assert.rejects(threads.derive({ ...PARAMETERS, memory: 1 }), (error) => error instanceof Error && !(error instanceof AppError))
  const [first, , third] = await Promise.allSettled([1, 2, 3].map(() => threads.derive(PARAMETERS)))
  assert.deepEqual([first?.status, third?.status], ['fulfilled', 'rejected'])
  await Promise.all([threads.stop(), threads.stop()])
  assert.equal((await threads.derive(PARAMETERS)).length, 32)
})
