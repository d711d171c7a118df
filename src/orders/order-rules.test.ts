import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { createTestDatabase } from '../../test/database.ts'
import { makeOrderItem } from '../../test/order-event-factory.ts'

const { pool } = await createTestDatabase({ after })
const EUR = (amount: number) => ({ amount, currency: 'EUR' })
const ENTRY = { status: 'pending', at: '2026-03-01T10:00:00.000Z', actor: { type: 'system', id: null }, reason: null }

interface Row {
  items: unknown
  total: number
  currency: string
  history: unknown
  version: number
  status: string
}
const RIGHT: Row = {
  items: [
    makeOrderItem({ unit_price: EUR(100), quantity: 3, total: EUR(300) }),
    makeOrderItem({ unit_price: EUR(0), quantity: 1, total: EUR(0) }),
  ],
  total: 300,
  currency: 'EUR',
  history: [ENTRY],
  version: 1,
  status: 'pending',
}

async function insert(changes: Partial<Row> = {}): Promise<string> {
  const { items, total, currency, history, version, status } = { ...RIGHT, ...changes }
  const { rows } = await pool.query<{ id: string }>(
    `insert into orders (id, user_id, status, items, total_amount, currency, version, status_history, created_at, updated_at)
    values (gen_random_uuid(), gen_random_uuid(), $1, $2, $3, $4, $5, $6, now(), now())
    returning id`,
    [status, typeof items === 'string' ? items : JSON.stringify(items), total, currency, version, JSON.stringify(history)],
  )
  return rows[0]?.id ?? ''
}

/** The name of the constraint that refuses the statement. */
async function refusalOf(work: Promise<unknown>): Promise<string | undefined> {
  const error = await work.then(
    () => assert.fail('it was stored'),
    (error: { code?: string; constraint?: string }) => error,
  )
  assert.equal(error.code, '23514')
  return error.constraint
}

const line = (changes: object) => ({ items: [{ ...makeOrderItem({ unit_price: EUR(100), quantity: 3, total: EUR(300) }), ...changes }] })

const BROKEN_LINES: Record<string, Partial<Row>> = {
  'a quantity of 0': { ...line({ quantity: 0, total: EUR(0) }), total: 0 },
  'a negative quantity': { ...line({ quantity: -1, total: EUR(-100) }), total: 0 },
  'half a unit': { ...line({ quantity: 0.5, unit_price: EUR(600) }) },
  'more than a unit': { ...line({ quantity: 1.5, unit_price: EUR(200) }) },
  'a quantity as text': line({ quantity: '3' }),
  'a quantity in a list': line({ quantity: [3] }),
  'no quantity': line({ quantity: undefined }),
  'a null quantity': line({ quantity: null }),
  'a negative price': {
    items: [...(RIGHT.items as object[]), { ...makeOrderItem(), unit_price: EUR(-1), quantity: 1, total: EUR(-1) }],
    total: 299,
  },
  'a fractional price': { ...line({ unit_price: EUR(0.5), quantity: 2, total: EUR(1) }), total: 1 },
  'a price as text': line({ unit_price: { amount: '100', currency: 'EUR' } }),
  'a price without an amount': line({ unit_price: { currency: 'EUR' } }),
  'a price that is a number': line({ unit_price: 100 }),
  'a line total that is not quantity times price': { ...line({ total: EUR(299) }), total: 299 },
  'a fractional line total': { ...line({ total: EUR(300.5) }) },
  'a line without a total': line({ total: undefined }),
  'an order total that is too small': { total: 299 },
  'an order total that is too large': { total: 301 },
  'a line price in another currency': line({ unit_price: { amount: 100, currency: 'USD' } }),
  'a line total in another currency': line({ total: { amount: 300, currency: 'USD' } }),
  'another currency of the order': { currency: 'USD' },
  'a line without a product': line({ product_id: undefined }),
  'a line with an empty product': line({ product_id: '' }),
  'a line with a null product': line({ product_id: null }),
  'a line without a sku': line({ sku: undefined }),
  'a line with a null name': line({ name: null }),
  'a line with a number as name': line({ name: 7 }),
  'no lines': { items: [], total: 0 },
  'lines that are an object': { items: {}, total: 0 },
  'lines that are null': { items: 'null', total: 0 },
  'a line that is a list': { items: [[makeOrderItem()]], total: 2_500 },
  'a line that is null': { items: [null, ...(RIGHT.items as object[])] },
  'a currency in small letters': {
    items: [makeOrderItem({ unit_price: { amount: 5, currency: 'eur' }, quantity: 1, total: { amount: 5, currency: 'eur' } })],
    total: 5,
    currency: 'eur',
  },
}

const BROKEN_HISTORIES: Record<string, Partial<Row>> = {
  'no history': { history: [] },
  'a history that is null': { history: null },
  'a history that is an object': { history: { 0: ENTRY } },
  'fewer entries than versions': { version: 2 },
  'more entries than versions': { history: [ENTRY, ENTRY] },
  'another status than the last entry': { status: 'confirmed' },
  'a beginning that is not pending': { status: 'confirmed', history: [{ ...ENTRY, status: 'confirmed' }] },
  'an entry without a status': { version: 3, history: [ENTRY, { at: ENTRY.at }, ENTRY] },
  'an entry without a time': { history: [{ status: 'pending' }] },
  'an entry that is text': { history: ['pending'] },
}

