import { AssertionError } from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { Queryable } from '../src/db/pool.ts'
import type { Cleanup } from './cleanup.ts'

const PAUSE_MS = 20
const MAX_PAUSE_MS = 1_000
/** An emergency brake, not a measure of speed: a busy machine can be twenty times as slow as an idle one. */
export const BRAKE_MS = 180_000

/**
 * Calls `fn` every `pauseMs` (20 ms) until it returns a value, and returns that; one that takes longer than that
 * leaves the processor for as long to what it waits for. After `timeoutMs` it calls `fn` once more, because the process
 * may have stood still meanwhile, and then fails with `what`.
 */
export async function eventually<T>(
  fn: () => Promise<T | undefined | false>,
  options: { timeoutMs?: number; pauseMs?: number; what?: string } = {},
): Promise<T> {
  const { timeoutMs = BRAKE_MS, pauseMs = PAUSE_MS, what = 'the condition' } = options
  const deadline = performance.now() + timeoutMs
  while (true) {
    const beganAt = performance.now()
    const isLate = beganAt > deadline
    const value = await fn()
    if (value !== undefined && value !== false) return value
    if (isLate) throw new AssertionError({ message: `${what} did not happen within ${timeoutMs} ms` })
    await pause(Math.max(pauseMs, Math.min(performance.now() - beganAt, MAX_PAUSE_MS)))
  }
}

/**
 * Like `eventually`, for what an idle machine does within that number of milliseconds. Each check counts for at most
 * twice its pause and also queries the database, so time in which the process or the database stood still does not
 * count.
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
    if (countedMs > withinMs) throw new AssertionError({ message: `${what} did not happen within ${withinMs} ms` })
    await pause(PAUSE_MS)
    countedMs += Math.min(performance.now() - lookedAt, 2 * PAUSE_MS)
  }
}

/** Sends until the answer is no 503, like a client: on a slow machine a request may wait too long for a row. */
export async function untilTaken<T extends { status: number }>(send: () => Promise<T>): Promise<T> {
  const what = 'an answer other than 503'
  return eventually(async () => [await send()].find(({ status }) => status !== 503), { what })
}

/** Calls `work` until it does not throw. After `timeoutMs` the last error is thrown. */
export async function retryUntil<T>(work: () => Promise<T>, timeoutMs = BRAKE_MS): Promise<T> {
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

/**
 * Measures the time in which this process was running, from construction on. Time in which it stood still hardly
 * counts.
 */
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
 * Stops the clock by which the store measures the age of its last signs of life, at a minute ago: they stay fresh.
 * Returns a function that starts the clock again.
 */
export function stopClock(t: TestContext): () => void {
  const stoppedAt = performance.now() - 60_000
  const { mock } = t.mock.method(performance, 'now', () => stoppedAt)
  return () => mock.restore()
}
