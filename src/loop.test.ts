import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { every, type Failure, Loop, type LoopOptions } from './loop.ts'

/** A loop on a clock that `tick` advances, with a record of its work and reports. */
function createLoop(t: TestContext, options: Partial<LoopOptions> = {}) {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const seen = { rounds: 0, failures: [] as (Failure & { error: unknown })[], recovered: 0 }
  const { work = () => {}, ...rest } = options
  const loop = new Loop({
    everyMs: 100,
    work(signal, well) {
      seen.rounds += 1
      return work(signal, well)
    },
    onFailure: (error, failure) => void seen.failures.push({ error, ...failure }),
    onRecovered: () => {
      seen.recovered += 1
    },
    ...rest,
  })
  t.after(() => loop.stop())
  const tick = async (ms: number) => {
    await nextTurn()
    t.mock.timers.tick(ms)
    await nextTurn()
  }
  return { loop, seen, tick }
}

/** Work whose rounds end when the test ends them. */
function slowWork() {
  let end = Promise.withResolvers<void>()
  const signals: AbortSignal[] = []
  return {
    signals,
    work(signal: AbortSignal): Promise<void> {
      signals.push(signal)
      end = Promise.withResolvers()
      return end.promise
    },
    end: () => end.resolve(),
    fail: (error: Error) => end.reject(error),
  }
}

test('works at once and again after each pause', async (t) => {
  const { loop, seen, tick } = createLoop(t)
  await loop.start()
  assert.equal(seen.rounds, 1)
  await tick(99)
  assert.equal(seen.rounds, 1)
  await tick(1)
  assert.equal(seen.rounds, 2)
  await tick(100)
  assert.equal(seen.rounds, 3)
})

test('waits before the first round if set to', async (t) => {
  const { loop, seen, tick } = createLoop(t, { firstMs: 30 })
  await loop.start()
  await tick(29)
  assert.equal(seen.rounds, 0)
  await tick(1)
  assert.equal(seen.rounds, 1)
})

test('a round determines the pause after it, and may end the loop', async (t) => {
  const pauses = [7, 0, 'done'] as const
  let round = 0
  const { loop, seen, tick } = createLoop(t, { work: () => pauses[round++] })
  await loop.start()
  await tick(6)
  assert.equal(seen.rounds, 1)
  await tick(1)
  assert.equal(seen.rounds, 3)
  await tick(1_000)
  assert.equal(seen.rounds, 3)
  await loop.stop()
})

test('starts once, even if started several times', async (t) => {
  const { loop, seen, tick } = createLoop(t)
  await loop.start()
  await loop.start()
  await tick(100)
  assert.equal(seen.rounds, 2)
})

test('two rounds never overlap', async (t) => {
  const slow = slowWork()
  const { loop, seen, tick } = createLoop(t, { work: slow.work })
  await loop.start()
  await tick(1_000)
  assert.equal(seen.rounds, 1)
  slow.end()
  await tick(100)
  assert.equal(seen.rounds, 2)
  slow.end()
})

test('stop ends the pause, and no round follows', async (t) => {
  const { loop, seen, tick } = createLoop(t)
  await loop.start()
  await tick(10)
  await loop.stop()
  await loop.stop()
  await tick(1_000)
  assert.equal(seen.rounds, 1)
})

test('stop aborts the signal of the round in flight and waits for its end', async (t) => {
  const slow = slowWork()
  const { loop, seen, tick } = createLoop(t, { work: slow.work })
  await loop.start()
  let isStopped = false
  const stopping = [loop.stop(), loop.stop()].map((stop) =>
    stop.then(() => {
      isStopped = true
    }),
  )
  await nextTurn()
  assert.equal(slow.signals[0]?.aborted, true)
  assert.equal(isStopped, false)
  slow.end()
  await Promise.all(stopping)
  await tick(1_000)
  assert.equal(seen.rounds, 1)
})

