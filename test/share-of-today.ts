const SHARES = 3
const DAY_MS = 86_400_000
const today = Math.floor(Date.now() / DAY_MS) % SHARES

/**
 * Whether a test takes this member of a long list: a run takes every third one, and another third each day; all with `EVERY_SHARE=1`. See
 * decision 0292.
 */
export function isOfToday(index: number): boolean {
  return process.env.EVERY_SHARE === '1' || index % SHARES === today
}
