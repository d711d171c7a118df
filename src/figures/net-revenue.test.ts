import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { addBuyer } from '../../test/buyers.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { startStore } from '../../test/store.ts'
import { rollUpOrders } from './roll-up-orders.ts'

const EUR = (amount: number) => ({ amount, currency: 'EUR' })
const CARD = { provider: 'stripe', reference: 'pi_1' }

async function prepare(t: Parameters<typeof startStore>[0]) {
  const store = await startStore(t)
  const operator = await registerOperator(store)
  const pen = await store.addProduct({ amount: 1_000, currency: 'EUR', stock: null })
  const send = async (method: string, id: string, path: string, body: object) => {
    const answer = await operator.call(method, `/admin/orders/${id}/${path}`, { body })
    assert.equal(answer.status, 200, answer.text)
  }
  return {
    /** Places an order of ten pens at 10.00 and pays it. */
    async place() {
      const buyer = await addBuyer(store)
      const body = { items: [{ product_id: pen.id, quantity: 10 }] }
      const json = await buyer.ok('POST', '/orders', { body })
      await send('PUT', json.id, 'payment', { ...CARD, state: 'paid' })
      return json.id as string
    },
    move: (id: string, to: string) => send('POST', id, 'transitions', { to }),
    part: (id: string, path: 'returns' | 'cancellations', quantity: number) =>
      send('POST', id, path, { lines: [{ product_id: pen.id, quantity }], ...(path === 'returns' ? { restock: false } : {}) }),
    adjust: (id: string, amount: number) =>
      send('POST', id, 'adjustments', { kind: amount < 0 ? 'discount' : 'fee', label: 'Sorry', amount: EUR(amount) }),
    refund: (id: string, amount: number) => send('POST', id, 'refunds', { reference: randomUUID(), amount: EUR(amount) }),
    report: (id: string, state: string, reference = CARD.reference) => send('PUT', id, 'payment', { ...CARD, reference, state }),
    async totals() {
      await rollUpOrders(store.pool)
      const { totals, sales } = await operator.ok('GET', '/admin/figures?range=hour')
      const cancelled = sales[0].cancelled.reduce((sum: number, count: number) => sum + count, 0)
      assert.equal(totals.cancelled, cancelled)
      return {
        orders: totals.orders,
        cancelled,
        returned: totals.returned,
        revenue: totals.revenue[0].amount,
        net: totals.net_revenue[0].amount,
      }
    },
  }
}

test('net revenue is the value of orders after returns, discounts, cancelled units and refunds', async (t) => {
  const { place, move, part, adjust, refund, totals } = await prepare(t)
  const [sentBack, cheaper, shorter, refunded] = [await place(), await place(), await place(), await place()]
  assert.deepEqual(await totals(), { orders: 4, cancelled: 0, returned: 0, revenue: 40_000, net: 40_000 })
  for (const id of [sentBack, shorter]) await move(id, 'confirmed')
  await move(sentBack, 'shipped')
  await part(sentBack, 'returns', 9)
  await adjust(cheaper, -9_000)
  await part(shorter, 'cancellations', 9)
  await refund(refunded, 10_000)
  assert.deepEqual(await totals(), { orders: 4, cancelled: 0, returned: 0, revenue: 40_000, net: 3_000 })
  await move(sentBack, 'returned')
  await move(cheaper, 'cancelled')
  assert.deepEqual(await totals(), { orders: 4, cancelled: 1, returned: 1, revenue: 40_000, net: 1_000 })
})

test('subtracts a refund of an owed amount once, whether the refund or the reduction comes first', async (t) => {
  const { place, move, part, adjust, refund, report, totals } = await prepare(t)
  const orders = { first: await place(), last: await place(), returned: await place(), goodwill: await place(), reported: await place() }
  await adjust(orders.first, -9_000)
  await refund(orders.first, 9_000)
  await refund(orders.last, 9_000)
  await adjust(orders.last, -9_000)
  for (const to of ['confirmed', 'shipped']) await move(orders.returned, to)
  await part(orders.returned, 'returns', 9)
  await refund(orders.returned, 9_000)
  await refund(orders.goodwill, 500)
  await report(orders.reported, 'refunded')
  assert.equal((await totals()).net, 1_000 + 1_000 + 1_000 + 9_500 + 0)
})

test('a returned unit of a discounted order is worth its discounted price', async (t) => {
  const { place, move, part, adjust, refund, totals } = await prepare(t)
  const [refunded, kept, dearer] = [await place(), await place(), await place()]
  for (const id of [refunded, kept]) await adjust(id, -5_000)
  await adjust(dearer, 500)
  for (const id of [refunded, kept, dearer]) {
    for (const to of ['confirmed', 'shipped']) await move(id, to)
    await part(id, 'returns', 5)
  }
  await refund(refunded, 2_500)
  assert.equal((await totals()).net, 2_500 + 2_500 + 5_500)
})

test('after a full refund another payment counts, and a mere attempt does not', async (t) => {
  const { place, refund, report, totals } = await prepare(t)
  const [byShop, byProvider] = [await place(), await place()]
  await refund(byShop, 10_000)
  await report(byProvider, 'refunded')
  const both = async (state: string, reference: string) => {
    for (const id of [byShop, byProvider]) await report(id, state, reference)
    return (await totals()).net
  }
  assert.equal(await both('pending', 'pi_2'), 0)
  assert.equal(await both('failed', 'pi_2'), 0)
  assert.equal(await both('authorized', 'pi_3'), 20_000)
  assert.equal(await both('paid', 'pi_3'), 20_000)
  assert.equal(await both('failed', 'pi_4'), 20_000)
  await refund(byShop, 4_000)
  assert.equal((await totals()).net, 16_000)
  assert.equal(await both('refunded', 'pi_3'), 0)
  assert.equal(await both('failed', 'pi_5'), 0)
})
