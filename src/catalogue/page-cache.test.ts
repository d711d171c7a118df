import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { AppError } from '../errors.ts'
import { type Loader, PageCache } from './page-cache.ts'

interface Value {
  name: string
  sizeBytes: number
}
/** A loader whose turn comes at once. */
const now = (load: Loader<Value>['load'], owner = 'network'): Loader<Value> => ({ owner, admit: (work) => work(), load })
const value = (name: string, sizeBytes = 10): Value => ({ name, sizeBytes })

test('does not cache values of an older version', async () => {
  const cache = new PageCache<Value>(1_000)
  await cache.get(
    'new',
    2,
    now(async () => ({ version: 2, value: value('new') })),
  )
  const old = await cache.get(
    'old',
    1,
    now(async () => ({ version: 1, value: value('old') })),
  )
  assert.equal(old.name, 'old', 'who asked still gets it')
  assert.equal(cache.find('old', 2), undefined)
  assert.equal(cache.find('old', 1), undefined)
  assert.equal(cache.find('new', 2)?.name, 'new')
})

test('caches a value under the version that was read, not under the requested one', async () => {
  const cache = new PageCache<Value>(1_000)
  await cache.get(
    'a',
    1,
    now(async () => ({ version: 2, value: value('a2') })),
  )
  assert.equal(cache.find('a', 1), undefined)
  assert.equal(cache.find('a', 2)?.name, 'a2')
})

test('drops all values of the previous version', async () => {
  const cache = new PageCache<Value>(1_000)
  await cache.get(
    'a',
    1,
    now(async () => ({ version: 1, value: value('a') })),
  )
  await cache.get(
    'b',
    2,
    now(async () => ({ version: 2, value: value('b') })),
  )
  assert.equal(cache.find('a', 1), undefined)
  assert.equal(cache.find('a', 2), undefined)
})

test('concurrent callers share one load, and a failed load is repeated', async () => {
  const cache = new PageCache<Value>(1_000)
  let loads = 0
  const load = async () => {
    loads++
    if (loads === 1) throw new Error('the database is unavailable')
    return { version: 1, value: value('a') }
  }
  const failed = await Promise.allSettled([cache.get('a', 1, now(load)), cache.get('a', 1, now(load))])
  assert.deepEqual([failed.map(({ status }) => status), loads], [['rejected', 'rejected'], 1])
  const found = await Promise.all([cache.get('a', 1, now(load)), cache.get('a', 1, now(load)), cache.get('a', 1, now(load))])
  assert.deepEqual([found.map(({ name }) => name), loads], [['a', 'a', 'a'], 2])
})

test('a page that a busy network waits for is read in the turn of another network that also wants it', async () => {
  const cache = new PageCache<Value>(1_000)
  const turns = new Map<string, () => void>()
  const ended: string[] = []
  let loads = 0
  const load = async () => ({ version: 1, value: value(`load ${++loads}`) })
  const get = async (owner: string) => {
    const inTurn = async (work: () => Promise<void>) => {
      await new Promise<void>((resolve) => turns.set(owner, resolve))
      await work()
      ended.push(owner)
    }
    return (await cache.get('a', 1, { owner, admit: inTurn, load })).name
  }
  const answers = Promise.all(['greedy', 'greedy', 'shopper', 'shopper'].map(get))
  assert.deepEqual([...turns.keys()], ['greedy', 'shopper'], 'one turn of each')
  turns.get('shopper')?.()
  assert.deepEqual(await answers, Array(4).fill('load 1'))
  turns.get('greedy')?.()
  await setImmediate()
  assert.deepEqual([loads, ended], [1, ['shopper', 'greedy']], 'the later turn ends at once')
})

test('a client with too many requests takes no page from others: they get it in their own turns, or in a later one after a refusal', async () => {
  const cache = new PageCache<Value>(1_000)
  const overloaded = new AppError('overloaded', 'Too many requests.')
  const load = async () => ({ version: 1, value: value('a') })
  const refusals: (() => void)[] = []
  const refused = (owner: string) => {
    const admit = () => new Promise<void>((_, reject) => refusals.push(() => reject(overloaded)))
    return cache.get('a', 1, { owner, admit, load })
  }
  const networks = ['1', '2', '3', '4', '5', '5']
  const answers = Promise.allSettled([
    ...networks.slice(0, 4).map(refused),
    ...networks.slice(4).map((one) => cache.get('a', 1, now(load, one))),
  ])
  assert.equal(refusals.length, 4)
  for (const refuse of refusals) refuse()
  assert.deepEqual(
    (await answers).map(({ status }) => status),
    ['rejected', 'rejected', 'rejected', 'rejected', 'fulfilled', 'fulfilled'],
  )
  assert.equal(cache.find('a', 1)?.name, 'a')
})

