import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AppError } from '../errors.ts'
import { PageCache } from './page-cache.ts'

interface Value {
  name: string
  sizeBytes: number
}
const value = (name: string, sizeBytes = 10): Value => ({ name, sizeBytes })

test('does not cache values of an older version', async () => {
  const cache = new PageCache<Value>(1_000)
  await cache.get('new', 2, async () => ({ version: 2, value: value('new') }))
  const old = await cache.get('old', 1, async () => ({ version: 1, value: value('old') }))
  assert.equal(old.name, 'old', 'who asked still gets it')
  assert.equal(cache.find('old', 2), undefined)
  assert.equal(cache.find('old', 1), undefined)
  assert.equal(cache.find('new', 2)?.name, 'new')
})

test('caches a value under the version that was read, not the one that was requested', async () => {
  const cache = new PageCache<Value>(1_000)
  await cache.get('a', 1, async () => ({ version: 2, value: value('a2') }))
  assert.equal(cache.find('a', 1), undefined)
  assert.equal(cache.find('a', 2)?.name, 'a2')
})

test('drops every value of the previous version', async () => {
  const cache = new PageCache<Value>(1_000)
  await cache.get('a', 1, async () => ({ version: 1, value: value('a') }))
  await cache.get('b', 2, async () => ({ version: 2, value: value('b') }))
  assert.equal(cache.find('a', 1), undefined)
  assert.equal(cache.find('a', 2), undefined)
})

test('loads a value once for concurrent callers, and again after a failure', async () => {
  const cache = new PageCache<Value>(1_000)
  let loads = 0
  const load = async () => {
    loads++
    if (loads === 1) throw new Error('the database is unavailable')
    return { version: 1, value: value('a') }
  }
  const failed = await Promise.allSettled([cache.get('a', 1, load), cache.get('a', 1, load)])
  assert.deepEqual([failed.map(({ status }) => status), loads], [['rejected', 'rejected'], 1])
  const found = await Promise.all([cache.get('a', 1, load), cache.get('a', 1, load), cache.get('a', 1, load)])
  assert.deepEqual([found.map(({ name }) => name), loads], [['a', 'a', 'a'], 2])
})

test('a client that has too many requests takes no page from others: they load for themselves what was refused to it', async () => {
  const cache = new PageCache<Value>(1_000)
  const refused = async () => Promise.reject(new AppError('overloaded', 'Too many requests.'))
  const loaded = async () => ({ version: 1, value: value('a') })
  const answers = await Promise.allSettled([cache.get('a', 1, refused), cache.get('a', 1, refused), cache.get('a', 1, loaded)])
  assert.deepEqual(
    answers.map(({ status }) => status),
    ['rejected', 'rejected', 'fulfilled'],
  )
  assert.equal(cache.find('a', 1)?.name, 'a')
})

test('stays within its limit, and keeps recently used values', async () => {
  const cache = new PageCache<Value>(1_000)
  for (let i = 0; i < 500; i++) {
    await cache.get(`page ${i}`, 1, async () => ({ version: 1, value: value(`page ${i}`) }))
    assert.equal(cache.find('page 0', 1)?.name, 'page 0')
  }
  const kept = Array.from({ length: 500 }, (_, i) => cache.find(`page ${i}`, 1)).filter((found) => found !== undefined)
  assert.ok(kept.length <= 100, `${kept.length} of 10 bytes each`)
})

test('finds a page by a remembered address while the version is unchanged', async () => {
  const cache = new PageCache<Value>(1_000)
  await cache.get('a', 1, async () => ({ version: 1, value: value('a') }))
  cache.remember('/a?x', 'a', 1)
  assert.equal(cache.findByAddress('/a?x', 1)?.name, 'a')
  assert.equal(cache.findByAddress('/a?x', 2), undefined)
  assert.equal(cache.findByAddress('/a?y', 1), undefined)
})

test('an address means a key in one version only', async () => {
  const cache = new PageCache<Value>(10_000)
  await cache.get('en a', 1, async () => ({ version: 1, value: value('a') }))
  cache.remember('/a?lang=de', 'en a', 1)
  await cache.get('en a', 2, async () => ({ version: 2, value: value('a2') }))
  assert.equal(cache.findByAddress('/a?lang=de', 2), undefined)
  cache.remember('/a?lang=de', 'en a', 1)
  assert.equal(cache.findByAddress('/a?lang=de', 2), undefined, 'an answer that took long remembers nothing')
})

test('keys count as well', async () => {
  const cache = new PageCache<Value>(100_000)
  const keys = Array.from({ length: 100 }, (_, i) => `${i} ${'k'.repeat(10_000)}`)
  for (const key of keys) await cache.get(key, 1, async () => ({ version: 1, value: value('a') }))
  const kept = keys.filter((key) => cache.find(key, 1) !== undefined)
  assert.ok(kept.length <= 12, `${kept.length} of 10 kB each`)
})

test('drops everything when versions restart, also values that are being loaded', async () => {
  const cache = new PageCache<Value>(1_000)
  await cache.get('a', 7, async () => ({ version: 7, value: value('before') }))
  const loading = Promise.withResolvers<{ version: number; value: Value }>()
  const made = cache.get('b', 7, () => loading.promise)
  cache.clear()
  loading.resolve({ version: 7, value: value('before') })
  assert.equal((await made).name, 'before', 'who asked before still gets it')
  assert.deepEqual([cache.find('a', 7), cache.find('b', 7)], [undefined, undefined])
  const after = await cache.get('a', 5, async () => ({ version: 5, value: value('after') }))
  assert.deepEqual([after.name, cache.find('a', 5)?.name], ['after', 'after'], 'an earlier version is kept again')
})
