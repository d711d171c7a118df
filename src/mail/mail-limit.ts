export const HOUR_MS = 3_600_000

/**
 * When an account's next mail may go out: so late that no hour holds more than `limit` of them. Pure. `times` are those
 * of its mails within the last hour and later, oldest first, in milliseconds; the result belongs behind them. /
 */
export function nextSendTime(times: readonly number[], limit: number, now: number): number {
  const nth = times.at(-limit)
  return nth === undefined ? now : Math.max(now, nth + HOUR_MS)
}