test('a round that fails because of a stop is no failure', async (t) => {
  const slow = slowWork()
  const { loop, seen } = createLoop(t, { work: slow.work })
  await loop.start()
  const stopping = loop.stop()
  slow.fail(new Error('aborted'))
  await stopping
  assert.deepEqual(seen.failures, [])
})

test('a loop that was stopped before its start does nothing', async (t) => {
  const { loop, seen, tick } = createLoop(t)
  await loop.stop()
  await loop.start()
  await tick(1_000)
  assert.equal(seen.rounds, 0)
})

test('wake ends the pause', async (t) => {
  const { loop, seen, tick } = createLoop(t)
  await loop.start()
  await tick(10)
  loop.wake()
  await tick(0)
  assert.equal(seen.rounds, 2)
  await tick(99)
  assert.equal(seen.rounds, 2)
})

test('wake during a round causes another round without a pause', async (t) => {
  const slow = slowWork()
  const { loop, seen, tick } = createLoop(t, { work: slow.work })
  await loop.start()
  loop.wake()
  slow.end()
  await tick(0)
  assert.equal(seen.rounds, 2)
  slow.end()
  await tick(0)
  assert.equal(seen.rounds, 2)
})

test('distinguishes the first failure of an outage from the others, and reports its end', async (t) => {
  const error = new Error('away')
  let isAway = true
  const { loop, seen, tick } = createLoop(t, {
    work: () => {
      if (isAway) throw error
    },
  })
  await loop.start()
  await tick(100)
  isAway = false
  await tick(100)
  await tick(100)
  assert.equal(seen.recovered, 1)
  isAway = true
  await tick(100)
  assert.deepEqual(
    seen.failures.map(({ isFirst }) => isFirst),
    [true, false, true],
  )
  assert.equal(seen.failures[0]?.error, error)
})

test('doubles the pause after each failure up to the longest, and starts over after a success', async (t) => {
  let isAway = true
  const { loop, seen, tick } = createLoop(t, {
    ...{ retryMs: 10, retryMaxMs: 35 },
    work: () => {
      if (isAway) throw new Error('away')
    },
  })
  await loop.start()
  for (const ms of [10, 20, 35]) {
    await tick(ms - 1)
    const { rounds } = seen
    await tick(1)
    assert.equal(seen.rounds, rounds + 1)
  }
  isAway = false
  await tick(35)
  isAway = true
  await tick(100)
  assert.deepEqual(
    seen.failures.map(({ retryMs }) => retryMs),
    [10, 20, 35, 35, 10],
  )
})

test('when an endless round reports success, its next failure is a first one', async (t) => {
  const { loop, seen, tick } = createLoop(t, {
    ...{ retryMs: 10, retryMaxMs: 1_000 },
    work: (_signal, well) => {
      if (seen.rounds === 3) well()
      throw new Error('ended')
    },
  })
  await loop.start()
  await tick(10)
  await tick(20)
  assert.equal(seen.recovered, 1)
  assert.deepEqual(
    seen.failures.map(({ isFirst, retryMs }) => ({ isFirst, retryMs })),
    [
      { isFirst: true, retryMs: 10 },
      { isFirst: false, retryMs: 20 },
      { isFirst: true, retryMs: 10 },
    ],
  )
})

test('the next round waits until the failure has been handled', async (t) => {
  const handled = Promise.withResolvers<void>()
  const { loop, seen, tick } = createLoop(t, {
    work: () => {
      throw new Error('away')
    },
    onFailure: () => handled.promise,
  })
  await loop.start()
  await tick(1_000)
  assert.equal(seen.rounds, 1)
  handled.resolve()
  await tick(100)
  assert.equal(seen.rounds, 2)
})

test('every calls repeatedly after a pause, until it is ended', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let calls = 0
  const end = every(100, () => ++calls)
  for (const [ms, expected] of [
    [99, 0],
    [1, 1],
    [100, 2],
  ] as const) {
    t.mock.timers.tick(ms)
    await nextTurn()
    assert.equal(calls, expected)
  }
  end()
  end()
  t.mock.timers.tick(1_000)
  await nextTurn()
  assert.equal(calls, 2)
})
