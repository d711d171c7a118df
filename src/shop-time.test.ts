import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readConfig } from './config.ts'
import { findTimeZone, instantOf, localTimeOf, startOfDay } from './shop-time.ts'

const HOUR_MS = 3_600_000
/** Zones with clock changes at different hours, by half hours, by quarters of an hour, at midnight, and without any. */
const ZONES = [
  ...['UTC', 'Europe/Vienna', 'America/New_York', 'Australia/Lord_Howe', 'Asia/Kathmandu', 'Pacific/Chatham'],
  ...['America/Santiago', 'Africa/Cairo', 'Asia/Beirut', 'America/Havana', 'America/Asuncion', 'Asia/Gaza', 'Africa/Casablanca'],
]

/** The days of a year by Temporal, which shares no code with this implementation. */
function* daysOf(zone: string, year: number) {
  for (let day = Temporal.PlainDate.from({ year, month: 1, day: 1 }); day.year === year; day = day.add({ days: 1 })) {
    const [from, to] = [day, day.add({ days: 1 })].map((date) => date.toZonedDateTime(zone).epochMilliseconds) as [number, number]
    yield { day: day.toString(), from, to }
  }
}

const hoursOf = (day: string, zone: string) => {
  const next = new Date(Date.parse(day) + 24 * HOUR_MS).toISOString().slice(0, 10)
  return (Number(instantOf(next, zone)) - Number(instantOf(day, zone))) / HOUR_MS
}

test('in every zone, days have 23 to 25 hours and begin when their date appears, through every clock change', () => {
  for (const zone of ZONES) {
    for (const year of [2023, 2026]) {
      for (const { day, from, to } of daysOf(zone, year)) {
        assert.equal(instantOf(day, zone)?.getTime(), from, `${day} in ${zone}`)
        for (const at of [from, from + 1, (from + to) / 2, to - 1]) {
          assert.equal(startOfDay(new Date(at), zone).getTime(), from, `${new Date(at).toISOString()} in ${zone}`)
          assert.equal(localTimeOf(new Date(at), zone).slice(0, 10), day)
        }
      }
    }
  }
  assert.deepEqual(
    [hoursOf('2026-03-29', 'Europe/Vienna'), hoursOf('2026-10-25', 'Europe/Vienna'), hoursOf('2026-10-26', 'Europe/Vienna')],
    [23, 25, 24],
  )
  assert.deepEqual([hoursOf('2026-03-08', 'America/New_York'), hoursOf('2026-11-01', 'America/New_York')], [23, 25])
  assert.deepEqual([hoursOf('2026-10-04', 'Australia/Lord_Howe'), hoursOf('2026-04-05', 'Australia/Lord_Howe')], [23.5, 24.5])
})

test('a day whose midnight does not exist begins at one', () => {
  assert.equal(instantOf('2026-09-06', 'America/Santiago')?.toISOString(), '2026-09-06T04:00:00.000Z')
  assert.equal(localTimeOf(new Date('2026-09-06T04:00:00Z'), 'America/Santiago'), '2026-09-06T01:00:00')
  assert.equal(localTimeOf(new Date('2026-09-06T03:59:59Z'), 'America/Santiago'), '2026-09-05T23:59:59')
})

test('every shop time is an instant: the first of two, and for a skipped time the same time after the change', () => {
  for (const zone of ZONES) {
    for (const { day, from, to } of daysOf(zone, 2026)) {
      if (to - from === 24 * HOUR_MS) continue
      for (let at = Date.parse(day) - 12 * HOUR_MS; at < Date.parse(day) + 36 * HOUR_MS; at += 5 * 60_000) {
        const local = new Date(at).toISOString().slice(0, 16)
        const expected = Temporal.PlainDateTime.from(local).toZonedDateTime(zone, { disambiguation: 'compatible' })
        assert.equal(instantOf(local, zone)?.getTime(), expected.epochMilliseconds, `${local} in ${zone}`)
      }
    }
  }
  assert.equal(instantOf('2026-10-25T02:30', 'Europe/Vienna')?.toISOString(), '2026-10-25T00:30:00.000Z')
  assert.equal(instantOf('2026-03-29T02:30', 'Europe/Vienna')?.toISOString(), '2026-03-29T01:30:00.000Z')
  assert.equal(instantOf('2026-03-01T12:00:30.250', 'Asia/Kathmandu')?.toISOString(), '2026-03-01T06:15:30.250Z')
})

test('refuses texts that are not times, and names that are not zones', () => {
  for (const text of ['', 'today', '2026-02-30', '2026-02-30T12:00', '2026-03-01T25:00', '2026-13-01']) {
    assert.equal(instantOf(text, 'Europe/Vienna'), null, text)
  }
  for (const name of ['', '+02:00', '-05', 'Europe/Atlantis', 'Europe/Vienna; x', ':UTC', 'CEST+2'])
    assert.equal(findTimeZone(name), null, name)
  assert.equal(findTimeZone('europe/vienna'), 'Europe/Vienna')
  assert.equal(findTimeZone('utc'), 'UTC')
})

test('the setting accepts a name of the IANA database in any case, and no number of hours', () => {
  assert.equal(readConfig({}).timeZone, 'UTC')
  assert.equal(readConfig({ SHOP_TIME_ZONE: 'europe/vienna' }).timeZone, 'Europe/Vienna')
  for (const SHOP_TIME_ZONE of ['+02:00', 'Vienna', 'Europe/Atlantis', 'CEST-2']) {
    const message = `SHOP_TIME_ZONE must be a time zone of the IANA database such as Europe/Vienna, and no number of hours, not "${SHOP_TIME_ZONE}"`
    assert.throws(() => readConfig({ SHOP_TIME_ZONE }), { message })
  }
})
