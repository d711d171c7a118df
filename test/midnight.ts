import { setTimeout as pause } from 'node:timers/promises'

const DAY_MS = 86_400_000
const MARGIN_MS = 180_000

/** Returns at once unless a day in UTC ends within three minutes, and then a moment after it: for what must happen on one day. */
export async function farFromMidnight(): Promise<void> {
  const leftMs = DAY_MS - (Date.now() % DAY_MS)
  if (leftMs < MARGIN_MS) await pause(leftMs + 1_000)
}
