import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { after, test } from 'node:test'
import { addBuyer } from '../../../test/buyers.ts'
import { findWaiting } from '../../../test/database.ts'
import { eventually } from '../../../test/eventually.ts'
import { startStore } from '../../../test/store.ts'
import { pagingOf } from '../../http/pagination.ts'
import { AdjustmentPosition, listAdjustments } from '../stock-adjustments.ts'
import { exportCatalogue } from './export-catalogue.ts'
import { importCatalogue } from './import-catalogue.ts'
import { type ImportFormat, readImportLines } from './import-lines.ts'

const store = await startStore({ after })
const { pool } = store
let lastSku = 0
const newSku = () => `FEED-${++lastSku}`
const line = (sku: string, changes: object = {}) => ({
  sku,
  name: 'A lamp',
  category: 'lamps',
  price: { amount: 1_250, currency: 'EUR' },
  ...changes,
})

async function importText(text: string, format: ImportFormat = 'ndjson') {
  const errors: string[] = []
  const lines = readImportLines(Readable.from([Buffer.from(text)]), { format, currency: 'EUR' })
  const counts = await importCatalogue(pool, lines, (number, reason) => errors.push(`${number}: ${reason}`))
  return { ...counts, errors }
}
const feed = (...lines: object[]) => importText(lines.map((each) => JSON.stringify(each)).join('\n'))
const counted = (changes: object) => ({ created: 0, updated: 0, unchanged: 0, failed: 0, errors: [], ...changes })

async function stockOf(sku: string) {
  const { rows } = await pool.query(
    `select products.id, available, in_stock, inventory.version, products.xmin::text as product_row
    from products
    left join inventory on product_id = id
    where sku = $1`,
    [sku],
  )
  return rows[0] as { id: string; available: number | null; in_stock: boolean; version: number; product_row: string }
}
async function keptOf(sku: string) {
  const { data } = await listAdjustments(pool, (await stockOf(sku)).id, pagingOf([], { limit: 100 }, AdjustmentPosition))
  return data.map(({ kind, before, after, reference, actor }) => [kind, before, after, reference, actor.type])
}

test('a file without stock keeps the stock and changes the rest', async () => {
  const sku = newSku()
  await feed(line(sku, { stock: 7 }))
  const before = await stockOf(sku)
  assert.deepEqual(await feed(line(sku, { name: 'A brighter lamp' })), counted({ updated: 1 }))
  const { available, in_stock, version } = await stockOf(sku)
  assert.deepEqual({ available, in_stock, version }, { available: 7, in_stock: true, version: before.version })
  assert.deepEqual(await feed(line(sku, { name: 'A brighter lamp' })), counted({ unchanged: 1 }))
  assert.equal((await keptOf(sku)).length, 1)
})

test('a sold-out product stays sold out if the file has no stock', async () => {
  const sku = newSku()
  await feed(line(sku, { stock: 0 }))
  await feed(line(sku, { name: 'Another lamp' }))
  const { available, in_stock } = await stockOf(sku)
  assert.deepEqual({ available, in_stock }, { available: 0, in_stock: false })
})

test('does not restore units that were sold after the file was written', async () => {
  const buyer = await addBuyer(store)
  const sku = newSku()
  await feed(line(sku, { stock: 7 }))
  const { id } = await stockOf(sku)
  const body = { items: [{ product_id: id, quantity: 3 }] }
  assert.equal((await store.call('POST', '/orders', { token: buyer.token, body })).status, 201)
  await feed(line(sku, { description: 'Bright.' }))
  assert.equal((await stockOf(sku)).available, 4)
})

test('a new product without stock is untracked, and no stock change is recorded', async () => {
  const skus = [newSku(), newSku()]
  await feed(line(skus[0] ?? ''), line(skus[1] ?? '', { stock: null }))
  for (const sku of skus) {
    const { available, in_stock } = await stockOf(sku)
    assert.deepEqual({ available, in_stock }, { available: null, in_stock: true })
    assert.deepEqual(await keptOf(sku), [])
  }
})

test('sets a number, ends tracking for null, and records each change', async () => {
  const sku = newSku()
  for (const stock of [4, 0, 9, null, 9]) {
    await feed(line(sku, { stock }))
    const { available, in_stock } = await stockOf(sku)
    assert.deepEqual({ available, in_stock }, { available: stock, in_stock: stock !== 0 })
  }
  assert.deepEqual(await keptOf(sku), [
    ['import', null, 9, null, 'system'],
    ['import', 9, null, null, 'system'],
    ['import', 0, 9, null, 'system'],
    ['import', 4, 0, null, 'system'],
    ['import', null, 4, null, 'system'],
  ])
})