test('stores an order with correct sums and a complete history', async () => {
  await insert()
  const moved = [
    ENTRY,
    { ...ENTRY, status: 'confirmed', reference: 'payment-1' },
    { ...ENTRY, status: 'shipped', tracking: { number: '7' } },
  ]
  await insert({ history: moved, version: 3, status: 'shipped' })
  const many = Array.from({ length: 1_000 }, () =>
    makeOrderItem({ unit_price: EUR(9_007_199_254_740), quantity: 1, total: EUR(9_007_199_254_740) }),
  )
  await insert({ items: many, total: 9_007_199_254_740_000 })
})

for (const [what, changes] of Object.entries(BROKEN_LINES)) {
  test(`stores no order with ${what}, neither new nor changed`, async () => {
    assert.equal(await refusalOf(insert(changes)), 'orders_lines_add_up')
    const { items, total, currency } = { ...RIGHT, ...changes }
    const update = async () =>
      pool.query('update orders set items = $2, total_amount = $3, currency = $4 where id = $1', [
        await insert(),
        typeof items === 'string' ? items : JSON.stringify(items),
        total,
        currency,
      ])
    assert.equal(await refusalOf(update()), 'orders_lines_add_up')
  })
}

for (const [what, changes] of Object.entries(BROKEN_HISTORIES)) {
  test(`stores no order with ${what}, neither new nor changed`, async () => {
    assert.equal(await refusalOf(insert(changes)), 'orders_history_is_whole')
    const { history, version, status } = { ...RIGHT, ...changes }
    const update = async () =>
      pool.query('update orders set status_history = $2, version = $3, status = $4 where id = $1', [
        await insert(),
        JSON.stringify(history),
        version,
        status,
      ])
    assert.equal(await refusalOf(update()), 'orders_history_is_whole')
  })
}

test('stores neither of two orders of one statement when one is broken', async () => {
  const { rows: before } = await pool.query('select count(*)::int as n from orders')
  const items = [RIGHT.items, line({ quantity: 2 }).items].map((item) => JSON.stringify(item))
  const inserting = pool.query(
    `insert into orders (id, user_id, status, items, total_amount, currency, version, status_history, created_at, updated_at)
    select gen_random_uuid(), gen_random_uuid(), 'pending', item::json, 300, 'EUR', 1, $2, now(), now() from unnest($1::text[]) as item`,
    [items, JSON.stringify([ENTRY])],
  )
  assert.equal(await refusalOf(inserting), 'orders_lines_add_up')
  assert.deepEqual((await pool.query('select count(*)::int as n from orders')).rows, before)
})

test('a row that is older than the rules can lose its address and note, and must meet the rules when its lines or status change', async () => {
  const id = await insert()
  const other = await insert()
  await pool.query('alter table orders disable trigger orders_lines_add_up, disable trigger orders_history_is_whole')
  await pool.query(`update orders set items = '{}', status_history = '[]' where id = $1`, [id])
  await pool.query('alter table orders enable trigger orders_lines_add_up, enable trigger orders_history_is_whole')
  await pool.query('update orders set shipping_address = null, note = null, traceparent = null where id = any($1)', [[id, other]])
  assert.equal(await refusalOf(pool.query(`update orders set status = 'confirmed' where id = $1`, [id])), 'orders_history_is_whole')
  assert.equal(await refusalOf(pool.query('update orders set total_amount = 301 where id = $1', [other])), 'orders_lines_add_up')
  await pool.query('update orders set items = $2, status_history = $3 where id = $1', [
    id,
    JSON.stringify(RIGHT.items),
    JSON.stringify([ENTRY]),
  ])
})

test('stores no product with a price below 0 or an invalid currency, and no stock below 0', async () => {
  const add = (amount: unknown, currency: string) =>
    pool.query(
      `insert into products (id, sku, name, category, price_amount, price_currency, in_stock) values (gen_random_uuid(), $1, 'Lamp', 'lamps', $2, $3, true)`,
      [randomUUID(), amount, currency],
    )
  assert.equal(await refusalOf(add(-1, 'EUR')), 'products_price_in_range')
  for (const currency of ['eur', 'EURO', 'EU', '', 'EU1', 'EUR\n', 'ÄÖÜ'])
    assert.equal(await refusalOf(add(1, currency)), 'products_currency_iso')
  await assert.rejects(add(1.5, 'EUR'), { code: '22P02' })
  await add(0, 'EUR')
  const { rows } = await pool.query<{ id: string }>('select id from products limit 1')
  const stock = (available: unknown) =>
    pool.query('insert into inventory (product_id, available) values ($1, $2)', [rows[0]?.id, available])
  assert.equal(await refusalOf(stock(-1)), 'inventory_available_not_negative')
  await assert.rejects(stock(0.5), { code: '22P02' })
  await stock(0)
  assert.equal(await refusalOf(pool.query('update inventory set available = available - 1')), 'inventory_available_not_negative')
})
