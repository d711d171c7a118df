import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { inPieces } from '../../../test/in-pieces.ts'
import { type ImportFormat, readImportLines } from './import-lines.ts'
import type { ImportedProduct, ImportLine } from './imported-product.ts'

// Garbage that is not collected yet must not count.
setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

const HEADER = 'sku,name,description,category,image_url,price,currency,stock'
const MUG: ImportedProduct = {
  sku: 'MUG-1',
  name: 'Mug',
  description: 'Holds tea.',
  category: 'Kitchen',
  brand: null,
  image_url: null,
  images: [],
  group: null,
  options: {},
  attributes: {},
  price: { amount: 1250, currency: 'EUR' },
  compare_at_price: null,
  seo: { title: null, description: null },
  availability_text: null,
  stock: 3,
}

async function read(file: string | Uint8Array, format?: ImportFormat, pieces: readonly number[] = [65_536]): Promise<ImportLine[]> {
  const bytes = typeof file === 'string' ? new TextEncoder().encode(file) : file
  return Array.fromAsync(readImportLines(inPieces(bytes, pieces), { format, currency: 'EUR' }))
}

/** `<line>: <sku or reason>` of every line: what a person sees of an import. */
async function summary(file: string | Uint8Array, format?: ImportFormat): Promise<string[]> {
  const lines = await read(file, format)
  return lines.map((line) => `${line.line}: ${'product' in line ? line.product.sku : line.error}`)
}

const json = (changes: object = {}) => JSON.stringify({ ...MUG, ...changes })

test('reads one product from each NDJSON line, and skips blank lines, a byte order mark and carriage returns', async () => {
  const { stock: _, ...withoutStock } = MUG
  const { description: __, image_url: ___, ...least } = withoutStock
  const file = `\ufeff${json()}\r\n\r\n  \n${JSON.stringify({ ...least, sku: ' MUG-2 ' })}`
  assert.deepEqual(await read(file), [
    { line: 1, product: MUG },
    { line: 4, product: { ...withoutStock, sku: 'MUG-2', description: '' } },
  ])
})

test('distinguishes unchanged stock, untracked stock, a number and a difference', async () => {
  const lines = [{ stock: undefined }, { stock: null }, { stock: 0 }, { stock: undefined, stock_delta: -2, reference: ' DN 1 ' }].map(
    (stock, index) => json({ sku: `N${index}`, ...stock }),
  )
  const csv = ['sku,name,category,price,stock,stock_delta,reference', ',,', 'untracked,,', '0,,', ',-2, DN 1 '].map((stock, index) =>
    index === 0 ? stock : `C${index - 1},Mug,Kitchen,12.50,${stock}`,
  )
  const stockOf = async (file: string) =>
    (await read(file)).map((line) => {
      if ('error' in line) return line.error
      const { stock, stock_delta, reference } = line.product
      return { stock, stock_delta, reference, isNamed: 'stock' in line.product }
    })
  const nothing = { stock: undefined, stock_delta: undefined, reference: undefined, isNamed: false }
  const expected = [
    nothing,
    { ...nothing, stock: null, isNamed: true },
    { ...nothing, stock: 0, isNamed: true },
    { ...nothing, stock_delta: -2, reference: 'DN 1' },
  ]
  assert.deepEqual(await stockOf(lines.join('\n')), expected)
  assert.deepEqual(await stockOf(csv.join('\n')), expected)
})

test('reads CSV with columns in any order, multi-line fields, and the default currency', async () => {
  const file =
    '\ufeff\r\nprice,category,sku,name,description\r\n12.50,Kitchen,A,"The ""big"" one, blue","Two\r\nlines"\r\n\r\n7,Kitchen,B,Pot,\r\n'
  const { sku: _, name: _name, description: _description, price: _price, stock: _stock, ...unnamed } = MUG
  const rest = { ...unnamed, columns: new Set(['price', 'category', 'sku', 'name', 'description']) }
  assert.deepEqual(await read(file), [
    {
      line: 3,
      product: { ...rest, sku: 'A', name: 'The "big" one, blue', description: 'Two\r\nlines', price: { amount: 1250, currency: 'EUR' } },
    },
    { line: 6, product: { ...rest, sku: 'B', name: 'Pot', description: '', price: { amount: 700, currency: 'EUR' } } },
  ])
})

