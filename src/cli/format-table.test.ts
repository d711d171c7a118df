import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatJson, formatTable } from './format-table.ts'

test('formats an aligned table with a header and the number of rows', () => {
  const rows = [
    ['SF-1', 1, null],
    ['SF-20', 300, 'é🫖'],
  ]
  assert.equal(
    formatTable({ columns: ['number', 'n', 'name'], rows }),
    ['number | n   | name', '-------+-----+-----', 'SF-1   | 1   | NULL', 'SF-20  | 300 | é🫖', '(2 rows)'].join('\n'),
  )
  assert.equal(formatTable({ columns: ['n'], rows: [[1]] }), 'n\n-\n1\n(1 row)')
  assert.equal(formatTable({ columns: ['n'], rows: [] }), 'n\n-\n(0 rows)')
})

test('formats rows as JSON objects, and null as an empty cell in a list', () => {
  const table = {
    columns: ['id', 'error'],
    rows: [
      ['a', null],
      ['b', 'it said "no"\n'],
    ],
  }
  assert.deepEqual(JSON.parse(formatJson(table)), [
    { id: 'a', error: null },
    { id: 'b', error: 'it said "no"\n' },
  ])
  assert.equal(formatJson({ columns: ['id'], rows: [] }), '[]')
  assert.equal(formatTable({ columns: ['id', 'error'], rows: [['a', null]] }, { none: '' }), 'id | error\n---+------\na  |\n(1 row)')
})

test('shows control characters as escapes, so a cell cannot move the cursor or reverse the text', () => {
  const text = formatTable({ columns: ['a\n'], rows: [['\u001b[2J\r\n\t\u009b1m\u202e\u2028 \u007f']] })
  assert.equal(text.split('\n').length, 4)
  assert.ok(text.includes('\\u001b[2J\\r\\n\\t\\u009b1m\\u202e\\u2028 \\u007f'), text)
})
