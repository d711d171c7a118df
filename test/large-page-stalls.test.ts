import assert from 'node:assert/strict'
import { test } from 'node:test'
import { addBuyer } from './buyers.ts'
import { addProductsForLargeOrders, placeLargeOrder } from './large-orders.ts'
import { StallMeter } from './stalls/measure-stall.ts'
import { startStore } from './store.ts'

const MAX_STALL_MS = 50
const ORDERS = 30
const ATTEMPTS = 5

test('a page of a hundred of the largest orders does not hold up the event loop for 50 ms', async (t) => {
  const store = await startStore(t)
  const products = await addProductsForLargeOrders(store)
  const [customer, operator] = await Promise.all([addBuyer(store), addBuyer(store, 'admin')])
  for (let order = 0; order < ORDERS; order++) await placeLargeOrder(store, customer.token, products, products.length)
  const { port } = store
  const meter = new StallMeter(t)
  for (const [path, token] of [
    ['/orders?limit=100', customer.token],
    ['/admin/orders?limit=100', operator.token],
  ]) {
    const head = `GET ${path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer ${token}\r\n\r\n`
    let shortestMs = Number.POSITIVE_INFINITY
    // The first compiles what the others run, and a garbage collection can fall into any.
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const { status, stallMs } = await meter.measure({ port, bytes: new Uint8Array(Buffer.from(head)) })
      assert.equal(status, 200)
      shortestMs = Math.min(shortestMs, stallMs)
    }
    t.diagnostic(`${path}: ${shortestMs.toFixed(1)} ms`)
    assert.ok(shortestMs < MAX_STALL_MS, `${path} is held up ${Math.round(shortestMs)} ms`)
  }
})
