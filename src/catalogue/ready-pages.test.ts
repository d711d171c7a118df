import assert from 'node:assert/strict'
import { request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, type TestContext, test } from 'node:test'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { pino } from 'pino'
import { onCleanup } from '../../test/cleanup.ts'
import { eventually, promptly, stopClock } from '../../test/eventually.ts'
import { startStore } from '../../test/store.ts'
import { createApp } from '../app.ts'

const store = await startStore({ after })
for (let i = 0; i < 12; i++) await store.addProduct({ name: `Lamp ${i}` })
const { port } = store

interface Answer {
  status: number
  headers: Record<string, string | string[] | undefined>
  bytes: Buffer
}

/** Sends a request over the network, because a cached page is answered there before any other step. */
function get(path: string, headers: Record<string, string> = {}, method = 'GET', at = port): Promise<Answer> {
  return new Promise((resolve, reject) => {
    request({ port: at, path, headers, method, agent: false }, async (response) => {
      const bytes = Buffer.concat(await Array.fromAsync(response))
      resolve({ status: response.statusCode ?? 0, headers: response.headers, bytes })
    })
      .on('error', reject)
      .end()
  })
}

/**
 * Locks `products` while `work` runs, so that an answer in that time needed no query; the version of the catalogue
 * stays current.
 */
async function withProductsLocked(t: TestContext, work: () => Promise<void>): Promise<void> {
  const tx = await store.pool.connect()
  const startClock = stopClock(t)
  try {
    await tx.query('begin; lock table products in access exclusive mode')
    await work()
  } finally {
    startClock()
    await tx.query('rollback')
    tx.release()
  }
}

async function countWaiting(): Promise<number> {
  const { rows } = await store.pool.query<{ waiting: number }>(
    `select count(*) as waiting
    from pg_locks join pg_database on pg_database.oid = database
    where datname = current_database() and relation = 'products'::regclass and not granted`,
  )
  return rows[0]?.waiting ?? -1
}

test('repeats the bytes of the first answer with a new request id', async () => {
  const path = '/products?limit=3&sort=name'
  const first = await get(path)
  assert.equal(first.status, 200)
  const second = await get(path, { 'x-request-id': 'mine' })
  assert.deepEqual(second.bytes, first.bytes)
  const { date: _, 'x-request-id': id, ...rest } = second.headers
  const { date: __, 'x-request-id': ___, ...before } = first.headers
  assert.deepEqual([id, rest], ['mine', before])
  assert.match((await get(path)).headers['x-request-id'] as string, /^[0-9a-f-]{36}$/)
})

test('answers from memory, also with 304, without a query', async (t) => {
  const path = '/products?limit=4&sort=name'
  const first = await get(path)
  const etag = first.headers.etag as string
  await withProductsLocked(t, async () => {
    for (let i = 0; i < 20; i++) assert.equal((await get(path)).status, 200)
    for (let i = 0; i < 20; i++) assert.equal((await get(path, { 'if-none-match': etag })).status, 304)
    // The same query in another spelling has the same tag.
    assert.equal((await get('/products?sort=name&limit=4', { 'if-none-match': `W/${etag}` })).status, 304)
  })
})

test('a process that has never built the page also answers 304', async (t) => {
  const path = '/products?limit=5&sort=-name'
  const etag = (await get(path)).headers.etag as string
  const other = await startSecond(t)
  await withProductsLocked(t, async () => {
    const answer = await get(path, { 'if-none-match': etag }, 'GET', other)
    assert.deepEqual([answer.status, answer.headers.etag], [304, etag])
    assert.match(answer.headers['cache-control'] as string, /s-maxage/)
  })
})

test('builds a page once for concurrent requests', async (t) => {
  let waiting: Promise<Answer>[] = []
  await withProductsLocked(t, async () => {
    waiting = Array.from({ length: 50 }, () => get('/products?limit=6&min_price=1'))
    await eventually(async () => (await countWaiting()) > 0, { what: 'a query that waits' })
    // All fifty have arrived when a later request is answered.
    await get('/livez')
    assert.equal(await countWaiting(), 1)
  })
  const answers = await Promise.all(waiting)
  assert.ok(answers.every(({ status, bytes }) => status === 200 && bytes.equals(answers[0]?.bytes ?? Buffer.alloc(0))))
})

