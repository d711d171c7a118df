import { instantOf, localTimeOf } from '#shop-time'

/** The time zone in which the page shows and reads times: the shop's from the sign-in on. */
let zone = 'UTC'

export function setTimeZone(shops: string): void {
  zone = shops
}

export function timeZone(): string {
  return zone
}

/** A time of the shop's clock, in the form of the operator's browser. */
export function timeText(instant: Date, seconds: 'medium' | 'short' = 'medium'): string {
  return instant.toLocaleString(undefined, { dateStyle: 'short', timeStyle: seconds, timeZone: zone })
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
