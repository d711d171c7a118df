import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { exchange, openSocket } from '../../../test/raw-http.ts'
import { startStore } from '../../../test/store.ts'

const PRODUCTS = 2_000
const CLIENTS = 100
const store = await startStore({ after }, { trustProxy: 1, isNetworkLimited: true })
await store.pool.query(
  `insert into products (id, sku, name, description, category, price_amount, price_currency, in_stock)
  select gen_random_uuid(), 'P' || place, 'Lamp', repeat('a', 1000), 'lamps', 5, 'EUR', true from generate_series(1, $1) as place`,
  [PRODUCTS],
)
const FEEDS_OF_NETWORK = 4
const readFeed = (client: string) =>
  `GET /feeds/products.ndjson HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-forwarded-for: ${client}\r\n\r\n`

test("a hundred clients of one network delay another network's feed only by the four feeds that they may have at once", {
  timeout: 120_000,
}, async (t) => {
  let [greedyBytes, isOver] = [0, false]
  const hasBegun = Promise.withResolvers<void>()
  const readOn = async () => {
    while (!isOver) {
      const socket = await openSocket(store)
      socket.write(readFeed('198.51.100.1'))
      for await (const bytes of socket) {
        greedyBytes += bytes.length
        // Refusals alone would be fewer bytes.
        if (greedyBytes > 1_000_000) hasBegun.resolve()
        if (isOver) break
      }
      socket.destroy()
    }
  }
  const greedy = Promise.all(Array.from({ length: CLIENTS }, readOn))
  t.after(async () => {
    isOver = true
    await greedy
  })
  await hasBegun.promise
  greedyBytes = 0
  const answer = await exchange(store, readFeed('192.0.2.1'))
  assert.equal(answer.split('"sku":').length - 1, PRODUCTS)
  const times = greedyBytes / answer.length
  assert.ok(times < FEEDS_OF_NETWORK + 1, `${times} times its bytes were sent to the other network meanwhile`)
})
