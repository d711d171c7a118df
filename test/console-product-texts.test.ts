import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseAmount, readAmount } from '../console/kit/amount.ts'
import { attributeRows, readAttributes } from '../console/screens/attribute-rows.ts'
import { readCsv } from '../console/screens/import-file.ts'
import { combine, headerOf, pastedRows, skuFor } from '../console/screens/variant-rows.ts'

test('attributes are the same after the rows of the form', () => {
  const attributes = {
    ...{ text: 'wool', number: 0.5, truth: false, digits: '12', list: ['red', 'a, "b"', ''], none: [], like_a_list: '["red"]' },
    ...{ lines: 'a\nb', list_of_lines: ['a\nb'], empty: '', blanks: ' a ' },
  }
  assert.deepEqual(readAttributes(attributeRows(attributes)), attributes)
  assert.deepEqual(readAttributes([{ name: '', kind: 'text', text: '' }]), {})
})

test('reads amounts as people of several countries write them', () => {
  const equal = ['1234.50', '1.234,50', '1,234.50', '1 234,50', '1\u202f234,50', "1'234.50", ' 1234,5 ']
  assert.deepEqual(
    equal.map((text) => parseAmount(text, 'EUR')),
    equal.map(() => 123_450),
  )
  for (const [text, currency, amount] of [
    ['0,05', 'EUR', 5],
    ['12', 'EUR', 1_200],
    ['1.234.567', 'EUR', 123_456_700],
    ['1.234', 'KWD', 1_234],
    ['0,234', 'KWD', 234],
    ['1234,500', 'KWD', 1_234_500],
    ['1.234,500', 'KWD', 1_234_500],
    ['1.234', 'JPY', 1_234],
    ['90.071.992.547.409,91', 'EUR', Number.MAX_SAFE_INTEGER],
  ] as const)
    assert.equal(parseAmount(text, currency), amount, `${text} ${currency}`)
  for (const text of [
    '',
    'a',
    '1.234',
    '12.505',
    '1,23,45',
    '1.23.45',
    '1,234.5,0',
    '12.34,5',
    '0,123.45',
    '-1',
    '1e3',
    '1 2',
    '1..2',
    ',5.',
  ])
    assert.equal(parseAmount(text, 'EUR'), null, text)
  assert.equal(parseAmount('1,5', 'JPY'), null)
  assert.equal(parseAmount('1,234', 'KWD'), null, 'one dinar and 234 thousandths, or 1234 dinars')
  assert.throws(() => readAmount('1.2', 'JPY', 'price'), /The price must be a number such as 1250, with no decimals for JPY\./)
})

test('reads the records of a table for the preview', () => {
  assert.deepEqual(readCsv('sep=;\r\nsku;name\r\nA;"x;\n""y"""\r\n\r\nB;z'), [
    ['sku', 'name'],
    ['A', 'x;\n"y"'],
    ['B', 'z'],
  ])
})

test('makes variants of options, and reads rows of a spreadsheet', () => {
  assert.deepEqual(
    combine([
      { name: ' Size ', values: 'S, M,S' },
      { name: '', values: 'x' },
      { name: 'Colour', values: 'red' },
    ]),
    [
      { Size: 'S', Colour: 'red' },
      { Size: 'M', Colour: 'red' },
    ],
  )
  assert.deepEqual(combine([{ name: 'Size', values: ' , ' }]), [])
  assert.equal(skuFor('SHIRT', { Size: '10 ½', Colour: 'dark red' }), 'SHIRT-10-½-DARK-RED')
  const rows = pastedRows('Size\tSKU\tPrice\tUSD price\tStock\r\nS\tA\t1,00\t\t\r\n\r\n')
  assert.deepEqual(rows, [
    ['Size', 'SKU', 'Price', 'USD price', 'Stock'],
    ['S', 'A', '1,00', '', ''],
  ])
  const price = (name: string) => ({ kind: 'price', name })
  const header = [{ kind: 'option', name: 'Size' }, { kind: 'sku' }, price('EUR'), price('USD'), { kind: 'stock' }]
  assert.deepEqual(headerOf(rows[0] ?? [], ['EUR', 'USD']), header)
  assert.equal(headerOf(rows[1] ?? [], ['EUR']), null)
})
