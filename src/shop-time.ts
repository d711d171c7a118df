// The shop's clock, which is that of SHOP_TIME_ZONE. Browsers run this file too, so it imports nothing.

const HOUR_MS = 3_600_000

/**
 * The usual spelling of an IANA name; null for other text. An offset such as `+02:00` is no zone, because it has no
 * clock changes.
 */
export function findTimeZone(name: string): string | null {
  if (!/^[A-Za-z]/.test(name)) return null
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone
  } catch (error) {
    if (error instanceof RangeError) return null
    throw error
  }
}

const formats = new Map<string, Intl.DateTimeFormat>()

/** The shop's time, such as `2026-03-29T03:00:00`. The first ten characters are the shop's day. */
export function localTimeOf(instant: Date, timeZone: string): string {
  let format = formats.get(timeZone)
  if (format === undefined) {
    const digits = { month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit', second: '2-digit' } as const
    format = new Intl.DateTimeFormat('en', { timeZone, calendar: 'iso8601', hourCycle: 'h23', year: 'numeric', ...digits })
    formats.set(timeZone, format)
  }
  const parts = Object.fromEntries(format.formatToParts(instant).map(({ type, value }) => [type, value]))
  const { year = '', month, day, hour, minute, second } = parts
  return `${year.padStart(4, '0')}-${month}-${day}T${hour}:${minute}:${second}`
}

/**
 * A time such as `2026-03-29T02:30`, or a day. Takes the first of two times when the clocks go back, and the time after
 * the change when they skip it. Null for other text.
 */
export function instantOf(local: string, timeZone: string): Date | null {
  const text = /^\d{4}-\d\d-\d\d$/.test(local) ? `${local}T00:00` : local
  const asUtc = new Date(`${text}Z`)
  if (Number.isNaN(asUtc.getTime()) || !asUtc.toISOString().startsWith(text.slice(0, 10))) return null
  const offsetAt = (ms: number) => {
    const whole = Math.floor(ms / 1_000) * 1_000
    return Date.parse(`${localTimeOf(new Date(whole), timeZone)}Z`) - whole
  }
  // No zone changes its clocks twice within two days.
  const [before, after] = [-24, 24].map((hours) => offsetAt(asUtc.getTime() + hours * HOUR_MS)) as [number, number]
  const [first, second] = [before, after].map((offset) => asUtc.getTime() - offset) as [number, number]
  // A time that exists only after the change has the later offset. All others have the earlier offset, even a skipped
  // time.
  const isAfter = offsetAt(first) !== before && offsetAt(second) === after
  return new Date(isAfter ? second : first)
}

export function startOfDay(instant: Date, timeZone: string): Date {
  return instantOf(localTimeOf(instant, timeZone).slice(0, 10), timeZone) as Date
}