test('every process shows a change within a second', async (t) => {
  const other = await startSecond(t)
  const path = '/products?limit=100&sort=price'
  await Promise.all([get(path), get(path, {}, 'GET', other)])
  const lamp = await store.addProduct({ amount: 77 })
  for (const at of [port, other]) {
    await promptly(store.pool, async () => (await get(path, {}, 'GET', at)).bytes.includes(lamp.id), { withinMs: 1_000 })
  }
  await store.pool.query('update products set in_stock = false where id = $1', [lamp.id])
  for (const at of [port, other]) {
    const isSoldOut = async () => JSON.parse((await get(`/products/${lamp.id}`, {}, 'GET', at)).bytes.toString()).in_stock === false
    await promptly(store.pool, isSoldOut, { withinMs: 1_000 })
  }
})

test('a process that cannot listen queries the version, and never shows a state older than a second', async () => {
  const path = '/products?limit=100&sort=-price'
  await get(path)
  let isBlocking = true
  // Ends the listener's connection each time it reconnects.
  const blocking = (async () => {
    while (isBlocking) {
      await store.pool.query(
        `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'storefront-copies' and datname = current_database()`,
      )
    }
  })()
  const lamp = await store.addProduct({ amount: 88_888 })
  await promptly(store.pool, async () => (await get(path)).bytes.includes(lamp.id), { withinMs: 2_000 })
  isBlocking = false
  await blocking
})

test('sends brotli or gzip to clients that accept it, each with its own entity tag', async () => {
  const path = '/products?limit=12&sort=name'
  const plain = await get(path)
  assert.equal(plain.headers['content-encoding'], undefined)
  for (const [accepted, encoding, decode] of [
    ['gzip, deflate, br', 'br', brotliDecompressSync],
    ['gzip', 'gzip', gunzipSync],
    ['gzip, br;q=0', 'gzip', gunzipSync],
  ] as const) {
    for (let time = 0; time < 2; time++) {
      const answer = await get(path, { 'accept-encoding': accepted })
      assert.equal(answer.headers['content-encoding'], encoding)
      assert.equal(answer.headers.vary, 'Accept-Encoding')
      assert.notEqual(answer.headers.etag, plain.headers.etag)
      assert.ok(answer.bytes.length < plain.bytes.length)
      assert.deepEqual(decode(answer.bytes), plain.bytes)
      const etag = answer.headers.etag as string
      assert.equal((await get(path, { 'accept-encoding': accepted, 'if-none-match': etag })).headers.etag, etag)
    }
  }
  for (const accepted of ['identity', 'br;q=0', 'deflate']) {
    assert.deepEqual((await get(path, { 'accept-encoding': accepted })).bytes, plain.bytes, accepted)
  }
})

test('answers HEAD from memory without a body, and no other method', async () => {
  const path = '/products?limit=2&sort=name'
  const first = await get(path)
  const head = await get(path, {}, 'HEAD')
  assert.deepEqual([head.status, head.bytes.length, head.headers.etag], [200, 0, first.headers.etag])
  assert.equal((await get(path, {}, 'DELETE')).status, 405)
})

test('drops cached pages when the catalogue version decreases, for example after a restore', async () => {
  const path = '/products?limit=100&sort=-name'
  const lamp = await store.addProduct({ name: 'Zz before the restore' })
  const shows = async (text: string) => (await get(path)).bytes.includes(text)
  await promptly(store.pool, () => shows('Zz before the restore'), { withinMs: 2_000 })
  const readChanges = async () => (await store.pool.query('select sum(changes)::int as changes from catalogue_versions')).rows[0].changes
  const before = await readChanges()
  // The restored catalogue has another name, and the same number of changes follows.
  await store.pool.query('update catalogue_versions set changes = changes - 1, changed_at = changed_at - make_interval(days => 1)')
  await store.pool.query('alter table products disable trigger user')
  await store.pool.query(`update products set name = 'Zz after the restore' where id = $1`, [lamp.id])
  await store.pool.query('alter table products enable trigger user')
  await promptly(store.pool, () => shows('Zz after the restore'), { withinMs: 2_000, what: 'the restored name' })
  while ((await readChanges()) < before) await store.addProduct({ name: 'A lamp' })
  await promptly(store.pool, () => shows('Zz after the restore'), { withinMs: 2_000, what: 'the restored name under the old number' })
  for (let time = 0; time < 50; time++) assert.ok(await shows('Zz after the restore'))
})

/** Another process of the API on the same database. Returns its port. */
async function startSecond(t: Parameters<typeof onCleanup>[0]): Promise<number> {
  const app = await createApp({ config: store.config, logger: pino({ level: 'silent' }) })
  onCleanup(t, () => app.stop())
  await app.start()
  if (app.server === null) throw new Error('a second API needs the role')
  return (app.server.server.address() as AddressInfo).port
}