test('in CSV an empty cell or a missing column keeps stock, and `untracked` ends its tracking', async () => {
  const sku = newSku()
  const csv = (header: string, cells: string) => importText(`sku,name,category,price${header}\n${sku},A lamp,lamps,12.50${cells}\n`, 'csv')
  const steps: [string, string, number | null][] = [
    [',stock', ',6', 6],
    [',stock', ',', 6],
    ['', '', 6],
    [',stock_delta,reference', ',+2,A', 8],
    [',stock_delta,reference', ',2,A', 8],
    [',stock_delta,reference', ',-3,B', 5],
    [',stock,stock_delta,reference', ',,,', 5],
    [',stock', ',0', 0],
    [',stock', ',untracked', null],
    [',stock', ',', null],
  ]
  for (const [header, cells, expected] of steps) {
    const { failed, errors } = await csv(header, cells)
    assert.deepEqual([failed, errors], [0, []])
    assert.equal((await stockOf(sku)).available, expected, `${header}${cells}`)
  }
  for (const cells of ['null', '-1', '1.5', 'UNTRACKED']) assert.equal((await csv(',stock', `,${cells}`)).failed, 1, cells)
  for (const cells of ['1.5', 'x', '--1', '99999999999999999']) assert.equal((await csv(',stock_delta', `,${cells}`)).failed, 1, cells)
  assert.equal((await csv(',stock,stock_delta', ',1,1')).failed, 1)
  assert.equal((await stockOf(sku)).available, null)
})

test('adds a difference once for each reference, however often the file is imported', async () => {
  const [lamp, vase, fresh] = [newSku(), newSku(), newSku()]
  await feed(line(lamp, { stock: 5 }), line(vase, { stock: 5 }))
  const file = [
    line(lamp, { stock_delta: 3, reference: 'DN-1' }),
    line(vase, { stock_delta: -5, reference: 'DN-1' }),
    line(fresh, { stock_delta: 2, reference: 'DN-1' }),
  ]
  assert.deepEqual(await feed(...file), counted({ created: 1, updated: 2 }))
  assert.deepEqual(await feed(...file), counted({ unchanged: 3 }))
  const stocks = await Promise.all([lamp, vase, fresh].map(stockOf))
  assert.deepEqual(
    stocks.map(({ available, in_stock }) => [available, in_stock]),
    [
      [8, true],
      [0, false],
      [2, true],
    ],
  )
  assert.deepEqual(await keptOf(lamp), [
    ['import', 5, 8, 'DN-1', 'system'],
    ['import', null, 5, null, 'system'],
  ])
})

test('adds a difference without a reference each time, and a difference of 0 does nothing', async () => {
  const [lamp, fresh] = [newSku(), newSku()]
  await feed(line(lamp, { stock: 5 }))
  for (const expected of [6, 7]) {
    await feed(line(lamp, { stock_delta: 1 }))
    assert.equal((await stockOf(lamp)).available, expected)
  }
  assert.deepEqual(await feed(line(lamp, { stock_delta: 0 }), line(fresh, { stock_delta: 0 })), counted({ created: 1, unchanged: 1 }))
  const { available, in_stock } = await stockOf(fresh)
  assert.deepEqual([available, in_stock], [0, false], 'a new product starts at 0')
})

test('refuses a whole line with an impossible difference, and stores the other lines', async () => {
  const [short, untracked, reused, fresh, good] = [newSku(), newSku(), newSku(), newSku(), newSku()]
  await feed(line(short, { stock: 2 }), line(untracked), line(reused, { stock: 2 }), line(good, { stock: 2 }))
  await feed(line(reused, { stock_delta: 1, reference: 'R' }))
  const name = 'Renamed'
  const result = await feed(
    line(short, { name, stock_delta: -3 }),
    line(untracked, { name, stock_delta: 1 }),
    line(reused, { name, stock_delta: 2, reference: 'R' }),
    line(fresh, { name, stock_delta: -1 }),
    line(good, { name, stock_delta: -2 }),
  )
  assert.deepEqual(result, {
    ...counted({ updated: 1, failed: 4 }),
    errors: [
      '1: stock_delta would leave less than nothing: 2 available',
      '2: stock_delta needs stock that is tracked: give stock first',
      '3: reference was booked before with a stock_delta of 1',
      '4: stock_delta would leave less than nothing: 0 available',
    ],
  })
  const { rows } = await pool.query('select sku, available from products join inventory on product_id = id where name = $1', [name])
  assert.deepEqual(rows, [{ sku: good, available: 0 }])
  assert.equal(await stockOf(fresh), undefined)
})

