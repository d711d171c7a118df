import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import pg from 'pg'
import { insertMessage, relationMessage, type SentValue, updateMessage } from '../../test/pgoutput-messages.ts'
import { RECORD_COLUMNS } from '../orders/events.ts'
import { PgoutputReader } from './pgoutput.ts'

const { TEXT, UUID, INT4, INT8, NUMERIC, JSON: JSON_TYPE, JSONB, TIMESTAMPTZ } = pg.types.builtins
const UUID_ARRAY = 2951

/** PostgreSQL's text of a time, whose fraction has no trailing zeros. */
function timeText(time: Date): string {
  const [day, clock = ''] = time.toISOString().split(/[TZ]/)
  return `${day} ${clock.replace(/\.?0+$/, (zeros) => (zeros.startsWith('.') || clock.includes('.') ? '' : zeros))}+00`
}

const time = fc.oneof(
  { weight: 4, arbitrary: fc.date({ min: new Date('0999-01-01'), max: new Date('9999-12-31'), noInvalidDate: true }).map(timeText) },
  fc.constantFrom('infinity', '-infinity', '0044-03-15 10:00:00+00 BC', '2026-03-01 12:00:00.12+02', '2026-03-01 10:00:00.123456+00'),
)
const unicode = fc.string({ unit: 'grapheme' })
const VALUES: Record<number, fc.Arbitrary<string>> = {
  [TEXT]: unicode,
  [UUID]: fc.uuid(),
  [INT4]: fc.integer().map(String),
  [INT8]: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String),
  [NUMERIC]: fc.bigInt().map((value) => `${value}.50`),
  [JSON_TYPE]: fc.json({ stringUnit: 'grapheme' }),
  [JSONB]: fc.json({ stringUnit: 'grapheme' }),
  [TIMESTAMPTZ]: time,
  [UUID_ARRAY]: fc.array(fc.uuid()).map((ids) => `{${ids}}`),
}

/** A column of any type, with its values in two rows. The second value is undefined if it did not change. */
const column = fc
  .record({
    name: fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...RECORD_COLUMNS) }, fc.constantFrom('product_ids', 'colour', 'ünïcode')),
    type: fc.constantFrom(...Object.keys(VALUES).map(Number)),
  })
  .chain(({ name, type }) => {
    const value = fc.option(VALUES[type] ?? unicode)
    return fc.record({ name: fc.constant(name), type: fc.constant(type), old: value, new: fc.option(value, { nil: undefined, freq: 3 }) })
  })

test('reads any row like pg, whatever its columns, their order and types', () => {
  const columns = fc.uniqueArray(column, { selector: ({ name }) => name, maxLength: 20 })
  fc.assert(
    fc.property(columns, fc.constantFrom(...RECORD_COLUMNS), (sent, previousColumn) => {
      const reader = new PgoutputReader<Record<string, unknown>, string>({
        table: 'orders',
        columns: RECORD_COLUMNS,
        previousColumns: [previousColumn],
      })
      const expected = (of: (value: (typeof sent)[number]) => SentValue, names: readonly string[] = RECORD_COLUMNS) => {
        const known = sent.filter(({ name }) => names.includes(name))
        return Object.fromEntries(known.map((value) => [value.name, parse(of(value), value.type)]))
      }
      reader.read(relationMessage(1, 'orders', sent))
      const old = sent.map((value) => value.old)
      assert.deepEqual(reader.read(insertMessage(1, old)), { kind: 'change', record: expected((value) => value.old), previous: null })
      const update = updateMessage(
        1,
        old,
        sent.map((value) => value.new),
      )
      assert.deepEqual(reader.read(update), {
        kind: 'change',
        record: expected((value) => (value.new === undefined ? value.old : value.new)),
        previous: expected((value) => value.old, [previousColumn]),
      })
      for (let length = 0; length < update.length; length++) assert.throws(() => reader.read(update.subarray(0, length)))
    }),
    { numRuns: 300 },
  )
})

function parse(text: SentValue, type: number): unknown {
  return text === null || text === undefined ? null : pg.types.getTypeParser(type, 'text')(text)
}
