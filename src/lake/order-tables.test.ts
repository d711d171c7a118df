import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertFresh } from '../../test/derived-tables.ts'
import { readWithIcebird } from '../../test/iceberg-reader.ts'
import { NEVER, startSinkOn } from '../../test/lake-harness.ts'
import { makeLocalLake } from '../../test/lake-stores.ts'
import { makeOrderEvent } from '../../test/order-event-factory.ts'
import type { OrderChange } from '../orders/order-changes.ts'
import { writeDerivedTables } from './iceberg/write-derived-tables.ts'
import { queryLake } from './lake-query.ts'

const actor = { type: 'admin', id: null } as const
const day = (number: number) => `2026-03-0${number}T10:00:00.000Z`

/** An order whose history has an entry for each change, on a day of its own. */
function amend(changes: readonly OrderChange[], version = changes.length + 1) {
  const history = changes.slice(0, version - 1).map((change, index) => ({
    ...{ status: 'confirmed' as const, at: day(index + 2), actor, reason: null, change },
    ...(change.type === 'shipped' ? { tracking: { carrier: 'DHL', number: `P${index}` }, reference: `parcel ${index}` } : {}),
  }))
  const id = '019d0000-0000-7000-8000-000000000001'
  return (members: object = {}) =>
    makeOrderEvent({
      type: 'storefront.order.updated',
      order: {
        ...{ id, user_id: id, number: 'SF-1', version, status: 'confirmed', created_at: day(1), updated_at: day(version) },
        original_total: { amount: 2_500, currency: 'EUR' },
        status_history: [{ status: 'pending', at: day(1), actor, reason: null }, ...history],
        ...members,
      },
    })
}

const payment = (state: 'paid' | 'partially_refunded' | 'refunded', reference = 'pay-1') =>
  ({ type: 'payment', provider: 'stripe', reference, state }) as const

test("adjustments, payments, refunds, parcels and customers have the rows of each order's newest state", async (t) => {
  const lake = await makeLocalLake(t)
  const { store } = lake
  const sink = await startSinkOn(t, store)
  const fee = { type: 'adjusted', kind: 'fee', label: 'Gift wrap \ud800', amount: 300 } as const
  const steps = [fee, payment('paid'), payment('refunded'), payment('paid', 'pay-2'), payment('partially_refunded', 'pay-2')] as const
  const adjustments = [{ version: 2, kind: 'fee', label: fee.label, amount: { amount: 300, currency: 'EUR' }, made_at: day(2) }]
  const parcel = { version: 7, shipped_at: day(7), reference: 'parcel 5', tracking: { carrier: 'DHL', number: 'P5' }, lines: [] }
  const lines = [{ product_id: '019d0000-0000-7000-8000-000000000002', quantity: 2 }]
  const shipped = { type: 'shipped', lines } as const
  await sink.handle([{ sequence: 1, event: amend(steps)({ adjustments }) }], NEVER)
  await sink.flush()
  await writeDerivedTables(store)
  const select = async (sql: string) => (await queryLake(store, sql)).rows.map(String)
  assert.deepEqual(await select('select order_number, version, kind, label, amount from adjustments'), ['SF-1,2,fee,Gift wrap \ufffd,300'])
  const whole = makeOrderEvent({
    order: {
      ...{ number: 'SF-2', version: 2, status: 'shipped', updated_at: day(2) },
      status_history: [
        { status: 'pending', at: day(1), actor, reason: null },
        { status: 'shipped', at: day(2), actor, reason: null, tracking: { carrier: 'UPS', number: 'Z1', url: 'https://ups.example/Z1' } },
      ],
    },
  })
  await sink.handle(
    [
      { sequence: 2, event: amend([...steps, shipped])({ parcels: [{ ...parcel, lines }] }) },
      { sequence: 3, event: whole },
    ],
    NEVER,
  )
  await sink.flush()
  assert.deepEqual(await select('select order_number from adjustments'), [], 'the fee was voided')
  await writeDerivedTables(store)
  await assertFresh(store)
  assert.deepEqual(await select('select payment_reference, payment_state, total_amount from payments order by 1'), [
    'pay-1,refunded,2500',
    'pay-2,partially_refunded,2500',
  ])
  assert.deepEqual(await select('select payment_reference, amount, refunded_at::date from refunds order by 1'), [
    'pay-1,2800,2026-03-04',
    'pay-2,,2026-03-06',
  ])
  assert.deepEqual(await select('select order_number, carrier, tracking_number, tracking_url, reference, units from parcels order by 1'), [
    'SF-1,DHL,P5,,parcel 5,2',
    'SF-2,UPS,Z1,https://ups.example/Z1,,2',
  ])
  assert.deepEqual(await select('select first_country, order_count, cancelled_count from customers'), ['GB,1,0', 'GB,1,0'])
  for (const [table, rows] of [
    ['refunds', 2],
    ['parcels', 2],
    ['customers', 2],
  ] as const)
    assert.equal((await readWithIcebird(lake, table)).length, rows, table)
})

test('a customer has one row, even if the orders are from several months', async (t) => {
  const { store } = await makeLocalLake(t)
  const sink = await startSinkOn(t, store)
  const user_id = '019d0000-0000-7000-8000-000000000009'
  for (const [index, month] of [3, 1, 2].entries()) {
    const event = makeOrderEvent({ at: new Date(Date.UTC(2026, month)), order: { user_id } })
    await sink.handle([{ sequence: index + 1, event }], NEVER)
    await sink.flush()
    await writeDerivedTables(store)
    await assertFresh(store)
  }
  const { rows } = await queryLake(store, 'select user_id, first_order_at::date, last_order_at::date, order_count from customers')
  assert.deepEqual(rows.map(String), [`${user_id},2026-02-01,2026-04-01,3`])
})
