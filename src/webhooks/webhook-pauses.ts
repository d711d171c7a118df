export const FIRST_PAUSE_SECONDS = 5
export const LONGEST_PAUSE_SECONDS = 4 * 3_600

/** Seconds that a header `Retry-After` (RFC 9110 §10.2.3) asks for, as a number or a date; null when it is neither. */
export function readRetryAfter(value: string, now: Date): number | null {
  if (/^\d+$/.test(value)) return Number(value)
  // Every HTTP date begins with a day of the week; Date.parse accepts many other texts.
  const time = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(value) ? Date.parse(value) : Number.NaN
  return Number.isNaN(time) ? null : Math.max(0, Math.ceil((time - now.getTime()) / 1_000))
}

/**
 * Seconds to wait after the attempt of this number when the receiver asked for `wanted` seconds: what it asked for,
 * within the queue's own pause and the longest one. Up to a quarter is added at random, so that refused deliveries do
 * not all return at once.
 */
export function pauseAsked(attempt: number, wanted: number, random: () => number = Math.random): number {
  const usual = FIRST_PAUSE_SECONDS * 2 ** Math.min(attempt - 1, 20)
  const pause = Math.min(Math.max(wanted, usual), LONGEST_PAUSE_SECONDS)
  return Math.ceil(pause * (1 + random() / 4))
}
