import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { eventually } from '../../test/eventually.ts'
import { anOrder, moveOrdersIn, startMoved } from '../../test/move-in-harness.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { encryption } from '../../test/webhook-harness.ts'
import { expireOrders } from '../orders/expire-orders.ts'
import { addEndpoint, removeEndpoint } from '../webhooks/webhook-endpoints.ts'

test('orders keep number, times, lines and history, take no stock, and a second run changes nothing', async (t) => {
  const store = await startMoved(t)
  const lamp = await store.addProduct({ sku: 'LAMP', stock: 5, amount: 9_999 })
  const file = [
    anOrder(1001, {
      number: '#1001',
      lines: [
        { sku: 'LAMP', name: 'An old lamp', category: 'lamps', unit_price: 1_250, quantity: 2 },
        { sku: 'GONE', name: 'Not sold here', unit_price: 1, quantity: 3 },
        { name: 'Without a sku', unit_price: 0, quantity: 1 },
      ],
      total: 2_503,
      note: 'Ring twice',
      shipping_address: { name: 'Ada', line1: 'Street 1', city: 'Ulm', postal_code: '89073', country: 'DE' },
    }),
    anOrder(1002, {
      customer: { email: 'BEN@example.com' },
      currency: 'JPY',
      history: [
        { status: 'pending', at: '2024-01-01T00:00:00Z' },
        { status: 'cancelled', at: '2024-01-02T00:00:00Z', reason: 'not paid' },
      ],
    }),
  ]
  const first = await moveOrdersIn(store, file)
  assert.deepEqual([first.problems, first.outcomes.created, first.isEqual], [[], 2, true])
  assert.deepEqual(first.store.groups, ['EUR delivered', 'JPY cancelled'])
  assert.deepEqual(first.store.of('EUR delivered'), { count: 1, amount: 2_503n })
  assert.deepEqual(await store.readStock(lamp), [5])

  const login = await store.call('POST', '/auth/login', { body: { email: 'ada@example.com', password: 'an old passphrase' } })
  const json = await store.ok('GET', '/orders', { token: login.json.access_token })
  const [order] = json.data
  assert.deepEqual(
    [json.data.length, order.number, order.client_reference, order.status, order.version],
    [1, '1001', '#1001', 'delivered', 4],
  )
  assert.deepEqual([order.created_at, order.updated_at], ['2024-02-29T10:00:00.000Z', '2024-03-03T08:00:00.123Z'])
  assert.deepEqual(
    order.status_history.map(({ status, at, imported }: Record<string, unknown>) => [status, at, imported]),
    [
      ['pending', '2024-02-29T10:00:00.000Z', true],
      ['confirmed', '2024-02-29T10:05:00.000Z', true],
      ['shipped', '2024-03-01T08:00:00.000Z', true],
      ['delivered', '2024-03-03T08:00:00.123Z', true],
    ],
  )
  assert.deepEqual(order.items[0], {
    ...{ product_id: lamp.id, sku: 'LAMP', name: 'An old lamp', category: 'lamps', quantity: 2, shipped: 2 },
    unit_price: { amount: 1_250, currency: 'EUR' },
    total: { amount: 2_500, currency: 'EUR' },
  })
  assert.deepEqual([order.items.length, order.shipping_address.city, order.note], [3, 'Ulm', 'Ring twice'])

  const rowsOf = async () => (await store.pool.query('select id, xmin::text, product_ids from orders order by number')).rows
  const before = await rowsOf()
  const again = await moveOrdersIn(store, file)
  assert.deepEqual([again.outcomes.unchanged, again.outcomes.created, again.isEqual], [2, 0, true])
  assert.deepEqual(await rowsOf(), before)
  const changed = await moveOrdersIn(store, [
    { ...file[0], note: 'Ring once' },
    anOrder(1002, { ...file[1], lines: [{ sku: 'L', name: 'x', unit_price: 2_500, quantity: 1 }] }),
  ])
  assert.deepEqual([changed.outcomes.changed, changed.problems.length], [2, 2])
  assert.deepEqual(await rowsOf(), before)
})

