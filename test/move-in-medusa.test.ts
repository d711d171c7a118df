import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { readCustomer } from '../src/move-in/customer-line.ts'
import { readOrder } from '../src/move-in/order-line.ts'
import { MEDUSA_CUSTOMERS as CUSTOMERS, MEDUSA_ORDER as ORDER } from './medusa-export.ts'
import { makeTestFolder } from './test-folder.ts'

const SCRYPT =
  'c2NyeXB0AA8AAAAIAAAAAdHl1ED4ys2zR+09ZN4xBtZXVeQbjyuX8TDXCfGvZZCCtekD3rHmIW/wPK0MuOcTNKOhISmju5QShuxXFrjksBUkdiwFXl0RlK7DEdCBJeTN'
const now = new Date()

test('the exports of Medusa become lines that the import accepts', (t) => {
  const folder = makeTestFolder(t, 'storefront-medusa-')
  const write = (name: string, text: string) => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  const convert = (...args: string[]): unknown[] => {
    const script = fileURLToPath(new URL('../bin/storefront.mjs', import.meta.url))
    const text = execFileSync(process.execPath, [script, 'convert', 'medusa', ...args], { encoding: 'utf8' })
    return text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
  }
  const hashes = write('hashes.jsonl', `${JSON.stringify({ email: 'ada@example.com', password: SCRYPT })}\n`)
  const customers = convert('customers', write('customers.json', JSON.stringify(CUSTOMERS, null, 2)), '--passwords', hashes).map((line) =>
    readCustomer(line, now, false),
  )
  assert.deepEqual(
    customers.map(({ externalId, email, name, passwordHash, isGuest }) => [externalId, email, name, passwordHash, isGuest]),
    [
      ['cus_01', 'ada@example.com', 'Ada King', SCRYPT, false],
      ['cus_02', 'guest@example.com', null, null, true],
    ],
  )
  const inclusive = { ...ORDER, id: 'order_02', display_id: 18, items: [{ ...ORDER.items[0], is_tax_inclusive: true }], total: 29.42 }
  const canceled = {
    ...ORDER,
    id: 'order_03',
    display_id: 19,
    status: 'canceled',
    canceled_at: '2025-02-01T12:00:00.000Z',
    fulfillment_status: 'not_fulfilled',
  }
  const file = write('orders.json', `${JSON.stringify({ orders: [ORDER, inclusive] })}\n${JSON.stringify({ orders: [canceled] })}\n`)
  const orders = convert('orders', file).map((line) => readOrder(line, now))
  assert.deepEqual(
    orders.map(({ number, currency, total, history }) => [number, currency, total, history.map(({ status }) => status).join(' ')]),
    [
      [17, 'EUR', 3_315, 'pending confirmed shipped delivered'],
      [18, 'EUR', 2_942, 'pending confirmed shipped delivered'],
      [19, 'EUR', 3_315, 'pending cancelled'],
    ],
  )
  const [first] = orders
  assert.deepEqual(first?.lines, [{ sku: 'SHIRT-S', name: 'Shirt, S', unit_price: 1_010, quantity: 2 }])
  assert.deepEqual(first?.adjustments, [
    { kind: 'shipping', label: 'Standard', amount: 1_000 },
    { kind: 'tax', label: 'tax', amount: 530 },
    { kind: 'discount', label: 'discount', amount: -235 },
  ])
  assert.deepEqual(
    [first?.history[2]?.at, first?.history[2]?.tracking?.number, first?.shippingAddress?.country],
    ['2025-02-03T10:00:00.000Z', '0034', 'DE'],
  )
})