const whole = 'a whole number from 0 to 1000000000000'
const minor = 'price.amount must be a whole number of minor units from 0 to 9007199254740991'
for (const [what, line, reason] of [
  ['half a line', '{"sku":"A"', 'the line is not valid JSON'],
  ['no object', '[1]', 'a product must be an object'],
  ['an unknown property', json({ colour: 'red' }), 'a product has the unknown property "colour"'],
  ['a __proto__ property', `{"__proto__":{"sku":"A"},${json().slice(1)}`, 'a product has the unknown property "__proto__"'],
  ['an unknown property of the price', json({ price: { ...MUG.price, tax: 1 } }), 'price has the unknown property "tax"'],
  ['no sku', json({ sku: undefined }), 'sku must be a text'],
  ['a blank sku', json({ sku: ' ' }), 'sku must have 1 to 64 characters'],
  ['a long sku', json({ sku: 'x'.repeat(65) }), 'sku must have 1 to 64 characters'],
  ['a tab in a sku', json({ sku: 'A\tB' }), 'sku must have no control characters and no line breaks'],
  ['a blank without width in a sku', json({ sku: 'A\u200bB' }), 'sku must have no invisible characters'],
  ['a turn of direction in a sku', json({ sku: 'A\u202eB' }), 'sku must have no invisible characters'],
  ['a filler in a sku', json({ sku: 'A\u3164' }), 'sku must have no invisible characters'],
  [
    'a joiner in a reference',
    json({ stock: undefined, stock_delta: 1, reference: 'DN\u2060-1' }),
    'reference must have no invisible characters',
  ],
  ['a name that shows nothing', json({ name: '\u200b\u2800 \u202e' }), 'name must have a visible character'],
  ['a NUL', json({ description: 'a\0b' }), 'description has a NUL character'],
  ['half a surrogate pair', json().replace('Holds', '\\ud800'), 'description has half of a surrogate pair, which is no character'],
  ['an empty name', json({ name: '' }), 'name must have 1 to 300 characters'],
  ['a long name', json({ name: 'x'.repeat(301) }), 'name must have 1 to 300 characters'],
  ['a long description', json({ description: '🫖'.repeat(16_385) }), 'description must have at most 65,536 bytes in UTF-8'],
  ['a long category', json({ category: 'x'.repeat(101) }), 'category must have 1 to 100 characters'],
  [
    'an image that is no web address',
    json({ image_url: 'javascript:alert(1)' }),
    'image_url must be an absolute URL that starts with https:// or http://',
  ],
  ['no price', json({ price: undefined }), 'price must be an object'],
  ['a negative price', json({ price: { amount: -1, currency: 'EUR' } }), minor],
  ['a broken minor unit', json({ price: { amount: 12.5, currency: 'EUR' } }), minor],
  ['a price as text', json({ price: { amount: '12', currency: 'EUR' } }), minor],
  ['a price past 2^53', json().replace('1250', '9007199254740992'), minor],
  ['an unknown currency', json({ price: { amount: 1, currency: 'ZZZ' } }), 'price.currency must be an ISO 4217 code such as EUR'],
  ['negative stock', json({ stock: -1 }), `stock must be null or ${whole}`],
  ['stock and a difference', json({ stock_delta: 1 }), 'stock and stock_delta must not both be given'],
  [
    'a broken difference',
    json({ stock: undefined, stock_delta: 0.5 }),
    'stock_delta must be a whole number from -1000000000000 to 1000000000000',
  ],
  ['a reference of nothing', json({ reference: 'R' }), 'reference must come with a stock_delta'],
  ['a blank reference', json({ stock: undefined, stock_delta: 1, reference: ' ' }), 'reference must have 1 to 100 characters'],
] as const) {
  test(`reports an NDJSON line with ${what} by its number, and continues`, async () => {
    assert.deepEqual(await summary(`${json({ sku: 'A' })}\n${line}\n${json({ sku: 'B' })}\n`, 'ndjson'), ['1: A', `2: ${reason}`, '3: B'])
  })
}

const price = (limits: string) =>
  `price must be a number such as 12.50, without a currency (at most ${limits}, not negative, below 2^53 minor units)`
