import { instantOf, localTimeOf } from '../../src/shop-time.ts'
import { locale, t } from './language.ts'

/** The time zone of shown and entered times. After the sign-in it is the shop's. */
let zone = 'UTC'
const DAY_MS = 86_400_000

export function setTimeZone(shops: string): void {
  zone = shops
}

export function timeZone(): string {
  return zone
}

/**
 * A time on the shop's clock: "today 14:33", "yesterday 14:33", "26 Nov, 14:33", or with the year when it is another
 * one.
 */
export function timeText(instant: Date): string {
  const day = dayOf(instant)
  const today = dayOf(new Date())
  const time = instant.toLocaleTimeString(locale, { timeStyle: 'short', timeZone: zone })
  if (day === today) return t`today ${time}`
  // This compares calendar days, because a day of a clock change has 23 or 25 hours.
  if (day === new Date(Date.parse(today) - DAY_MS).toISOString().slice(0, 10)) return t`yesterday ${time}`
  const year = day.slice(0, 4) === today.slice(0, 4) ? {} : ({ year: 'numeric' } as const)
  return `${instant.toLocaleDateString(locale, { day: 'numeric', month: 'short', ...year, timeZone: zone })}, ${time}`
}

/** The unit for a time span, and the number of these units. */
function inUnits(ms: number): [count: number, unit: 'millisecond' | 'second' | 'minute' | 'hour' | 'day'] {
  if (ms < 1_000) return [ms, 'millisecond']
  if (ms < 120_000) return [ms / 1_000, 'second']
  if (ms < 7_200_000) return [ms / 60_000, 'minute']
  return ms < 2 * DAY_MS ? [ms / 3_600_000, 'hour'] : [ms / DAY_MS, 'day']
}

/** The text of a time span, such as "1.2 sec" or "3 days". */
export function durationText(ms: number): string {
  const [count, unit] = inUnits(Math.max(0, ms))
  return count.toLocaleString(locale, { style: 'unit', unit, unitDisplay: 'short', maximumFractionDigits: 1 })
}

/** The text of a time's distance from now, such as "3 days ago". */
export function agoText(instant: string): string {
  const [seconds, unit] = inUnits(Math.max(1_000, Date.now() - Date.parse(instant)))
  return new Intl.RelativeTimeFormat(locale).format(-Math.round(seconds), unit as 'second')
}

/** The text of a time to the second, with the shop's time zone. */
export function exactTimeText(instant: Date): string {
  return instant.toLocaleString(locale, { dateStyle: 'full', timeStyle: 'long', timeZone: zone })
}

/** The instant of a `datetime-local` value. Invalid text is returned as it is, and the API refuses it. */
export function toInstant(local: string): string {
  return instantOf(local, zone)?.toISOString() ?? local
}

/** The value of `datetime-local` for an instant: the shop's time, to the minute. */
export function toLocalTime(instant: string): string {
  const time = new Date(instant)
  return Number.isNaN(time.getTime()) ? '' : localTimeOf(time, zone).slice(0, 16)
}

/** The shop's day as the value of `<input type=date>`. */
export function dayOf(instant: Date): string {
  return localTimeOf(instant, zone).slice(0, 10)
}
