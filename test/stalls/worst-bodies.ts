import type { ListedRoute } from '../../src/http/route-list.ts'

export interface WorstBody {
  name: string
  type: string
  bytes: Buffer
}

export const JSON_TYPE = 'application/json'
export const NDJSON_TYPE = 'application/x-ndjson'
const ID = '01900000-0000-7000-8000-000000000000'

/** A route whose limit is above this reads its body as a stream. */
const STREAMED_BYTES = 8 * 1_048_576
const LINE_BYTES = 1_048_576

/** The worst bodies that the limits of a route let in, and those that are just past them. */
export function* worstBodies(route: ListedRoute, isThorough: boolean): Generator<WorstBody> {
  if (route.method === 'GET' || route.method === 'HEAD') return
  const { consumes = [], body } = route.schema as { consumes?: string[]; body?: { properties?: Record<string, unknown> } }
  if (consumes.includes(NDJSON_TYPE)) {
    yield* worstLines()
    return
  }
  // Around other JSON, so that the whole stays within the limit.
  const room = route.bodyLimitBytes - 100
  for (const [name, text] of worstJson(room)) {
    yield { name, type: JSON_TYPE, bytes: Buffer.from(text, 'latin1') }
    for (const property of isThorough ? Object.keys(body?.properties ?? {}) : []) {
      yield { name: `${property}: ${name}`, type: JSON_TYPE, bytes: Buffer.from(`{"${property}":${text}}`, 'latin1') }
    }
  }
  yield { name: 'a byte too many', type: JSON_TYPE, bytes: Buffer.alloc(route.bodyLimitBytes + 1, ' ') }
  yield { name: 'bytes that are no UTF-8', type: JSON_TYPE, bytes: Buffer.alloc(room, 0xff) }
  if (body?.properties !== undefined && 'items' in body.properties) yield* worstOrders()
}

/** JSON of about that number of bytes. */
function* worstJson(length: number): Generator<[name: string, text: string]> {
  const list = (element: (index: number) => string) => {
    const elements: string[] = []
    for (let size = 2; size < length - 30; size += (elements.at(-1)?.length ?? 0) + 1) elements.push(element(elements.length))
    return elements.join(',')
  }
  const half = Math.floor(length / 2)
  const sixth = Math.floor(length / 6)
  yield ['lists in lists', '['.repeat(half) + ']'.repeat(half)]
  yield ['lists that never end', '['.repeat(length)]
  yield ['objects in objects', `${'{"a":'.repeat(sixth)}0${'}'.repeat(sixth)}`]
  yield ['many names', `{${list((index) => `"a${index}":0`)}}`]
  yield ['many names of digits', `{${list((index) => `"${index * 7}":0`)}}`]
  yield ['many names with escapes', `{${list((index) => `"\\ud800/~${index}":0`)}}`]
  yield ['one name many times', `{${list(() => '"a":0')}}`]
  yield ['one long name', `{"${'a'.repeat(length - 10)}":0}`]
  yield ['many zeros', `[${list(() => '0')}]`]
  yield ['many empty objects', `[${list(() => '{}')}]`]
  yield ['many objects', `[${list(() => '{"a":0}')}]`]
  yield ['many texts', `[${list((index) => `"${index}"`)}]`]
  yield ['a long text', `"${'a'.repeat(length - 10)}"`]
  yield ['a long text of escapes', `"${'\\ud800'.repeat(sixth)}"`]
  yield ['a long number', '1'.repeat(length)]
  yield ['a long fraction', `0.${'1'.repeat(length - 2)}`]
  yield ['a huge number', `1e${'9'.repeat(length - 2)}`]
  yield ['white space', ' '.repeat(length)]
}

function* worstOrders(): Generator<WorstBody> {
  const lines = (line: (index: number) => object) =>
    Buffer.from(JSON.stringify({ items: Array.from({ length: 1_000 }, (_, index) => line(index)) }))
  const product = (index: number) => `${ID.slice(0, -4)}${1_000 + index}`
  yield { name: 'an order of 1,000 lines', type: JSON_TYPE, bytes: lines((index) => ({ product_id: product(index), quantity: 10_000 })) }
  yield {
    name: '1,000 lines with text for numbers',
    type: JSON_TYPE,
    bytes: lines((index) => ({ product_id: product(index), quantity: '1' })),
  }
  yield {
    name: '1,000 lines of unknown names',
    type: JSON_TYPE,
    bytes: lines((index) => ({ product_id: product(index), quantity: 1, a: 1, b: 1 })),
  }
  yield { name: '1,000 lines without names', type: JSON_TYPE, bytes: lines(() => ({})) }
  yield { name: '1,000 lines of one product', type: JSON_TYPE, bytes: lines(() => ({ product_id: ID, quantity: 1 })) }
}

function* worstLines(): Generator<WorstBody> {
  const body = (name: string, line: (index: number) => string, count: number, most = STREAMED_BYTES): WorstBody => {
    const lines: string[] = []
    for (let index = 0, size = 0; index < count && size < most; index++) {
      lines.push(line(index))
      size += (lines.at(-1)?.length ?? 0) + 1
    }
    return { name, type: NDJSON_TYPE, bytes: Buffer.from(lines.join('\n').slice(0, most - 1), 'latin1') }
  }
  const product = (sku: string, description: string) =>
    JSON.stringify({ sku, name: 'A', description, category: 'a', price: { amount: 1, currency: 'EUR' } })
  yield { name: 'line feeds', type: NDJSON_TYPE, bytes: Buffer.alloc(STREAMED_BYTES - 1, '\n') }
  yield { name: 'line feeds of Windows', type: NDJSON_TYPE, bytes: Buffer.alloc(STREAMED_BYTES - 1, '\r\n') }
  yield { name: 'one line', type: NDJSON_TYPE, bytes: Buffer.alloc(STREAMED_BYTES - 1, 'a') }
  yield { name: 'bytes that are no UTF-8', type: NDJSON_TYPE, bytes: Buffer.alloc(STREAMED_BYTES - 1, 0xff) }
  yield body('10,000 lines without names', () => '{}', 10_000)
  yield body('more lines than are allowed', () => '{}', Number.POSITIVE_INFINITY)
  yield body('10,000 moves', (index) => JSON.stringify({ order_id: `${ID.slice(0, -5)}${10_000 + index}`, to: 'confirmed' }), 10_000)
  yield body('10,000 moves of one order', () => JSON.stringify({ order_id: ID, to: 'confirmed' }), 10_000)
  yield body('10,000 long lines', (index) => JSON.stringify({ order_id: ID, to: 'confirmed', reason: 'a'.repeat(700), index }), 10_000)
  yield body('products', (index) => product(`stall-${index}`, ''), 3_000)
  yield body('products with long descriptions', (index) => product(`stall-long-${index}`, 'é'.repeat(32_768)), 150)
  yield body('long texts', () => product('a', 'a'.repeat(LINE_BYTES - 200)), 8)
  for (const [name, text] of worstJson(LINE_BYTES - 200)) yield body(`lines: ${name}`, () => text, 3)
}