test('refuses invalid orders by line, and the report shows what is missing', async (t) => {
  const store = await startMoved(t)
  const lines: [unknown, RegExp | null][] = [
    [anOrder(1), null],
    [anOrder(2, { customer: { external_id: 'nobody' } }), /no such customer/],
    [anOrder(3, { customer: { email: 'nobody@example.com' } }), /no such customer: .*; a guest is found by external_id only$/],
    [anOrder(1, { external_id: 'other' }), /number 1 was already on line 1/],
    [anOrder(4, { external_id: 'gid-1' }), /external_id was already on line 1/],
    [anOrder(5, { total: 2_501 }), /total is 2501, and lines and adjustments add up to 2500/],
    [anOrder(6, { history: [{ status: 'pending', at: '2999-01-01T00:00:00Z' }] }), /history\.0\.at is in the future/],
    [anOrder(7, { history: [{ status: 'pending', at: '1969-07-20T00:00:00Z' }] }), /history\.0\.at is before 1970/],
    [anOrder(8, { history: [{ status: 'shipped', at: '2024-01-01T00:00:00Z' }] }), /history must begin with pending/],
    [
      anOrder(9, {
        history: [
          { status: 'pending', at: '2024-01-01T00:00:00Z' },
          { status: 'returned', at: '2024-01-01T00:00:00Z' },
        ],
      }),
      /pending cannot become returned/,
    ],
    [
      anOrder(10, {
        history: [
          { status: 'pending', at: '2024-01-02T00:00:00Z' },
          { status: 'confirmed', at: '2024-01-01T00:00:00Z' },
        ],
      }),
      /history\.1\.at is before the change before it/,
    ],
    [
      anOrder(11, { lines: Array.from({ length: 10_001 }, () => ({ sku: 'a', name: 'a', unit_price: 0, quantity: 1 })), total: 0 }),
      /lines|values/,
    ],
    [
      anOrder(12, { lines: Array.from({ length: 1_001 }, () => ({ sku: 'a', name: 'a', unit_price: 0, quantity: 1 })), total: 0 }),
      /lines must not have more than 1000/,
    ],
    [anOrder(13, { lines: [{ sku: 'a', name: 'a', unit_price: -1, quantity: 1 }] }), /lines\.0\.unit_price/],
    [anOrder(14, { lines: [] }), /lines must not have fewer than 1/],
    [anOrder(15, { source_total: '2500' }), /total is 2500 minor units, which are 25\.00 EUR here, and the other shop has 2500/],
    [anOrder(16, { number: 10 ** 15 }), /number/],
    [anOrder(17, { lines: [{ sku: 'a', name: 'a\u0000', unit_price: 2_500, quantity: 1 }] }), /lines\.0\.name must be well-formed/],
    [anOrder(18, { shipping_address: { name: 'Ada' } }), /shipping_address/],
    ['{"number": 19', /not valid JSON/],
    [Buffer.from([0x7b, 0x22, 0xc3, 0x28, 0x22, 0x7d]), /not valid UTF-8/],
    [Buffer.alloc(1_048_577).fill('x'), /longer than 1 MiB/],
    [anOrder(20), null],
  ]
  const result = await moveOrdersIn(
    store,
    lines.map(([line]) => line),
  )
  const expected = lines.flatMap(([, reason], index) => (reason === null ? [] : [[index + 1, reason] as const]))
  for (const [line, reason] of expected)
    assert.match(result.problems.find((text) => text.startsWith(`${line}: `)) ?? `nothing about ${line}`, reason)
  assert.deepEqual([result.outcomes.created, result.outcomes.refused, result.isEqual], [2, expected.length, false])
  assert.deepEqual(result.store.of('EUR delivered'), { count: 2, amount: 5_000n })
  assert.equal(result.source.of('unreadable').count >= 3, true)
  const { rows } = await store.pool.query('select number from orders order by number')
  assert.deepEqual(rows, [{ number: 1 }, { number: 20 }])
})