for (const [what, record, reason] of [
  ['too few fields', 'X,Mug,,Kitchen', 'the record has 4 fields where the header has 8'],
  ['too many fields', 'X,Mug,,Kitchen,,1,EUR,1,Z', 'the record has 9 fields where the header has 8'],
  ['more decimals than the currency has', 'X,Mug,,Kitchen,,1.5,JPY,1', price('0 decimals for JPY')],
  ['a negative price', 'X,Mug,,Kitchen,,-1,EUR,1', price('2 decimals for EUR')],
  ['a price past 2^53', 'X,Mug,,Kitchen,,90071992547409.92,EUR,1', price('2 decimals for EUR')],
  ['no price', 'X,Mug,,Kitchen,,,EUR,1', price('2 decimals for EUR')],
  ['an unknown currency', 'X,Mug,,Kitchen,,1,eur,1', 'currency must be an ISO 4217 code such as EUR'],
  ['broken stock', 'X,Mug,,Kitchen,,1,EUR,1.5', `stock must be empty, untracked or ${whole}, without separators`],
  ['a NUL', 'X,Mug,a\0b,Kitchen,,1,EUR,1', 'description has a NUL character'],
  ['a quote in a plain field', 'X,7" Mug,,Kitchen,,1,EUR,1', 'a quote stands inside a field that is not quoted'],
  [
    'text after a quoted field',
    'X,"Mug" x,,Kitchen,,1,EUR,1',
    'after the quote that closes a field comes neither a delimiter nor the end of the line',
  ],
] as const) {
  test(`reports a CSV record with ${what} by its line, and loses no record after it`, async () => {
    const good = (sku: string) => `${sku},"Mug","two\r\nlines",Kitchen,,1.00,EUR,1`
    const file = [HEADER, good('A'), record, good('B').replace('\r\n', ' '), good('C').replace('\r\n', ' ')].join('\r\n')
    assert.deepEqual(await summary(file, 'csv'), ['2: A', `4: ${reason}`, '5: B', '6: C'])
  })
}

test('reports a CSV quote that is never closed by the line with the quote, and loses no record after it', async () => {
  const file = `${HEADER}\nA,Mug,"Blue,Kitchen,,1,EUR,1\nB,Mug,,Kitchen,,1,EUR,1\nC,"Mug",,Kitchen,,1,EUR,1\nD,Mug,,Kitchen,,1,EUR,1`
  const reason = 'after the quote that closes a field comes neither a delimiter nor the end of the line'
  assert.deepEqual(await summary(file), [`2: ${reason}`, '3: B', '4: C', '5: D'])
  const plain = file.replace('"Mug"', 'Mug')
  assert.deepEqual(await summary(plain), ['2: a quote is opened and not closed, at least not within 1 MiB', '3: B', '4: C', '5: D'])
})

test('reading the lines again that a stray CSV quote has joined does not block other work', async () => {
  const lines = 30_000
  const file = `${HEADER}\nA,Mug,"Blue,Kitchen,,1,EUR,1\n${'B,Mug,,Kitchen,,1,EUR,1\n'.repeat(lines)}`
  let [read, burst, longest] = [0, 0, 0]
  const turn = () => {
    longest = Math.max(longest, burst)
    burst = 0
  }
  let timer = setImmediate(function next() {
    turn()
    timer = setImmediate(next)
  })
  for await (const _line of readImportLines(inPieces(new TextEncoder().encode(file), [65_536]), { format: 'csv', currency: 'EUR' })) {
    read++
    burst++
  }
  clearImmediate(timer)
  turn()
  assert.equal(read, lines + 1)
  assert.ok(longest < lines / 3, `${longest} lines in one turn of the event loop`)
})

test('reports the lines of a bad CSV record as a range', async () => {
  const file = `${HEADER}\nA,"Mug,,Kitchen,,1,EUR,1\nB,Mug,,Kitchen,,1,EUR,1\nC,Mug",,Kitchen,,1,EUR,1\nD,Mug,,Kitchen,,1,EUR,1\n`
  assert.deepEqual(await summary(file), ['2: name must have no control characters and no line breaks (lines 2 to 4)', '5: D'])
})

for (const [header, reason] of [
  [
    'sku;name;colour;price',
    `the header has the unknown column "colour"; known are ${HEADER.replaceAll(',', ', ')}, group, options, attributes, stock_delta, reference, slug, brand, compare_at_price, images, seo_title, seo_description, availability_text, categories, status, published_at, unpublished_at, sale_prices, translated texts such as name:de, and prices such as price:USD`,
  ],
  ['sku,name,name,category,price', 'the header has the column name twice'],
  ['sku,name,stock', 'the header lacks the column category, price'],
] as const) {
  test(`reads no record below the CSV header ${header}`, async () => {
    assert.deepEqual(await summary(`${header}\nA,Mug,,Kitchen,1\n`, 'csv'), [`1: ${reason}`])
  })
}

