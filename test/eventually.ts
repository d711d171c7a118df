import { AssertionError } from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'

const PAUSE_MS = 20

/**
 * Asks `fn` again and again until it gives something, and returns that. Fails with `what` after `timeoutMs` (10 s), when it has been asked once
 * more since: a process that was held up meanwhile has learnt nothing.
 */
export async function eventually<T>(
  fn: () => Promise<T | undefined | false>,
  options: { timeoutMs?: number; what?: string } = {},
): Promise<T> {
  const { timeoutMs = 10_000, what = 'the condition' } = options
  const deadline = performance.now() + timeoutMs
  while (true) {
    const isLate = performance.now() > deadline
    const value = await fn()
    if (value !== undefined && value !== false) return value
    if (isLate) throw new AssertionError({ message: `${what} did not come about within ${timeoutMs} ms` })
    await pause(PAUSE_MS)
  }
}