test('the API and files share the references of a product', async () => {
  const admin = await addBuyer(store, 'admin')
  const sku = newSku()
  await feed(line(sku, { stock: 5 }))
  await feed(line(sku, { stock_delta: 2, reference: 'R' }))
  const { id } = await stockOf(sku)
  const options = { token: admin.token, body: { delta: 2, reference: 'R' } }
  const answer = await store.call('POST', `/admin/products/${id}/stock/adjustments`, options)
  assert.deepEqual([answer.status, answer.json.kind, answer.json.after], [200, 'import', 7])
  assert.equal((await stockOf(sku)).available, 7)
})

test('records the operator who sent a file over HTTP', async () => {
  const admin = await addBuyer(store, 'admin')
  const sku = newSku()
  const answer = await store.call('POST', '/admin/products/import', {
    token: admin.token,
    raw: JSON.stringify(line(sku, { stock: 3 })),
    headers: { 'content-type': 'application/x-ndjson' },
  })
  assert.match(answer.text, /"created":1,/)
  const { data } = await listAdjustments(pool, (await stockOf(sku)).id, pagingOf([], { limit: 1 }, AdjustmentPosition))
  assert.deepEqual(data[0]?.actor, { type: 'admin', id: admin.id })
})

test('the differences of two concurrent files add up, and a new product is created once', async () => {
  const skus = Array.from({ length: 30 }, newSku)
  await feed(...skus.slice(0, 15).map((sku) => line(sku, { stock: 1 })))
  const results = await Promise.all(
    [skus, skus.toReversed(), skus].map((order, index) =>
      feed(...order.map((sku) => line(sku, { stock_delta: index + 1, reference: `feed ${index}` }))),
    ),
  )
  assert.deepEqual(
    results.map(({ failed }) => failed),
    [0, 0, 0],
  )
  assert.equal(
    results.reduce((sum, { created }) => sum + created, 0),
    15,
  )
  for (const [index, sku] of skus.entries()) assert.equal((await stockOf(sku)).available, index < 15 ? 7 : 6)
})

test('adds to the stock that a concurrent import has stored', async (t) => {
  const sku = newSku()
  const other = await pool.connect()
  t.after(() => other.release(true))
  await other.query('begin')
  await other.query(
    `with made as (
      insert into products (id, sku, name, category, price_amount, price_currency, in_stock)
      values (gen_random_uuid(), $1, 'A lamp', 'lamps', 1250, 'EUR', true)
      returning id
    )
    insert into inventory (product_id, available) select id, 5 from made`,
    [sku],
  )
  const adding = feed(line(sku, { stock_delta: 2 }))
  await eventually(async () => (await findWaiting(pool, other)).length === 1)
  await other.query('commit')
  assert.deepEqual(await adding, counted({ updated: 1 }))
  assert.equal((await stockOf(sku)).available, 7)
})

for (const format of ['ndjson', 'csv'] as const) {
  test(`an edited export as ${format} keeps the current stock, unless it names stock`, async () => {
    const [lamp, untracked] = [newSku(), newSku()]
    await feed(line(lamp, { stock: 5 }), line(untracked))
    const exported = async (withStock: boolean) => (await Array.fromAsync(exportCatalogue(pool, format, { withStock }))).join('')
    const [plain, full] = [await exported(false), await exported(true)]
    assert.doesNotMatch(plain, /stock/)
    assert.match(full, format === 'csv' ? new RegExp(`^${untracked},.*,untracked,,`, 'm') : /"stock":5/)
    await pool.query('update inventory set available = 4 where product_id = $1', [(await stockOf(lamp)).id])
    const edited = await importText(plain.replaceAll('A lamp', `A lamp from ${format}`), format)
    assert.deepEqual([edited.failed, edited.errors], [0, []])
    assert.deepEqual([(await stockOf(lamp)).available, (await stockOf(untracked)).available], [4, null])
    assert.equal((await importText(full, format)).failed, 0)
    assert.deepEqual([(await stockOf(lamp)).available, (await stockOf(untracked)).available], [5, null])
  })
}
