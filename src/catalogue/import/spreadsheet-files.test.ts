import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inPieces } from '../../../test/in-pieces.ts'
import { readImportLines } from './import-lines.ts'
import { toUtf8Lines } from './spreadsheet-bytes.ts'

const ROWS = [
  ['sku', 'name', 'category', 'price', 'stock'],
  ['00123', 'Größe "XL"', 'Möbel', '12.50', '3'],
  ['A-2', 'Two\nlines', 'Möbel', '7.00', ''],
]
const quoted = (cell: string) => (/[",;\t\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell)
const write = (rows: readonly string[][], { delimiter = ',', lineEnd = '\r\n' } = {}) =>
  rows.map((row) => row.map(quoted).join(delimiter) + lineEnd).join('')
const oneLine = (rows: readonly string[][]) => rows.map((row) => row.map((cell) => cell.replace('\n', ' ')))
const utf16be = (text: string) => Buffer.from(text, 'utf16le').swap16()
const withPrices = (a: string, b: string) =>
  ROWS.map(([sku = '', name = '', category = '', price = '', stock = '']) => [
    ...[sku, name, category],
    price === '12.50' ? a : price === '7.00' ? b : price,
    stock,
  ])

async function read(bytes: Buffer, encoding?: string) {
  const results: string[] = []
  // Pieces of 7 bytes, because a network divides a file anywhere.
  for await (const line of readImportLines(inPieces(bytes, [7]), { format: 'csv', currency: 'EUR', encoding })) {
    if ('error' in line) results.push(`${line.line}: ${line.error}`)
    else {
      const { sku, name, category, price, stock } = line.product
      results.push([sku, name.replace('\n', ' '), category, price.amount, stock].join('|'))
    }
  }
  return results
}

const SAME = ['00123|Größe "XL"|Möbel|1250|3']
const lines = oneLine(ROWS)
const all = [...SAME, 'A-2|Two lines|Möbel|700|']
const FILES: readonly [what: string, bytes: Buffer, encoding?: string][] = [
  ['commas and CRLF', Buffer.from(write(lines))],
  ['a byte order mark', Buffer.from(`\ufeff${write(lines)}`)],
  ['semicolons', Buffer.from(write(lines, { delimiter: ';' }))],
  ['tabs', Buffer.from(write(lines, { delimiter: '\t' }))],
  ['bars', Buffer.from(write(lines, { delimiter: '|' }))],
  ['semicolons and decimal commas', Buffer.from(write(oneLine(withPrices('12,50', '7,00')), { delimiter: ';' }))],
  ['decimal commas between commas, quoted', Buffer.from(write(oneLine(withPrices('12,50', '7,0'))))],
  ['a line that names the delimiter', Buffer.from(`sep=;\r\n${write(lines, { delimiter: ';' })}`)],
  ['carriage returns only', Buffer.from(write(lines, { lineEnd: '\r' }))],
  ['UTF-16 of Excel: little endian, byte order mark, tabs', Buffer.from(`\ufeff${write(lines, { delimiter: '\t' })}`, 'utf16le')],
  ['UTF-16, big endian', utf16be(`\ufeff${write(lines)}`)],
  ['UTF-16 without a byte order mark', Buffer.from(write(lines), 'utf16le')],
  ['UTF-16, big endian, without a byte order mark', utf16be(write(lines))],
  ['Windows-1252, named', Buffer.from(write(lines, { delimiter: ';' }), 'latin1'), 'windows-1252'],
  ['ISO 8859-15, named', Buffer.from(write(lines), 'latin1'), 'iso-8859-15'],
  ['a byte order mark against a wrong name', Buffer.from(`\ufeff${write(lines)}`), 'windows-1252'],
  ['a header in capitals, with blanks', Buffer.from(write(lines).replace('sku,name,category', ' SKU , Name,CATEGORY '))],
  ['every cell in quotes', Buffer.from(lines.map((row) => `${row.map((cell) => `"${cell.replaceAll('"', '""')}"`).join(',')}\n`).join(''))],
  ['empty columns at the end', Buffer.from(write(lines.map((row) => [...row, '', ''])))],
  ['rows with more empty columns than the header', Buffer.from(write(lines.map((row, index) => (index === 0 ? row : [...row, '', '']))))],
  ['empty rows at the end', Buffer.from(`${write(lines)},,,,\r\n,,,,\r\n\r\n`)],
  ['no end of the last line', Buffer.from(write(lines).trimEnd())],
]
for (const [what, bytes, encoding] of FILES) {
  test(`reads a table with ${what}`, async () => {
    assert.deepEqual(await read(bytes, encoding), all)
  })
}

test('keeps line breaks within cells in a file whose lines end with carriage returns, where a spreadsheet writes line feeds inside cells', async () => {
  const rows = ROWS.map((row) => ['"', ...row].slice(1))
  const text = write(
    [
      ['description', ...(rows[0] ?? [])],
      ['a\nb', ...(lines[1] ?? [])],
    ],
    { lineEnd: '\r' },
  )
  assert.deepEqual(await read(Buffer.from(text)), SAME)
})

test('the time for a long first line that arrives byte by byte grows linearly with its length', { timeout: 10_000 }, async () => {
  const bytes = Buffer.from(`sku,name,category,price,"${'x'.repeat(65_000)}"`)
  let length = 0
  for await (const chunk of toUtf8Lines(inPieces(bytes, [1]))) length += chunk.length
  assert.equal(length, bytes.length)
})

const PRICES: readonly [written: string, delimiter: string, outcome: number | RegExp][] = [
  ['12,50', ';', 1250],
  ['12.50', ';', 1250],
  ['12,5', ',', 1250],
  ['1.299,00', ';', 129_900],
  ['1,299.00', ',', 129_900],
  ["1'299.00", ';', 129_900],
  ['1 299,00', ';', 129_900],
  ['1\u00a0299,00', ';', 129_900],
  ['1\u202f299,5', ';', 129_950],
  ['1.234.567', ';', 123_456_700],
  ['1,234,567.8', ',', 123_456_780],
  ['0,99', ';', 99],
  ['1.299', ';', /can mean 1299 or 1 and a fraction: write 1299\.00 or 1\.29/],
  ['1,299', ';', /can mean 1299 or 1 and a fraction/],
  ['1,299', ',', /can mean 1299 or 1 and a fraction/],
  ['1.299', ',', /at most 2 decimals for EUR/],
  ['1,00,000.00', ',', /must be a number such as 12\.50/],
  ['12.500', ';', /can mean 12500/],
  ['12,5000', ';', /at most 2 decimals/],
  ['€12.50', ';', /without a currency/],
  ['12,50 €', ';', /without a currency/],
  ['1.299.00', ';', /must be a number/],
  ['1,2.5', ';', /must be a number/],
  ['-5', ';', /not negative/],
  ['1E+05', ';', /must be a number/],
  ['#NAME?', ';', /the spreadsheet could not calculate or show this cell/],
  ['########', ';', /the spreadsheet could not calculate or show this cell/],
]
for (const [written, delimiter, outcome] of PRICES) {
  test(`a price written ${written} in a file with ${delimiter} as separator is ${typeof outcome === 'number' ? outcome : 'refused'}`, async () => {
    const [result = ''] = await read(
      Buffer.from(
        write(
          [
            ['sku', 'name', 'category', 'price'],
            ['A', 'A', 'C', written],
          ],
          { delimiter },
        ),
      ),
    )
    if (typeof outcome === 'number') assert.equal(result, `A|A|C|${outcome}|`)
    else assert.match(result, outcome)
  })
}

test('refuses a sku that a spreadsheet has shortened, and accepts one that only looks like a number', async () => {
  const rows = ['1.23457E+12', '1,23457E+12', '00123', '1E5', '90.750'].map((sku) => [sku, 'A', 'C', '1.00'])
  const results = await read(Buffer.from(write([['sku', 'name', 'category', 'price'], ...rows])))
  assert.deepEqual(
    results.map((result) => result.replace(/: sku is .*the column as text.*/, ': refused')),
    ['2: refused', '3: refused', '00123|A|C|100|', '1E5|A|C|100|', '90.750|A|C|100|'],
  )
})

const OTHERS: readonly [what: string, bytes: Buffer, reason: RegExp][] = [
  ['a workbook', Buffer.from('504b030414000600', 'hex'), /^1: the file is a workbook .*save the sheet as "CSV UTF-8"/],
  ['a workbook of 1997', Buffer.from('d0cf11e0a1b11ae1', 'hex'), /^1: the file is a workbook of Excel/],
  ['a compressed file', Buffer.from('1f8b0800', 'hex'), /^1: the file is a compressed file/],
  [
    'an export of Shopify',
    Buffer.from('Handle,Title,Variant Price\nmug,Mug,1.00\n'),
    /^1: .*Shopify: .*storefront convert shopify products/,
  ],
  ['an export of WooCommerce', Buffer.from('ID,Type,SKU,Name,Published,Regular price\n'), /^1: .*storefront convert woocommerce products/],
  [
    'an export of Magento',
    Buffer.from('sku,store_view_code,attribute_set_code,product_type\n'),
    /^1: .*storefront convert magento products/,
  ],
  ['a feed for Google', Buffer.from('id\ttitle\tdescription\tlink\tavailability\tprice\n'), /^1: .*Google Merchant Center/],
  [
    'Windows-1252 that is not named',
    Buffer.from('sku,name,category,price\nA,Größe,C,1\n', 'latin1'),
    /^2: .*not valid UTF-8: save .*--encoding windows-1252/,
  ],
]
for (const [what, bytes, reason] of OTHERS) {
  test(`refuses ${what} and says what to do`, async () => {
    const results = await read(bytes)
    assert.equal(results.length, 1)
    assert.match(results[0] ?? '', reason)
  })
}
