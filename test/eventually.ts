import { AssertionError } from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { Queryable } from '../src/db/pool.ts'
import type { Cleanup } from './cleanup.ts'

const PAUSE_MS = 20

/**
 * Asks `fn` again, every `pauseMs` (20 ms), until it gives something, and returns that. Fails with `what` after `timeoutMs` (a minute: an
 * emergency brake, which says nothing of how quick anything should be), when it has been asked once more since: a process that was held up
 * meanwhile has learnt nothing.
 */
export async function eventually<T>(
  fn: () => Promise<T | undefined | false>,
  options: { timeoutMs?: number; pauseMs?: number; what?: string } = {},
): Promise<T> {
  const { timeoutMs = 60_000, pauseMs = PAUSE_MS, what = 'the condition' } = options
  const deadline = performance.now() + timeoutMs
  while (true) {
    const isLate = performance.now() > deadline
    const value = await fn()
    if (value !== undefined && value !== false) return value
    if (isLate) throw new AssertionError({ message: `${what} did not come about within ${timeoutMs} ms` })
    await pause(pauseMs)
  }
}

/**
 * As `eventually`, for what a machine at ease does within so many milliseconds. Of each look no more than twice its pause counts, and each
 * look asks the database a question of its own, so that neither a process nor a database that stood still or is slow takes time from it.
 */
export async function promptly<T>(
  pool: Queryable,
  fn: () => Promise<T | undefined | false>,
  { withinMs, what = 'the condition' }: { withinMs: number; what?: string },
): Promise<T> {
  let countedMs = 0
  while (true) {
    const lookedAt = performance.now()
    await pool.query('select 1')
    const value = await fn()
    if (value !== undefined && value !== false) return value
    if (countedMs > withinMs) throw new AssertionError({ message: `${what} did not come about within ${withinMs} ms` })
    await pause(PAUSE_MS)
    countedMs += Math.min(performance.now() - lookedAt, 2 * PAUSE_MS)
  }
}

/** Does `work` until it does not throw. After `timeoutMs` it throws what it threw last. */
export async function insist<T>(work: () => Promise<T>, timeoutMs = 60_000): Promise<T> {
  const deadline = performance.now() + timeoutMs
  while (true) {
    const isLate = performance.now() > deadline
    try {
      return await work()
    } catch (error) {
      if (isLate) throw error
      await pause(PAUSE_MS)
    }
  }
}

/** Measures from its making the time in which this process was running: of a stretch in which it was held up next to nothing counts. */
export class Stopwatch {
  #ms = 0
  #lookedAt = performance.now()

  constructor(t: Cleanup) {
    const timer = setInterval(() => this.#look(), PAUSE_MS)
    t.after(() => clearInterval(timer))
  }

  get ms(): number {
    this.#look()
    return this.#ms
  }

  #look(): void {
    const now = performance.now()
    this.#ms += Math.min(now - this.#lookedAt, 2 * PAUSE_MS)
    this.#lookedAt = now
  }
}

/**
 * Stops the clock by which the store tells how old its news is, a minute ago: what came since then is fresh and stays so. Returns how to
 * start it again.
 */
export function stopClock(t: TestContext): () => void {
  const stoppedAt = performance.now() - 60_000
  const { mock } = t.mock.method(performance, 'now', () => stoppedAt)
  return () => mock.restore()
}
