import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AppError } from '../../errors.ts'
import { OpenFeeds } from './open-feeds.ts'

async function* parts(): AsyncGenerator<string> {
  yield 'one'
  yield 'two'
}

const isLimited = (error: unknown) => error instanceof AppError && error.code === 'rate_limited'
const isOverloaded = (error: unknown) => error instanceof AppError && error.code === 'overloaded'

let lastClient = 0
/** The network of another client. */
const client = () => `192.0.2.${++lastClient}`

test('refuses a feed beyond the limit while all clients are reading', () => {
  const feeds = new OpenFeeds({ maxOpen: 2, maxOfNetwork: 4, patienceMs: 60_000 })
  const first = feeds.open(client(), () => assert.fail())
  feeds.open(client(), () => assert.fail())
  assert.throws(() => feeds.open(client(), () => assert.fail()), isOverloaded)
  feeds.close(first)
  feeds.close(first)
  feeds.open(client(), () => assert.fail())
  assert.equal(feeds.size, 2)
})

test('disconnects the client that has waited longest', async (t) => {
  let now = 0
  t.mock.method(performance, 'now', () => now)
  const feeds = new OpenFeeds({ maxOpen: 2, maxOfNetwork: 4, patienceMs: 60_000 })
  const cut: string[] = []
  for (const name of ['fast', 'slow']) {
    const feed = feeds.open(client(), () => cut.push(name))
    const paced = feeds.pace(feed, parts())
    t.after(() => paced.return(undefined))
    now += 10
    await paced.next()
    if (name === 'fast') {
      now += 500
      await paced.next()
      now -= 400
    }
  }
  // Both have waited for a short time.
  now = 600
  assert.throws(() => feeds.open(client(), () => {}), isOverloaded)
  now = 5_000
  feeds.open(client(), () => {})
  assert.deepEqual(cut, ['slow'])
})

test('disconnects a client that takes nothing', async () => {
  const feeds = new OpenFeeds({ maxOpen: 1, maxOfNetwork: 4, patienceMs: 20 })
  const { promise, resolve } = Promise.withResolvers<void>()
  const feed = feeds.open(client(), resolve)
  const paced = feeds.pace(feed, parts())
  assert.deepEqual(await paced.next(), { value: 'one', done: false })
  await promise
  await paced.return(undefined)
})

test('refuses a feed beyond the limit of a network, and does not touch the feeds of others', () => {
  const feeds = new OpenFeeds({ maxOpen: 3, maxOfNetwork: 2, patienceMs: 60_000 })
  const [one, other] = [client(), client()]
  const first = feeds.open(one, () => assert.fail())
  feeds.open(one, () => assert.fail())
  assert.throws(() => feeds.open(one, () => {}), isLimited)
  feeds.open(other, () => assert.fail())
  // Its own feeds remain the reason, even while all places are taken.
  assert.throws(() => feeds.open(one, () => {}), isLimited)
  assert.throws(() => feeds.open(other, () => {}), isOverloaded)
  feeds.close(first)
  feeds.open(one, () => assert.fail())
})