test('networks that want the same page at once take at most four turns', async () => {
  const cache = new PageCache<Value>(1_000)
  const works: (() => Promise<void>)[] = []
  const admit = async (work: () => Promise<void>) => {
    works.push(work)
  }
  const load = async () => ({ version: 1, value: value('a') })
  const answers = Array.from({ length: 100 }, (_, network) => cache.get('a', 1, { owner: String(network), admit, load }))
  assert.equal(works.length, 4)
  await works[3]?.()
  assert.equal((await Promise.all(answers)).length, 100)
})

test('stays within its limit, and keeps recently used values', async () => {
  const cache = new PageCache<Value>(1_000)
  for (let i = 0; i < 500; i++) {
    await cache.get(
      `page ${i}`,
      1,
      now(async () => ({ version: 1, value: value(`page ${i}`) })),
    )
    assert.equal(cache.find('page 0', 1)?.name, 'page 0')
  }
  const kept = Array.from({ length: 500 }, (_, i) => cache.find(`page ${i}`, 1)).filter((found) => found !== undefined)
  assert.ok(kept.length <= 100, `${kept.length} of 10 bytes each`)
})

test('finds a page by a remembered address while the version is unchanged', async () => {
  const cache = new PageCache<Value>(1_000)
  await cache.get(
    'a',
    1,
    now(async () => ({ version: 1, value: value('a') })),
  )
  cache.remember('/a?x', 'a', 1)
  assert.equal(cache.findByAddress('/a?x', 1)?.name, 'a')
  assert.equal(cache.findByAddress('/a?x', 2), undefined)
  assert.equal(cache.findByAddress('/a?y', 1), undefined)
})

test('an address belongs to a key in one version only', async () => {
  const cache = new PageCache<Value>(10_000)
  await cache.get(
    'en a',
    1,
    now(async () => ({ version: 1, value: value('a') })),
  )
  cache.remember('/a?lang=de', 'en a', 1)
  await cache.get(
    'en a',
    2,
    now(async () => ({ version: 2, value: value('a2') })),
  )
  assert.equal(cache.findByAddress('/a?lang=de', 2), undefined)
  cache.remember('/a?lang=de', 'en a', 1)
  assert.equal(cache.findByAddress('/a?lang=de', 2), undefined, 'an answer that took long remembers nothing')
})

test('the size of keys counts too', async () => {
  const cache = new PageCache<Value>(100_000)
  const keys = Array.from({ length: 100 }, (_, i) => `${i} ${'k'.repeat(10_000)}`)
  for (const key of keys)
    await cache.get(
      key,
      1,
      now(async () => ({ version: 1, value: value('a') })),
    )
  const kept = keys.filter((key) => cache.find(key, 1) !== undefined)
  assert.ok(kept.length <= 12, `${kept.length} of 10 kB each`)
})

test('drops everything when versions restart, even values that are being loaded', async () => {
  const cache = new PageCache<Value>(1_000)
  await cache.get(
    'a',
    7,
    now(async () => ({ version: 7, value: value('before') })),
  )
  const loading = Promise.withResolvers<{ version: number; value: Value }>()
  const made = cache.get(
    'b',
    7,
    now(() => loading.promise),
  )
  cache.clear()
  loading.resolve({ version: 7, value: value('before') })
  assert.equal((await made).name, 'before', 'who asked before still gets it')
  assert.deepEqual([cache.find('a', 7), cache.find('b', 7)], [undefined, undefined])
  const after = await cache.get(
    'a',
    5,
    now(async () => ({ version: 5, value: value('after') })),
  )
  assert.deepEqual([after.name, cache.find('a', 5)?.name], ['after', 'after'], 'an earlier version is kept again')
})
