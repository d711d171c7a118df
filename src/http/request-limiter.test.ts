import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, type TestContext, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { onCleanup } from '../../test/cleanup.ts'
import { findWaiting } from '../../test/database.ts'
import { eventually } from '../../test/eventually.ts'
import { assertProblem } from '../../test/problem.ts'
import { type Answer, startStore } from '../../test/store.ts'
import { RequestLimiter, type RequestLimits } from './request-limiter.ts'

// Four connections are for placing orders. Of the other six, three are for catalogue pages and two for searches.
const store = await startStore({ after }, { databasePoolSize: 10 })
const SEARCH_PLACES = 2
const PAGE_PLACES = 3
const product = await store.addProduct({ name: 'Oak table', stock: 1_000 })
const ada = await store.register()

/**
 * Starts `work` while the lock is held and `places` reads wait for it. Adds reads until they are seen waiting, because
 * on a slow machine the first may have timed out. All reads must be refused.
 */
async function withPlacesHeld(
  t: TestContext,
  held: { lock: string; places: number; read: () => Promise<Answer> },
  work: () => Promise<void>,
) {
  const holder = await store.pool.connect()
  onCleanup(t, () => holder.release())
  await holder.query(held.lock)
  const reads = Array.from({ length: 20 }, held.read)
  const countWaiting = async () => {
    const { length } = await findWaiting(store.pool, holder)
    assert.ok(length <= held.places, `${length} reads have a connection`)
    return length
  }
  try {
    await eventually(async () => {
      reads.push(held.read())
      return (await countWaiting()) === held.places
    })
    await work()
    await countWaiting()
    for (const answer of await Promise.all(reads)) {
      // Requests with a place wait for the lock, and the others wait for a place.
      assertProblem(answer, 503, answer.json.code === 'overloaded' ? 'overloaded' : 'unavailable')
      assert.match(answer.headers['retry-after'] ?? '', /^\d+$/)
    }
  } finally {
    await holder.query('rollback')
  }
}

// No product contains the word, so the search looks for similar words.
const search = () => store.call('GET', `/products?q=zz${randomUUID().slice(0, 8)}`)

test('answers orders, logins, readiness and product pages while searches have all their places and others wait', async (t) => {
  const lock = 'begin; lock table search_words in access exclusive mode'
  await withPlacesHeld(t, { lock, places: SEARCH_PLACES, read: search }, async () => {
    const answers = await Promise.all([
      ada.call('POST', '/orders', { body: { items: [{ product_id: product.id, quantity: 1 }] } }),
      ada.call('GET', '/orders'),
      store.call('POST', '/auth/login', { body: { email: ada.email, password: ada.password } }),
      store.call('GET', '/readyz'),
      store.call('GET', `/products/${product.id}`),
      store.call('GET', '/products?sort=name'),
    ])
    assert.deepEqual(
      answers.map(({ status }) => status),
      [201, 200, 200, 200, 200, 200],
      answers.map(({ text }) => text).join(),
    )
  })
  assert.equal((await search()).status, 200)
})

test('lists by attributes share the number of places with searches', async (t) => {
  const lock = 'begin; lock table products in access exclusive mode'
  const read = () => store.call('GET', `/products?attr=weight_g%3E%3D${Math.floor(Math.random() * 1e9)}`)
  await withPlacesHeld(t, { lock, places: SEARCH_PLACES, read }, async () => {})
})

test('answers logins and readiness while catalogue reads have all their places', async (t) => {
  const lock = 'begin; lock table products in access exclusive mode'
  const read = () => store.call('GET', `/products/${randomUUID()}`)
  await withPlacesHeld(t, { lock, places: PAGE_PLACES, read }, async () => {
    const login = await store.call('POST', '/auth/login', { body: { email: ada.email, password: ada.password } })
    assert.deepEqual([login.status, (await store.call('GET', '/readyz')).status], [200, 200])
  })
  assertProblem(await read(), 404, 'not_found')
})

test('refuses a read at once when the queue is full', async () => {
  const limiter = new RequestLimiter({ loadClass: 'search', places: 1, maxWaiting: 1, waitMs: 60_000 })
  const held = Promise.withResolvers<void>()
  const reads = [limiter.admit([], () => held.promise), limiter.admit([], () => held.promise)]
  await assert.rejects(
    limiter.admit([], async () => assert.fail('must not run')),
    { code: 'overloaded' },
  )
  held.resolve()
  await Promise.all(reads)
})

