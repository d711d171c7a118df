import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Kind, MixedLoad, PhaseResult } from '../bench/overload/mixed-load.ts'
import { startChild } from '../bench/rig/child.ts'
import { addBuyers } from './buyers.ts'
import { eventually } from './eventually.ts'
import { startStore, TEST_SECRET } from './store.ts'
import { serve } from './store-process.ts'

const WORDS = ['lamp', 'chair', 'table', 'shelf', 'vase']
const PRODUCTS = 20_000
const LOAD = { connections: 600, seconds: 6 }

test('an overloaded process refuses searches before lists before orders, each with Retry-After, fails none, and recovers', async (t) => {
  const store = await startStore(t, { baseUrl: 'http://localhost:3000' })
  const buyers = await addBuyers(store, 20)
  const lamp = await store.addProduct({ stock: 1_000_000 })
  await store.pool.query(
    `insert into products (id, sku, name, category, price_amount, price_currency, in_stock)
    select gen_random_uuid(), 'S-' || n, 'A ' || ($2::text[])[1 + n % 5] || ' ' || n, 'many', 1000 + n, 'EUR', true from generate_series(1, $1) as n`,
    [PRODUCTS, WORDS],
  )
  const env = { DATABASE_URL: store.addresses.api, STOREFRONT_SECRET: TEST_SECRET, BASE_URL: 'http://localhost:3000', ROLES: 'api' }
  const own = { OPS_PORT: 'off', DATA_DIR: store.config.dataDir, DATABASE_POOL_SIZE: '4', MAX_PENDING_ORDERS_PER_USER: 'off' }
  const process = await serve(t, { env: { ...env, ...own } })
  const body = JSON.stringify({ items: [{ product_id: lamp.id, quantity: 1 }] })
  const host = (index: number) => `host: localhost\r\nauthorization: Bearer ${buyers[index % buyers.length]?.token}`
  const order = (index: number) =>
    `POST /orders HTTP/1.1\r\n${host(index)}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
  const list = (index: number) => `GET /orders?limit=20 HTTP/1.1\r\n${host(index)}\r\n\r\n`
  const search = (index: number) => `GET /products?q=${WORDS[index % 5]}&min_price=${1_000 + index} HTTP/1.1\r\nhost: localhost\r\n\r\n`
  const many = (name: string, weight: number, make: (index: number) => string): Kind => ({
    name,
    weight,
    requests: Array.from({ length: 2_000 }, (_, index) => make(index)),
  })
  const kinds = [many('orders', 2, order), many('lists', 2, list), many('searches', 2, search)]
  const child = startChild(t, 'overload/mixed-load.ts')
  const load = { port: Number(new URL(process.url).port), connections: LOAD.connections, kinds } satisfies Omit<MixedLoad, 'phases'>
  const [result] = await child.ask<PhaseResult[]>({ ...load, phases: [{ seconds: LOAD.seconds, perSecond: null }] } satisfies MixedLoad)
  const summary = JSON.stringify(result?.kinds)
  const refusedShare = (result?.kinds ?? []).map(({ statuses, offered, withoutRetryAfter }) => {
    const others = Object.keys(statuses).filter((status) => !['200', '201', '503'].includes(status))
    assert.deepEqual([others, withoutRetryAfter], [[], 0], summary)
    return (statuses[503] ?? 0) / offered
  })
  const [orders = 1, lists = 1, searches = 0] = refusedShare
  assert.ok(searches > 0.1, summary)
  assert.ok(searches > lists && lists >= orders, summary)
  await eventually(async () => (await fetch(`${process.url}/products?q=lamp&min_price=7`)).status === 200, {
    what: 'a search is answered again',
  })
})
