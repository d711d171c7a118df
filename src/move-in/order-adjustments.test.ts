import assert from 'node:assert/strict'
import { test } from 'node:test'
import { anOrder, moveOrdersIn, startMoved } from '../../test/move-in-harness.ts'
import { registerOperator } from '../../test/register-operator.ts'

test('refuses charges that make a version of the order too expensive, and labels of several lines', async (t) => {
  const store = await startMoved(t)
  const most = Number.MAX_SAFE_INTEGER
  const beyond = [
    { kind: 'fee', label: 'a', amount: most },
    { kind: 'discount', label: 'b', amount: -most },
  ]
  const twoLines = [{ kind: 'fee', label: 'a\r\nBcc: eve@example.com', amount: 20 }]
  const result = await moveOrdersIn(store, [
    anOrder(1, { adjustments: beyond, total: 2_500 }),
    anOrder(2, { adjustments: twoLines, total: 2_520 }),
  ])
  assert.deepEqual([result.outcomes.created, result.problems.length], [0, 2])
  assert.match(result.problems[0] ?? '', /more than an order can cost/)
  assert.match(result.problems[1] ?? '', /adjustments.0.label/)
})

test('refuses a positive discount and any other negative charge, like the API', async (t) => {
  const store = await startMoved(t)
  const of = (...amounts: [string, number][]) => amounts.map(([kind, amount]) => ({ kind, label: 'x', amount }))
  const wrong = [of(['fee', 0], ['discount', 5]), of(['discount', -5], ['shipping', -5]), of(['tax', -5]), of(['fee', -5], ['tax', 5])]
  const result = await moveOrdersIn(store, [
    ...wrong.map((adjustments, index) =>
      anOrder(index + 1, { adjustments, total: adjustments.reduce((sum, { amount }) => sum + amount, 2_500) }),
    ),
    anOrder(9, { adjustments: of(['discount', -5], ['shipping', 5], ['discount', 0], ['tax', 0]) }),
  ])
  assert.deepEqual(result.problems, [
    '1: adjustments.1.amount: a discount is below 0',
    '2: adjustments.1.amount: only a discount is below 0',
    '3: adjustments.0.amount: only a discount is below 0',
    '4: adjustments.0.amount: only a discount is below 0',
  ])
  assert.equal(result.outcomes.created, 1)
})

test('shipping, tax, fee and discount are charged besides the lines, and are part of the total', async (t) => {
  const store = await startMoved(t)
  const adjustments = [
    { kind: 'discount', label: 'SUMMER', amount: -2_600 },
    { kind: 'shipping', label: 'DHL', amount: 490 },
    { kind: 'tax', label: 'VAT 19 %', amount: 90 },
    { kind: 'fee', label: 'none', amount: 0 },
  ]
  const result = await moveOrdersIn(store, [anOrder(1, { adjustments, total: 480 }), anOrder(2, { adjustments, total: 2_500 })])
  assert.deepEqual(result.problems, ['2: total is 2500, and lines and adjustments add up to 480 (minor units of EUR)'])
  assert.deepEqual(result.store.of('EUR delivered'), { count: 1, amount: 480n })
  const operator = await registerOperator(store)
  const { rows } = await store.pool.query<{ id: string }>('select id from orders')
  const json = await operator.ok('GET', `/admin/orders/${rows[0]?.id}`)
  assert.deepEqual([json.total, json.version, json.status], [{ amount: 480, currency: 'EUR' }, 7, 'delivered'])
  assert.deepEqual(
    json.status_history.map(({ status, change }: { status: string; change?: { amount: number } }) => [status, change?.amount]),
    [
      ['pending', undefined],
      ['pending', 490],
      ['pending', 90],
      ['pending', -2_600],
      ['confirmed', undefined],
      ['shipped', undefined],
      ['delivered', undefined],
    ],
  )
})
