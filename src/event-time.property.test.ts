import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isTime, isTimeOfSomeForm } from './event-time.ts'

const digits = (most: number, length: number) => fc.integer({ min: 0, max: most }).map((number) => String(number).padStart(length, '0'))

/** Texts that are times or resemble times: with a day that the month lacks, the hour 24, or the minute 60. */
const likeTimes = fc
  .tuple(digits(9_999, 4), digits(13, 2), digits(32, 2), digits(25, 2), digits(61, 2), digits(61, 2), digits(999, 3))
  .map(([year, month, day, hour, minute, second, ms]) => `${year}-${month}-${day}T${hour}:${minute}:${second}.${ms}Z`)
const times = fc
  .date({ min: new Date('0000-01-01T00:00:00.000Z'), max: new Date('9999-12-31T23:59:59.999Z'), noInvalidDate: true })
  .map((date) => date.toISOString())

const reads = (text: string) => !Number.isNaN(Date.parse(text))
const isWritten = (text: string) => reads(text) && new Date(text).toISOString() === text

test('accepts exactly the texts that `Date` writes', () => {
  fc.assert(fc.property(times, isTime), { numRuns: 2_000 })
  fc.assert(
    fc.property(likeTimes, (text) => assert.deepEqual([isTime(text), isTimeOfSomeForm(text)], [isWritten(text), reads(text)])),
    { numRuns: 20_000 },
  )
})
