const [FIRST_TIME, LAST_TIME] = [Date.parse('0000-01-01T00:00:00.000Z'), Date.parse('9999-12-31T23:59:59.999Z')]
// Every month has these days. Calendar arithmetic takes twenty times as long.
const PLAIN_TIME = /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z$/

/** The lake knows only dates of the years 0 to 9999. */
export function isDate(value: unknown): boolean {
  return value instanceof Date && value.getTime() >= FIRST_TIME && value.getTime() <= LAST_TIME
}

/** Whether the value has the form of `toISOString` for those years. */
export function isTime(value: unknown): boolean {
  if (typeof value !== 'string' || value.length !== 24) return false
  if (PLAIN_TIME.test(value)) return true
  const time = new Date(value)
  return !Number.isNaN(time.getTime()) && time.toISOString() === value
}

export function isTimeOfSomeForm(value: unknown): boolean {
  return typeof value === 'string' && (PLAIN_TIME.test(value) || !Number.isNaN(Date.parse(value)))
}
