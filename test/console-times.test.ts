import assert from 'node:assert/strict'
import { after, mock, test } from 'node:test'
import { setTimeZone, timeText } from '../console/kit/times.ts'

after(() => mock.timers.reset())

test('yesterday is the day before on the calendar, also around a clock change', () => {
  setTimeZone('Europe/Berlin')
  const textAt = (now: string, instant: string) => {
    mock.timers.reset()
    mock.timers.enable({ apis: ['Date'], now: new Date(now) })
    return timeText(new Date(instant)).split(' ')[0]
  }
  const MONDAY = '2026-03-30T00:30:00+02:00'
  assert.notEqual(textAt(MONDAY, '2026-03-28T23:45:00+01:00'), 'yesterday', 'Sunday has 23 hours')
  assert.equal(textAt(MONDAY, '2026-03-29T12:00:00+02:00'), 'yesterday')
  assert.equal(textAt(MONDAY, '2026-03-30T00:10:00+02:00'), 'today')
  const SUNDAY = '2026-10-25T23:30:00+01:00'
  assert.equal(textAt(SUNDAY, '2026-10-24T12:00:00+02:00'), 'yesterday', 'Sunday has 25 hours')
  assert.equal(textAt(SUNDAY, '2026-10-25T00:10:00+02:00'), 'today')
})
