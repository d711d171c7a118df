import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import fastify from 'fastify'
import { openSocket } from '../../../test/raw-http.ts'
import { startStore } from '../../../test/store.ts'
import type { Version } from '../catalogue-version.ts'
import type { CatalogueContext } from '../serve-catalogue.ts'
import { OpenFeeds } from './open-feeds.ts'
import { type Feed, serveFeed } from './serve-feed.ts'

const FEED: Feed = { contentType: 'text/plain', key: 'test', lang: undefined, head: '', render: ({ sku }) => sku, end: '' }

test('a client that disconnects before its feed begins takes no place', async (t) => {
  const openFeeds = new OpenFeeds({ maxOpen: 1, maxOfNetwork: 1, patienceMs: 60_000 })
  const [isAsked, isAnswered] = [Promise.withResolvers<void>(), Promise.withResolvers<Version>()]
  const version = {
    get() {
      isAsked.resolve()
      return isAnswered.promise
    },
  }
  // The other members are unused, because nothing is read.
  const context = { version, openFeeds, lifetimes: { browserSeconds: 1, sharedSeconds: 1 } } as unknown as CatalogueContext
  const server = fastify()
  t.after(() => server.close())
  const isServed = Promise.withResolvers<void>()
  server.get('/feed', (request, reply) => serveFeed(context, request, reply, FEED).finally(isServed.resolve))
  const isClosed = new Promise((resolve) => {
    server.server.on('request', (_request, response) => response.once('close', resolve))
  })
  const { port } = new URL(await server.listen({ host: '127.0.0.1', port: 0 }))
  const socket = connect(Number(port), '127.0.0.1')
  socket.on('error', () => {})
  socket.write('GET /feed HTTP/1.1\r\nhost: localhost\r\n\r\n')
  await isAsked.promise
  socket.destroy()
  await isClosed
  isAnswered.resolve({ changes: 1, changedAt: new Date(), languages: [] })
  await isServed.promise
  assert.equal(openFeeds.size, 0)
})

test('an interrupted feed ends with a connection reset, so no client takes it for complete', async (t) => {
  const store = await startStore(t)
  await store.pool.query(
    `insert into products (id, sku, name, description, category, price_amount, price_currency, in_stock)
    select gen_random_uuid(), 'P' || place, 'Lamp', repeat('€', 10000), 'lamps', 5, 'EUR', true from generate_series(1, 1000) as place`,
  )
  const socket = await openSocket(store)
  t.after(() => socket.destroy())
  const failed = new Promise<NodeJS.ErrnoException>((resolve) => socket.once('error', resolve))
  let hasEnded = false
  socket.once('end', () => {
    hasEnded = true
  })
  socket.write('GET /feeds/products.ndjson HTTP/1.0\r\nhost: localhost\r\n\r\n')
  await once(socket, 'readable')
  await store.pool.query('alter table product_pages rename to product_pages_gone')
  socket.resume()
  assert.equal((await failed).code, 'ECONNRESET')
  assert.equal(hasEnded, false)
})
