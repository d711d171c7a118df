import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTestDatabase } from '../../test/database.ts'
import { copyRows, copyTexts } from './copy-rows.ts'
import { inTransaction } from './transaction.ts'

const ROWS = [
  ['', '{}'],
  ['a tab\t, a line\r\n, a \\N and a "quote"', '{"a":"\\n\\\\"}'],
  ['Grüße, 価格, 🛒', '{"of two bytes":"é","of four":"🛒"}'],
  // The first text exceeds one chunk in UTF-16 units, and the second only in bytes.
  ['x'.repeat(200_000), JSON.stringify({ long: 'y'.repeat(70_000) })],
  ['価'.repeat(60_000), '[]'],
  ...Array.from({ length: 3_000 }, (_, index) => [`row ${index}`, `{"index":${index}}`]),
]

for (const { copy, format } of [
  { copy: copyRows, format: 'text' },
  { copy: copyTexts, format: 'binary' },
]) {
  test(`stores rows unchanged and in order in the ${format} format, and none if one is refused`, async (t) => {
    const { pool } = await createTestDatabase(t)
    await pool.query('create table texts (sequence bigint generated always as identity, name text not null unique, body json not null)')
    const store = (rows: string[][]) => inTransaction(pool, (tx) => copy(tx, `copy texts (name, body) from stdin (format ${format})`, rows))
    await store([])
    await store(ROWS)
    const { rows } = await pool.query<{ name: string; body: string }>('select name, body::text as body from texts order by sequence')
    assert.deepEqual(
      rows.map(({ name, body }) => [name, body]),
      ROWS,
    )
    await assert.rejects(
      store([
        ['new', '{}'],
        ['newer', '{'],
      ]),
      { code: '22P02' },
    )
    await assert.rejects(
      store([
        ['new', '{}'],
        ['row 7', '{}'],
      ]),
      { code: '23505' },
    )
    const { rows: left } = await pool.query<{ count: number }>('select count(*) from texts')
    assert.equal(Number(left[0]?.count), ROWS.length)
  })
}
