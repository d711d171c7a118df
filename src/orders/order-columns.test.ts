import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Type } from 'typebox'
import { eventually } from '../../test/eventually.ts'
import { placeOrder } from '../../test/guests.ts'
import { makeOrderEvent, makeOrderItem } from '../../test/order-event-factory.ts'
import { startStore, type TestStore } from '../../test/store.ts'
import { toLakeRow } from '../lake/lake-row.ts'
import { erasureOf, recordList, selectList } from './order-column-sql.ts'
import { GIVEN_EXAMPLES, type GivenColumn, ORDER_COLUMNS, type OrderColumn } from './order-columns.ts'

const GIFT_MESSAGE: GivenColumn = {
  ...{ type: 'text', isPersonal: true, input: Type.String(), example: 'From Grace' },
  shown: Type.Optional(Type.Union([Type.String(), Type.Null()])),
}

test('a column that is added to the table is read, imported and, when it is personal, erased', () => {
  const copy = { ...ORDER_COLUMNS, gift_message: GIFT_MESSAGE }
  const without = (texts: readonly string[]) => texts.map((text) => text.replace('gift_message', ''))
  const places = [selectList(undefined, copy), recordList(copy), erasureOf(copy).set, erasureOf(copy).isErased].map(({ text }) => text)
  assert.ok(
    places.every((text) => text.includes('"gift_message"')),
    places.join('\n'),
  )
  const kept = erasureOf({ ...copy, gift_message: { ...GIFT_MESSAGE, isPersonal: false } })
  assert.deepEqual(without([kept.set.text, kept.isErased.text]), [erasureOf().set.text, erasureOf().isErased.text])
})

test('each column that a request gives is in the row, answer, event and export of its order', async (t) => {
  const store = await startStore(t, { roles: ['api', 'stream'] })
  const { token } = await store.register()
  const { json: order } = await placeOrder(store, token, await store.addProduct(), GIVEN_EXAMPLES)
  const names = Object.keys(GIVEN_EXAMPLES)
  const pick = (source: Record<string, unknown>) => Object.fromEntries(names.map((name) => [name, source[name]]))
  const { rows } = await store.pool.query('select * from orders where id = $1', [order.id])
  assert.deepEqual(pick(rows[0]), GIVEN_EXAMPLES, 'the row: src/orders/sql/place-orders.sql names each column in its lists')
  const read = await store.call('GET', `/orders/${order.id}`, { token })
  assert.deepEqual(pick(read.json), GIVEN_EXAMPLES, 'the answer')
  assert.deepEqual(pick(await publishedOrder(store, order.id)), GIVEN_EXAMPLES, 'the event')
  const exported = await store.call('GET', '/me/export', { token })
  assert.equal(exported.status, 200, exported.text)
  assert.deepEqual(pick(exported.json.orders[0]), GIVEN_EXAMPLES, 'the export of the account')
})

test('the country is the only part of a personal column in the lake', () => {
  const isPersonal = ([, column]: [string, OrderColumn]) => column.isPersonal
  const names = Object.entries(ORDER_COLUMNS)
    .filter(isPersonal)
    .map(([name]) => name)
  const marked = Object.fromEntries(names.map((name) => [name, name.endsWith('_address') ? { name: 'Grace', country: 'GB' } : 'Grace']))
  const items = [makeOrderItem({ attributes: { engraving: 'Grace' } })]
  const row = toLakeRow({ sequence: 1, event: makeOrderEvent({ order: { ...marked, items } }) }, '2026-03-01T10:00:00.000Z')
  assert.deepEqual([row.shipping_country, row.billing_country], ['GB', 'GB'])
  assert.doesNotMatch(JSON.stringify(row), /Grace/)
})

test('erasing an order empties each column in its events that is empty in its row, even a column of a later release', async (t) => {
  const store = await startStore(t, { roles: ['api', 'stream'] })
  const { token } = await store.register()
  const { json: order } = await placeOrder(store, token, await store.addProduct(), GIVEN_EXAMPLES)
  await publishedOrder(store, order.id)
  await store.pool.query('alter table orders add column gift_message text')
  await store.pool.query(
    `update topic_messages set event = jsonb_set(event::jsonb, '{data,order,gift_message}', '"From Grace"')::json where event ->> 'subject' = $1`,
    [order.id],
  )
  await store.pool.query('update orders set note = null where id = $1', [order.id])
  await store.pool.query('select erase_addresses_in_topic($1)', [[order.id]])
  const { gift_message, note, shipping_address, items } = await publishedOrder(store, order.id)
  assert.deepEqual([gift_message, note, shipping_address, items.length], [null, null, GIVEN_EXAMPLES.shipping_address, 1])
})

/** The order in its only event of the topic. */
async function publishedOrder({ pool }: TestStore, id: string) {
  const select = `select event -> 'data' -> 'order' as content from topic_messages where event ->> 'subject' = $1`
  await eventually(async () => (await pool.query(select, [id])).rowCount === 1, { what: 'the event of the order' })
  return (await pool.query(select, [id])).rows[0]?.content
}
