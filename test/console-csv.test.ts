import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parse } from 'csv-parse/sync'
import { toCsv } from '../console/kit/csv.ts'

test('a result as CSV is read back as it was, also with quotes, lines and commas', () => {
  const columns = [
    { name: 'a "name", quoted', type: 'VARCHAR' },
    { name: 'total', type: 'DECIMAL(38,3)' },
  ]
  const rows = [
    ['a,b', '1.500'],
    ['"', '-2.000'],
    ['two\r\nlines', null],
    ['<img src=x>', '0.000'],
  ]
  const csv = toCsv(columns, rows)
  assert.ok(csv.startsWith('"a ""name"", quoted","total"\r\n"a,b",1.500\r\n'), csv)
  assert.deepEqual(parse(csv), [columns.map(({ name }) => name), ...rows.map((row) => row.map((cell) => cell ?? ''))])
})

test('text that is a formula for a spreadsheet begins with an apostrophe, and numbers do not', () => {
  const columns = [
    { name: '=name', type: 'VARCHAR' },
    { name: 'n', type: 'BIGINT' },
    { name: 'list', type: 'INTEGER[]' },
  ]
  const hidden = [' =1+1', '\n=1+1', '\u00a0=1+1', '\u200b=1+1', '\ufeff@x', '\u0000=1', '＝1+1', '＋1', '－1', '＠SUM(A1)']
  const formulas = [...hidden, '=1+1', '+1', '-1', '@SUM(A1)', '\tx', '\r=1', '=HYPERLINK("http://evil.example","x")']
  const csv = toCsv(columns, [...formulas.map((text) => [text, '-5', '-[1]']), ['safe = x', -5, null]])
  const [head, ...rows] = parse(csv) as string[][]
  assert.deepEqual(head, ["'=name", 'n', 'list'])
  assert.deepEqual(rows, [...formulas.map((text) => [`'${text.replace(/^([\r\n])=/, "$1'=")}`, '-5', "'-[1]"]), ['safe = x', '-5', '']])
})

test('text is in quotes and guarded within, for spreadsheets that separate cells by semicolons, and numbers are not', () => {
  const columns = [
    { name: 'a', type: 'VARCHAR' },
    { name: 'n', type: 'BIGINT' },
  ]
  assert.equal(toCsv(columns, [['x;=HYPERLINK(1)', '-5']]), `"a","n"\r\n"x;'=HYPERLINK(1)",-5\r\n`)
})
