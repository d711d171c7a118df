import assert from 'node:assert/strict'
import { test } from 'node:test'
import pg from 'pg'
import {
  commitMessage,
  insertMessage,
  int32,
  relationMessage,
  type SentColumn,
  type SentValue,
  updateMessage,
} from '../../test/pgoutput-messages.ts'
import { PgoutputReader } from './pgoutput.ts'

interface Row {
  id: string
  version: number
  status: string | null
  items: unknown
  created_at: Date | number
}

const { UUID, INT4, TEXT, JSON: JSON_TYPE, TIMESTAMPTZ } = pg.types.builtins
const TABLE = 16_400
const COLUMNS: SentColumn[] = [
  { name: 'created_at', type: TIMESTAMPTZ },
  { name: 'secret', type: TEXT },
  { name: 'id', type: UUID },
  { name: 'items', type: JSON_TYPE },
  { name: 'version', type: INT4 },
  { name: 'status', type: TEXT },
]
const ID = '0197a9a5-1c1e-7cc0-8a3c-2f1a60a1b001'
const FIRST = ['2026-03-01 10:00:00.123+00', 'not read', ID, '[{"name": "Lämpchen 🫖"}]', '1', 'pending']
const SECOND = ['2026-03-01 10:00:00+00', null, ID, undefined, '2', 'confirmed']

function makeReader(columns: readonly SentColumn[] = COLUMNS) {
  const reader = new PgoutputReader<Row, 'status' | 'version'>({
    table: 'orders',
    columns: ['id', 'version', 'status', 'items', 'created_at'],
    previousColumns: ['status', 'version'],
  })
  assert.deepEqual(reader.read(relationMessage(TABLE, 'orders', columns)), { kind: 'skipped' })
  return reader
}

const insert = (values: readonly SentValue[]) => insertMessage(TABLE, values)

test('reads the requested columns in any order, and from the previous row only the columns requested for it', () => {
  const reader = makeReader()
  const record = {
    id: ID,
    version: 1,
    status: 'pending',
    items: [{ name: 'Lämpchen 🫖' }],
    created_at: new Date('2026-03-01T10:00:00.123Z'),
  }
  assert.deepEqual(reader.read(insert(FIRST)), { kind: 'change', record, previous: null })
  assert.deepEqual(reader.read(updateMessage(TABLE, FIRST, SECOND)), {
    kind: 'change',
    // The lines come from the old row, because the new row only marks them as unchanged.
    record: { ...record, version: 2, status: 'confirmed', created_at: new Date('2026-03-01T10:00:00Z') },
    previous: { version: 1, status: 'pending' },
  })
})

test('follows columns that are added, dropped and moved between two messages', () => {
  const reader = makeReader()
  assert.ok(reader.read(insert(FIRST)).kind === 'change')
  reader.read(relationMessage(TABLE, 'orders', [...COLUMNS.slice(2, 5), { name: 'colour', type: TEXT }, ...COLUMNS.slice(0, 1)]))
  assert.deepEqual(reader.read(insert([ID, '[]', '7', 'red', '2026-03-01 10:00:00+00'])), {
    kind: 'change',
    record: { id: ID, version: 7, items: [], created_at: new Date('2026-03-01T10:00:00Z') },
    previous: null,
  })
})

test('reads a time in any other format like pg', () => {
  const reader = makeReader([{ name: 'created_at', type: TIMESTAMPTZ }])
  const parse = pg.types.getTypeParser(TIMESTAMPTZ)
  for (const time of [
    'infinity',
    '-infinity',
    '0044-03-15 10:00:00+00 BC',
    '0044-03-15 10:00:00.123+00',
    '12026-03-01 10:00:00+00',
    '2026-03-01 12:00:00.12+02',
    '2026-03-01 15:30:00+05:30',
    '2026-03-01 10:00:00.123456+00',
    '01.03.2026 10:00:00.000 UTC',
  ]) {
    const message = reader.read(insert([time]))
    assert.ok(message.kind === 'change')
    assert.deepEqual(message.record.created_at, parse(time), time)
  }
})

test('without a full old row, the previous row is null and an unchanged value is undefined', () => {
  const key = FIRST.map((value, index) => (index === 2 ? value : null))
  const message = makeReader().read(updateMessage(TABLE, key, SECOND, 'K'))
  assert.ok(message.kind === 'change')
  assert.deepEqual([message.record.version, message.record.items, message.previous], [2, undefined, null])
})

test('the end of a commit is the position after the commit', () => {
  assert.deepEqual(makeReader().read(commitMessage(0x16_b374_d848n, 0xffff_ffff_b374_d880n)), {
    kind: 'commit',
    end: 0xffff_ffff_b374_d880n,
  })
})

test('skips messages that the store does not need, and foreign tables', () => {
  const reader = makeReader()
  assert.deepEqual(reader.read(Buffer.from('B')), { kind: 'begin' })
  for (const tag of 'OYDTM') assert.deepEqual(reader.read(Buffer.from(`${tag}whatever`)), { kind: 'skipped' })
  reader.read(relationMessage(7, 'returns', COLUMNS))
  assert.deepEqual(reader.read(insertMessage(7, FIRST)), { kind: 'skipped' })
  assert.equal(reader.read(insert(FIRST)).kind, 'change')
})

test('throws on a message of any unknown type', () => {
  const reader = makeReader()
  for (let tag = 0; tag < 256; tag++) {
    if (!'BCRIUDTYOM'.includes(String.fromCharCode(tag))) assert.throws(() => reader.read(Buffer.from([tag])), /unknown type/)
  }
  assert.throws(() => reader.read(Buffer.alloc(0)), /unknown type/)
})

test('throws on a message that is truncated at any place, or has bytes after its end', () => {
  const reader = makeReader()
  const whole = [relationMessage(TABLE, 'orders', COLUMNS), insert(FIRST), updateMessage(TABLE, FIRST, SECOND)]
  for (const message of whole) {
    for (let length = 0; length < message.length; length++) {
      assert.throws(() => reader.read(message.subarray(0, length)), `cut at ${length}`)
    }
    assert.throws(() => reader.read(Buffer.concat([message, Buffer.alloc(1)])))
    reader.read(message)
  }
  for (let length = 0; length < 18; length++) assert.throws(() => reader.read(commitMessage(1n, 2n).subarray(0, length)))
})

test('throws on a row of an unknown table, with other columns, or with values that are not text or too long', () => {
  const reader = makeReader()
  const message = insert(FIRST)
  const changed = (offset: number, bytes: Buffer) =>
    Buffer.concat([message.subarray(0, offset), bytes, message.subarray(offset + bytes.length)])
  assert.throws(() => reader.read(insertMessage(7, FIRST)), /without a description/)
  assert.throws(() => reader.read(insert(FIRST.slice(1))), /5 values for 6 columns/)
  assert.throws(() => reader.read(changed(5, Buffer.from('X'))), /unknown row/)
  assert.throws(() => reader.read(changed(8, Buffer.from('b'))), /unknown kind/)
  assert.throws(() => reader.read(changed(9, int32(0xffff_ffff))))
})

test('throws on order lines that are not JSON', () => {
  assert.throws(() => makeReader().read(insert(['2026-03-01 10:00:00+00', null, ID, '[{', '1', 'pending'])), SyntaxError)
})
