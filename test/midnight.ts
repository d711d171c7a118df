import { setTimeout as pause } from 'node:timers/promises'

const DAY_MS = 86_400_000
const MARGIN_MS = 180_000

/** Waits for midnight in UTC when it is less than three minutes ahead, so that a test runs within one day. */
export async function farFromMidnight(): Promise<void> {
  const leftMs = DAY_MS - (Date.now() % DAY_MS)
  if (leftMs < MARGIN_MS) await pause(leftMs + 1_000)
}