test('refuses a CSV header with too many columns', async () => {
  const header = (count: number) =>
    ['sku,name,category,price', ...Array.from({ length: count - 4 }, (_, place) => `name:x${place.toString(36)}`)].join(',')
  assert.deepEqual(await summary(`${header(1_001)}\nA\n`, 'csv'), ['1: the header has 1001 columns; at most 1,000 are read'])
  assert.deepEqual(await summary(`${header(1_000)}\nA\n`, 'csv'), ['2: the record has 1 fields where the header has 1000'])
})

test('reports lines that are not UTF-8 or longer than 1 MiB, and continues', async () => {
  const latin = Buffer.from(json({ name: 'Café' }), 'latin1')
  const surrogate = Buffer.concat([Buffer.from('{"sku":"'), Buffer.from([0xed, 0xa0, 0x80]), Buffer.from('"}')])
  const long = Buffer.from(json({ description: 'x'.repeat(1024 * 1024) }))
  const file = Buffer.concat([latin, surrogate, long, Buffer.from(json())].flatMap((line) => [line, Buffer.from('\n')]))
  const expected = ['1: the line is not valid UTF-8', '2: the line is not valid UTF-8', '3: the line is longer than 1 MiB', '4: MUG-1']
  assert.deepEqual(await summary(file, 'ndjson'), expected)
  const row = (name: string) => `MUG-1,${name},,Kitchen,,1,EUR,1`
  const csv = Buffer.from(`${HEADER}\n${row('Café')}\n${row('x'.repeat(1024 * 1024))}\n${row('Mug')}`, 'latin1')
  const remedy = ': save the file as "CSV UTF-8", or name its encoding, such as --encoding windows-1252 (over HTTP: charset=windows-1252)'
  assert.deepEqual(await summary(csv), [`2: the line is not valid UTF-8${remedy}`, '3: the line is longer than 1 MiB', '4: MUG-1'])
})

test('memory stays bounded for a line that never ends', async () => {
  async function* endless() {
    for (let count = 0; count < 512; count++) yield Buffer.alloc(1024 * 1024, '"')
    yield Buffer.from(`\n${json()}`)
  }
  const held = () => {
    // The second run starts after the garbage of the first run was freed.
    collectGarbage()
    collectGarbage()
    return process.memoryUsage().arrayBuffers
  }
  const before = held()
  let [peak, count] = [0, 0]
  const watched = async function* () {
    for await (const chunk of endless()) {
      if (count++ % 64 === 0) peak = Math.max(peak, held() - before)
      yield chunk
    }
  }
  const lines = await Array.fromAsync(readImportLines(watched(), { format: 'ndjson', currency: 'EUR' }))
  assert.deepEqual(
    lines.map(({ line }) => line),
    [1, 2],
  )
  assert.ok(peak < 16 * 1024 * 1024, `${peak} bytes`)
})

test('reports the second line of a sku, unless the first one failed', async () => {
  const file = [json({ stock: -1 }), json(), json({ sku: 'B' }), json({ name: 'Again' })].join('\n')
  assert.deepEqual((await summary(file)).slice(1), ['2: MUG-1', '3: B', '4: sku MUG-1 was already on line 2'])
})

test('the format comes from the option, otherwise from the file name, otherwise from the first character', async () => {
  const formatOf = async (file: string, fileName?: string, format?: ImportFormat) => {
    const [first] = await Array.fromAsync(readImportLines(inPieces(Buffer.from(file), [7]), { format, fileName, currency: 'EUR' }))
    return first === undefined || ('error' in first && first.error === 'the line is not valid JSON') ? 'json' : 'csv'
  }
  assert.equal(await formatOf('x', 'a.csv', 'ndjson'), 'json')
  assert.equal(await formatOf('x', 'A.NDJSON'), 'json')
  assert.equal(await formatOf('x', 'a.csv'), 'csv')
  assert.equal(await formatOf('x', 'a.txt'), 'csv')
  assert.equal(await formatOf('\n  {', '-'), 'json')
})

test('closes the file if the reader stops early', async () => {
  for (const format of ['ndjson', 'csv'] as const) {
    let isClosed = false
    async function* file() {
      try {
        yield Buffer.from(format === 'csv' ? `${HEADER}\nA,Mug,,Kitchen,,1,EUR,1\n` : `${json()}\n`)
        yield Buffer.from('more\n')
      } finally {
        isClosed = true
      }
    }
    for await (const _ of readImportLines(file(), { format, currency: 'EUR' })) break
    assert.equal(isClosed, true)
  }
})
