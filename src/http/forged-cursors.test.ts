import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { addBuyer } from '../../test/buyers.ts'
import { startStore } from '../../test/store.ts'
import { cursorScope, readListing } from '../catalogue/product-query.ts'
import { encodeCursor } from './pagination.ts'

// A cursor's tag is not a signature: a reader of the source can make a cursor with any position.
const store = await startStore({ after })
const lamp = await store.addProduct({ name: 'A lamp' })
await store.addProduct({ name: 'Another lamp' })
const [customer, operator] = [await addBuyer(store), await addBuyer(store, 'admin')]
const ID = '01900000-0000-7000-8000-000000000000'

const raw = (text: string) => (JSON as unknown as { rawJSON(text: string): string }).rawJSON(text)
const NUMBERS = [
  '1e999',
  '-1e999',
  '9e15',
  '9007199254740993',
  '8640000000000001',
  '-1',
  '-0',
  '1e-320',
  '1e-50',
  '1e-38',
  '0.5',
  '1000',
  '1e300',
].map(raw)
const TIMES = [
  '2016-12-31T23:59:60.999Z',
  ...['1000-01-01T00:00:00.000Z', '2999-12-31T23:59:60.000Z', '2999-02-30T00:00:00.000Z', '1900-02-29T00:00:00.000Z'],
  ...[
    '2024-01-01T24:00:00.000Z',
    '2024-13-01T00:00:00.000Z',
    '2024-00-00T00:00:00.000Z',
    '9999-12-31T23:59:59.999Z',
    '0000-01-01T00:00:00.000Z',
  ],
  ...['2024-01-01T00:60:00.000Z', '-271821-04-20T00:00:00.000Z', '+275760-09-13T00:00:00.000Z', 'infinity', 'now', 'epoch', ''],
]
const TEXTS = ['\0', 'a\0b', '\ud800', 'x'.repeat(1_200), "'; drop table orders --", '\\', '💡']
const IDS = [ID, ID.toUpperCase(), `{${ID}}`, ID.replaceAll('-', ''), `urn:uuid:${ID}`, `${ID}\n`, ` ${ID}`, 'x', '', '\0']
const VALUES: unknown[] = [...NUMBERS, ...TIMES, ...TEXTS, ...IDS, null, true, [], {}, [ID]]

/** Generates positions of a value and an id, at least one of them from the list of odd values. */
function* positions(): Generator<unknown[]> {
  for (const value of VALUES) {
    yield [value, ID]
    for (const good of ['A lamp', 1_250, '2024-01-01T00:00:00.000Z', 1_700_000_000_000]) yield [good, value]
  }
}

async function assertNoFault(path: string, scope: readonly unknown[], position: readonly unknown[], token?: string) {
  const cursor = encodeCursor(scope, position as string[])
  if (cursor.length > 2_000) return 0
  const separator = path.includes('?') ? '&' : '?'
  const answer = await store.call('GET', `${path}${separator}cursor=${cursor}`, token === undefined ? {} : { token })
  assert.ok(answer.status === 200 || answer.status === 400, `${path} ${JSON.stringify(position)} ${answer.status} ${answer.text}`)
  if (answer.status === 400) assert.equal(JSON.parse(answer.text).code, 'invalid_cursor', answer.text)
  return answer.status
}

test('no forged position in a cursor of orders or sessions causes a 500', async () => {
  const statuses = new Set<number>()
  for (const position of positions()) {
    statuses.add(await assertNoFault('/orders', ['listOrders', customer.id], position, customer.token))
    statuses.add(await assertNoFault('/admin/orders', ['searchOrders'], position, operator.token))
  }
  for (const position of positions())
    statuses.add(await assertNoFault('/auth/sessions', ['listSessions', customer.id], position.slice(1), customer.token))
  const [adjustments, scope] = [`/admin/products/${lamp.id}/stock/adjustments`, ['listStockAdjustments', lamp.id]]
  for (const value of VALUES) statuses.add(await assertNoFault(adjustments, scope, [value], operator.token))
  assert.deepEqual([...statuses].filter((status) => status > 0).sort(), [200, 400], 'some of the forged positions are possible ones')
})

test('no forged position in a cursor of products causes a 500', async () => {
  for (const sort of ['name', 'price', '-created_at'] as const) {
    const scope = cursorScope(readListing({ sort }))
    const statuses = new Set<number>()
    for (const position of positions()) {
      for (const direction of ['next', 'prev'])
        statuses.add(await assertNoFault(`/products?sort=${sort}`, scope, [direction, false, ...position]))
    }
    assert.deepEqual([...statuses].filter((status) => status > 0).sort(), [200, 400], sort)
  }
})

test('no forged position in a cursor of a search causes a 500', async () => {
  const scope = cursorScope(readListing({ q: 'lamp' }))
  const statuses = new Set<number>()
  const [time, id] = ['2024-01-01T00:00:00.000Z', ID]
  const edge = [time, id]
  for (const value of VALUES) {
    for (const segment of ['ranked', 'rest']) {
      const good = segment === 'ranked' ? 0.5 : time
      for (const position of [
        ['next', false, segment, value, id, edge, edge, null],
        ['prev', true, segment, value, id, edge, edge, edge],
        ['next', false, segment, good, value, edge, edge, null],
        ['next', false, segment, good, id, [value, id], edge, null],
        ['prev', false, segment, good, id, [time, value], edge, edge],
        ['next', true, segment, good, id, edge, [value, id], null],
        ['prev', false, segment, good, id, edge, [time, value], edge],
        ['next', false, segment, good, id, edge, edge, [value, id]],
        ['prev', false, segment, good, id, edge, edge, [time, value]],
        ['next', false, segment, good, id, edge, edge, value],
      ]) {
        statuses.add(await assertNoFault('/products?q=lamp', scope, position))
      }
    }
  }
  assert.deepEqual([...statuses].filter((status) => status > 0).sort(), [200, 400])
})

test('a search for orders refuses times outside the range of PostgreSQL or JavaScript', async () => {
  for (const time of [...TIMES, '2024-01-01T00:00:00+23:59', '0000-01-01T00:00:00Z', '9999-12-31T23:59:60Z', '2024-02-30T00:00:00Z']) {
    for (const name of ['from', 'to']) {
      const answer = await store.call('GET', `/admin/orders?${name}=${encodeURIComponent(time)}`, operator)
      assert.ok(answer.status === 200 || answer.status === 400, `${name} ${time} ${answer.status} ${answer.text}`)
    }
  }
})