test('admits the longest-waiting read, even after another has failed or timed out', async () => {
  const limiter = new RequestLimiter({ loadClass: 'search', places: 1, maxWaiting: 3, waitMs: 60_000 })
  const ends = [1, 2, 3].map(() => Promise.withResolvers<string>())
  const begun: number[] = []
  const reads = ends.map(({ promise }, i) =>
    limiter.admit([], () => {
      begun.push(i)
      return promise
    }),
  )
  await Promise.resolve()
  assert.deepEqual(begun, [0])
  ends[0]?.reject(new Error('broken'))
  await assert.rejects(reads[0] ?? Promise.resolve(), /broken/)
  ends[1]?.resolve('second')
  assert.equal(await reads[1], 'second')
  ends[2]?.resolve('third')
  assert.equal(await reads[2], 'third')
  assert.deepEqual(begun, [0, 1, 2])
  assert.equal(await limiter.admit([], async () => 'free'), 'free')
})

test('a read that has timed out takes no place', async () => {
  const limiter = new RequestLimiter({ loadClass: 'search', places: 1, maxWaiting: 1, waitMs: 1 })
  const held = Promise.withResolvers<void>()
  const first = limiter.admit([], () => held.promise)
  await assert.rejects(
    limiter.admit([], async () => assert.fail('must not run')),
    { code: 'overloaded' },
  )
  held.resolve()
  await first
  assert.equal(await limiter.admit([], async () => 'free'), 'free')
})

/** A limiter and a way to fill it. `ask` sends a request, and calling its entry in `ends` finishes it. */
function makeLimiter(limits: Partial<RequestLimits> = {}) {
  const limiter = new RequestLimiter({ loadClass: 'search', places: 4, maxWaiting: 100, waitMs: 60_000, ...limits })
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  const ask = (name: string, ...quotaKey: string[]) =>
    limiter.admit(quotaKey, () => {
      begun.push(name)
      const { promise, resolve } = Promise.withResolvers<void>()
      ends.set(name, resolve)
      return promise
    })
  const end = async (name: string) => {
    ends.get(name)?.()
    await setImmediate()
  }
  return { limiter, begun, ask, end }
}

test('one account or network has at most half of the places, even with several accounts', async () => {
  const { begun, ask, end } = makeLimiter()
  const greedy = [ask('a1', 'ada', 'net'), ask('a2', 'ada', 'net'), ask('a3', 'ada', 'net'), ask('b1', 'bob', 'net')]
  const other = ask('c1', 'cy', 'elsewhere')
  await setImmediate()
  assert.deepEqual(begun, ['a1', 'a2', 'c1'])
  await end('a1')
  // Accounts take turns.
  assert.deepEqual(begun, ['a1', 'a2', 'c1', 'a3'])
  for (const name of ['a2', 'a3', 'b1', 'c1']) await end(name)
  await Promise.all([...greedy, other])
})

test('owners take turns: one with a single request does not wait for all requests of another', async () => {
  const { begun, ask, end } = makeLimiter({ places: 2 })
  const first = ask('x', 'x')
  await setImmediate()
  const all = ['a1', 'a2', 'a3', 'a4'].map((name) => ask(name, 'greedy'))
  all.push(ask('s', 'shopper'))
  await end('x')
  assert.deepEqual(begun, ['x', 'a1', 's'])
  await end('s')
  for (const name of ['a1', 'a2', 'a3', 'a4']) await end(name)
  await Promise.all([first, ...all])
})

test('a full queue refuses the newest request of the owner with the most requests', async () => {
  const { begun, ask, end } = makeLimiter({ places: 1, maxWaiting: 2 })
  const running = ask('r', 'greedy')
  await setImmediate()
  const waiting = ask('a1', 'greedy')
  const refused = assert.rejects(ask('a2', 'greedy'), { code: 'overloaded' })
  const shopper = ask('s', 'shopper')
  await refused
  for (const name of ['r', 'a1', 's']) await end(name)
  await Promise.all([running, waiting, shopper])
  assert.deepEqual(begun, ['r', 'a1', 's'])
})

test('fullness counts owners with long waits: neither one owner that fills the queue nor many with quick turns', async (t) => {
  let now = 1_000
  t.mock.method(performance, 'now', () => now)
  const { limiter, ask, end } = makeLimiter({ places: 4, maxWaiting: 10, waitMs: 1_000 })
  const all = ['a', 'b', 'c', 'd'].map((name) => ask(name, name))
  await setImmediate()
  all.push(ask('greedy', 'greedy'), ...Array.from({ length: 4 }, (_, n) => ask(`g${n}`, 'greedy')))
  now += 900
  assert.equal(limiter.fullness, 0.1, 'one owner')
  for (const name of ['v', 'w', 'x', 'y']) all.push(ask(name, name))
  assert.equal(limiter.fullness, 0.5, 'half of the queue, for nearly all of the time')
  await end('a')
  assert.equal(limiter.fullness, 0, 'the next owner has just come')
  now += 200
  assert.equal(limiter.fullness, 0.2)
  for (const name of ['b', 'c', 'd', 'greedy', 'v', 'w', 'x', 'y', 'g0', 'g1', 'g2', 'g3']) await end(name)
  await Promise.all(all)
  assert.equal(limiter.fullness, 0)
})