test('a moved-in open order does not expire, can change its status here, and counts with its imported status', async (t) => {
  const store = await startMoved(t)
  const shipping_address = { name: 'Ada', line1: '1 Street', city: 'Ulm', postal_code: '89073', country: 'DE' }
  const file = [anOrder(1, { history: [{ status: 'pending', at: '2024-01-01T00:00:00Z' }], shipping_address })]
  await moveOrdersIn(store, file)
  assert.equal(await expireOrders(store.pool, 60, new Date()), 0)
  const { rows } = await store.pool.query<{ id: string }>('select id from orders')
  const operator = await registerOperator(store)
  const moved = await operator.ok('POST', `/admin/orders/${rows[0]?.id}/transitions`, { body: { to: 'confirmed' } })
  assert.equal(moved.status_history[1].imported, undefined)
  for (const line1 of ['2 New Street', '3 New Street']) {
    const body = { shipping_address: { ...shipping_address, line1 } }
    await operator.ok('POST', `/admin/orders/${rows[0]?.id}/amendments`, { body })
  }
  const again = await moveOrdersIn(store, file)
  assert.deepEqual([again.outcomes.unchanged, again.isEqual, again.store.groups], [1, true, ['EUR pending']])
})

test('every change becomes an event, in order; only changes made here send mails and webhooks', async (t) => {
  const store = await startMoved(t, { roles: ['api', 'stream', 'email', 'webhook'] })
  const { id: endpointId } = await addEndpoint(store.pool, encryption, {
    url: 'https://shop.example/hooks',
    eventTypes: null,
    isPrivateAllowed: false,
  })
  await store.pool.query(`update webhook_endpoints set created_at = '2020-01-01'`)
  const yesterday = new Date(Date.now() - 86_400_000).toISOString()
  await moveOrdersIn(store, [anOrder(1), anOrder(2, { history: [{ status: 'pending', at: yesterday }] })])
  const events = async () =>
    (await store.pool.query<{ type: string }>(`select event ->> 'type' as type, id from topic_messages order by sequence`)).rows
  await eventually(async () => (await events()).length === 5)
  assert.deepEqual(
    (await events()).map(({ type }) => type.split('.').at(-1)),
    ['created', 'confirmed', 'shipped', 'delivered', 'created'],
  )
  const mails = async () =>
    (await store.pool.query(`select status, count(*) as mails from email_deliveries group by status order by status`)).rows
  await eventually(async () => {
    const { rows } = await store.pool.query(
      `select bool_and(sequence = (select max(sequence) from topic_messages)) as is_done, count(*) as subscribers
      from topic_subscribers where name in ('webhook', 'email')`,
    )
    return isDeepStrictEqual(rows, [{ is_done: true, subscribers: 2 }])
  })
  assert.deepEqual(await mails(), [])
  assert.deepEqual((await store.pool.query('select event_id from webhook_deliveries')).rows, [])
  await removeEndpoint(store.pool, endpointId)
  const { rows } = await store.pool.query<{ id: string }>('select id from orders where number = 2')
  const operator = await registerOperator(store)
  await operator.call('POST', `/admin/orders/${rows[0]?.id}/transitions`, { body: { to: 'confirmed' } })
  await eventually(async () => isDeepStrictEqual(await mails(), [{ status: 'sent', mails: 1 }]))
  const json = await operator.ok('GET', `/admin/orders/${rows[0]?.id}`)
  assert.deepEqual(
    json.timeline.map(({ mail, imported }: { mail: { status: string } | null; imported?: boolean }) => [mail?.status ?? null, imported]),
    [
      [null, true],
      ['sent', undefined],
    ],
  )
  const list = await operator.call('GET', '/admin/mails')
  assert.equal(list.json.data.length, 1)
})
