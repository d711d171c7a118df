import { instantOf, localTimeOf } from '../../src/shop-time.ts'
import { locale, t } from './language.ts'

/** The time zone in which the page shows and reads times: the shop's from the sign-in on. */
let zone = 'UTC'
const DAY_MS = 86_400_000

export function setTimeZone(shops: string): void {
  zone = shops
}

export function timeZone(): string {
  return zone
}

/**
 * A time of the shop's clock: "today 14:33", "yesterday 14:33", "26 Nov, 14:33", or with the year if it is another
 * one.
 */
export function timeText(instant: Date): string {
  const day = dayOf(instant)
  const today = dayOf(new Date())
  const time = instant.toLocaleTimeString(locale, { timeStyle: 'short', timeZone: zone })
  if (day === today) return t`today ${time}`
  // Days of the calendar: those of a clock change have 23 or 25 hours.
  if (day === new Date(Date.parse(today) - DAY_MS).toISOString().slice(0, 10)) return t`yesterday ${time}`
  const year = day.slice(0, 4) === today.slice(0, 4) ? {} : ({ year: 'numeric' } as const)
  return `${instant.toLocaleDateString(locale, { day: 'numeric', month: 'short', ...year, timeZone: zone })}, ${time}`
}

/** The unit in which a span is read, and how many of it there are. */
function inUnits(ms: number): [count: number, unit: 'millisecond' | 'second' | 'minute' | 'hour' | 'day'] {
  if (ms < 1_000) return [ms, 'millisecond']
  if (ms < 120_000) return [ms / 1_000, 'second']
  if (ms < 7_200_000) return [ms / 60_000, 'minute']
  return ms < 2 * DAY_MS ? [ms / 3_600_000, 'hour'] : [ms / DAY_MS, 'day']
}

/** A span such as "1.2 sec" or "3 days". */
export function durationText(ms: number): string {
  const [count, unit] = inUnits(Math.max(0, ms))
  return count.toLocaleString(locale, { style: 'unit', unit, unitDisplay: 'short', maximumFractionDigits: 1 })
}

/** How long ago a time was, such as "3 days ago". */
export function agoText(instant: string): string {
  const [seconds, unit] = inUnits(Math.max(1_000, Date.now() - Date.parse(instant)))
  return new Intl.RelativeTimeFormat(locale).format(-Math.round(seconds), unit as 'second')
}

/** A time to the second, with the shop's zone. */
export function exactTimeText(instant: Date): string {
  return instant.toLocaleString(locale, { dateStyle: 'full', timeStyle: 'long', timeZone: zone })
}

/** The instant of a `datetime-local`. What is no time stays as it was typed, and the API refuses it. */
export function toInstant(local: string): string {
  return instantOf(local, zone)?.toISOString() ?? local
}

/** An instant as `datetime-local` has it: the shop's time, to the minute. */
export function toLocalTime(instant: string): string {
  const time = new Date(instant)
  return Number.isNaN(time.getTime()) ? '' : localTimeOf(time, zone).slice(0, 16)
}

/** The shop's day, in the format of `<input type=date>`. */
export function dayOf(instant: Date): string {
  return localTimeOf(instant, zone).slice(0, 10)
}
