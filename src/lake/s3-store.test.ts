import assert from 'node:assert/strict'
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { onCleanup } from '../../test/cleanup.ts'
import { eventually, Stopwatch } from '../../test/eventually.ts'
import { NEVER, readEvents, startSinkOn } from '../../test/lake-harness.ts'
import { openTestBucket } from '../../test/lake-stores.ts'
import { collectLog } from '../../test/logs.ts'
import { makeMessages } from '../../test/order-event-factory.ts'
import { type Conditions, type S3Fault, type S3Server, startS3Server } from '../../test/s3-server.ts'
import { makeTestFolder } from '../../test/test-folder.ts'
import { withinMs } from '../within-ms.ts'
import { LakeFileGone, type LakeStore, UnsuitableBucket } from './lake-store.ts'
import { S3LakeStore } from './s3-store.ts'

const NAME = 'orders/ingest_date=2026-03-01/0000000000000001-0000000000000002.parquet'

async function open(t: TestContext, { conditions, ...options }: { timeoutMs?: number; cacheBytes?: number; conditions?: Conditions } = {}) {
  const cache = makeTestFolder(t, 'storefront-s3-cache-')
  const server = await startS3Server(t, conditions === undefined ? {} : { conditions })
  const store = openTestBucket(server, cache, options)
  onCleanup(t, () => store.close())
  if (conditions === undefined) await store.assertSuitable()
  server.requests.length = 0
  return { server, store, cache }
}

const put = (store: LakeStore, text: string, name = NAME) =>
  store.withWorkspace(async (folder) => {
    await writeFile(join(folder, 'file'), text)
    return store.put(name, join(folder, 'file'))
  })

/** Lets the first requests of a method fail, and counts what came of it. */
function failFirst(server: S3Server, method: string, faults: S3Fault[]): () => number {
  let seen = 0
  server.fault = (request) => (request.method === method ? faults[seen++] : undefined)
  return () => seen
}

for (const [conditions, fault] of [
  ['ignored', /^s3:.* ignores If-None-Match and overwrites files; use a server with conditional writes/],
  ['refused', /^s3:.* does not implement If-None-Match; use a server with conditional writes/],
] as const) {
  test(`stores no file in a bucket whose conditional writes are ${conditions}, and leaves nothing there`, async (t) => {
    const { server, store } = await open(t, { conditions })
    for (let attempt = 0; attempt < 2; attempt++)
      await assert.rejects(put(store, 'a file'), (error: Error) => error instanceof UnsuitableBucket && fault.test(error.message))
    const entries = await readdir(server.folder, { recursive: true, withFileTypes: true })
    assert.deepEqual(
      entries.filter((entry) => entry.isFile()),
      [],
    )
  })
}

test('an unavailable bucket is not called unsuitable: the error names it and the cause, and it is used when it is back', async (t) => {
  const { server, store } = await open(t)
  const again = openTestBucket(server, makeTestFolder(t, 'storefront-s3-cache-'), {})
  onCleanup(t, () => again.close())
  server.fault = () => ({ status: 403 })
  await assert.rejects(put(again, 'a file'), /^S3ServiceException|^AccessDenied: the bucket s3:\/\/test-bucket\/lake.*: AccessDenied/)
  server.fault = () => undefined
  assert.equal(await put(again, 'a file'), 'stored')
  assert.equal((await store.list('orders/')).length, 1)
})

test('retries after 500, 503, a conflict and a lost answer, and stores the file once', async (t) => {
  const { server, store } = await open(t)
  for (const [name, faults] of Object.entries({
    errors: [{ status: 500 }, { status: 503 }],
    conflict: [{ status: 409 }],
    lost: [{ losesAnswer: true }],
    both: [{ losesAnswer: true }, { status: 503 }],
  } satisfies Record<string, S3Fault[]>)) {
    const seen = failFirst(server, 'PUT', faults)
    assert.equal(await put(store, name, `orders/ingest_date=2026-03-01/${name}.parquet`), 'stored', name)
    assert.equal(seen(), faults.length + 1, name)
  }
  assert.equal((await store.list('orders/')).length, 4)
})

test('a name counts as taken if the answer was lost and another process had stored it before', async (t) => {
  const { server, store } = await open(t)
  await put(store, 'of another')
  failFirst(server, 'PUT', [{ losesAnswer: true }])
  assert.equal(await put(store, 'ours'), 'taken')
  assert.equal(await readFile(join(server.folder, 'lake/of tests', NAME), 'utf8'), 'of another')
})

test('waits for a slow answer only until the timeout, and a late answer does no harm', async (t) => {
  const { server, store } = await open(t, { timeoutMs: 1_000 })
  const late = Promise.withResolvers<void>()
  failFirst(server, 'PUT', [{ before: () => late.promise }])
  const stopwatch = new Stopwatch(t)
  assert.equal(await put(store, 'once'), 'stored')
  assert.ok(stopwatch.ms < 15_000, 'less than it waits unless told')
  late.resolve()
  await eventually(async () => server.requests.filter(({ method }) => method === 'PUT').length >= 2)
  assert.equal((await store.list('orders/'))[0]?.sizeBytes, 4)
})

test('finally gives up with the reason, and gives up at once when it is closed', async (t) => {
  const { server, store } = await open(t)
  server.fault = () => ({ status: 500 })
  await assert.rejects(put(store, 'never'), { name: 'InternalError' })
  const asked = Promise.withResolvers<void>()
  server.fault = () => {
    asked.resolve()
    return { before: () => new Promise<void>(() => {}) }
  }
  const waiting = assert.rejects(put(store, 'never'), { name: 'AbortError' })
  await asked.promise
  store.close()
  await waiting
})

test('reports what is wrong with key, bucket and region', async (t) => {
  const { server, cache } = await open(t)
  const place = { bucket: server.bucket, prefix: 'lake', endpoint: server.url, region: 'test-region-1', cacheDirectory: cache }
  await assert.rejects(new S3LakeStore({ ...place, bucket: 'another' }).list('orders/'), { name: 'NoSuchBucket' })
  await assert.rejects(new S3LakeStore({ ...place, region: 'elsewhere-2' }).list('orders/'), { name: 'AuthorizationHeaderMalformed' })
  process.env.AWS_SECRET_ACCESS_KEY = 'wrong'
  await assert.rejects(new S3LakeStore(place).list('orders/'), { name: 'SignatureDoesNotMatch' })
})

test('an interrupted upload leaves nothing', async (t) => {
  const { server, store } = await open(t)
  const { hostname, port } = new URL(server.url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  socket.write(`PUT /${server.bucket}/lake/of%20tests/${NAME} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nPAR1 half`, () =>
    socket.destroy(),
  )
  await new Promise((resolve) => socket.on('close', resolve))
  assert.deepEqual(await store.list('orders/'), [])
})

test('detects bytes that changed in the bucket', async (t) => {
  const { server, store } = await open(t)
  await put(store, 'as it was stored')
  await writeFile(join(server.folder, 'lake/of tests', NAME), 'As it was stored')
  const text = await store.withCopies(await store.list('orders/'), async ([path = '']) => readFile(path, 'utf8'), { isFresh: true })
  assert.equal(text, 'not the bytes that were stored')
})

test('keeps neither changed bytes of the bucket nor a copy that a power cut has shortened', async (t) => {
  const { server, store, cache } = await open(t)
  const [text, object] = ['as it was stored', join(server.folder, 'lake/of tests', NAME)]
  await put(store, text)
  await rm(join(cache, 'files'), { recursive: true })
  const files = await store.list('orders/')
  const read = () => store.withCopies(files, ([path = '']) => readFile(path, 'utf8'))
  await writeFile(object, 'As it was stored')
  assert.equal(await read(), 'not the bytes that were stored')
  await writeFile(object, text)
  assert.equal(await read(), text)
  const [kept = ''] = await readdir(join(cache, 'files'))
  for (const left of ['', 'as it was']) {
    await writeFile(join(cache, 'files', kept), left)
    assert.equal(await read(), text)
    assert.equal(await readFile(join(cache, 'files', kept), 'utf8'), text)
  }
})

test('a read of a file that is gone fails only after the other downloads have ended, and leaves no folder', async (t) => {
  const { server, store, cache } = await open(t)
  const [gone, slow] = [NAME.replace('03-01', '03-02'), NAME]
  for (const name of [gone, slow]) await put(store, 'a file', name)
  const files = await store.list('orders/')
  await store.delete(gone)
  const late = Promise.withResolvers<void>()
  server.fault = ({ key }) => (key.endsWith(slow) ? { before: () => late.promise } : undefined)
  const reading = store.withCopies(files, async () => {}, { isFresh: true }).catch((error: unknown) => error)
  const asked = (name: string) => server.requests.some(({ method, key }) => method === 'GET' && key.endsWith(name))
  await eventually(async () => asked(gone) && asked(slow), { what: 'both downloads' })
  assert.equal(await withinMs(300, reading, 'waits'), 'waits')
  late.resolve()
  assert.ok((await reading) instanceof LakeFileGone)
  assert.deepEqual(await readdir(join(cache, '.tmp')), [])
})

test('fetches a file once, and keeps only a limited number of copies', async (t) => {
  const { server, store, cache } = await open(t, { cacheBytes: 25 })
  const names = ['1', '2', '3'].map((day) => NAME.replace('03-01', `03-0${day}`))
  for (const name of names) await put(store, 'ten bytes.', name)
  await rm(join(cache, 'files'), { recursive: true })
  const files = await store.list('orders/')
  const gets = () => server.requests.filter(({ method, key }) => method === 'GET' && key !== '').length
  const read = () => store.withCopies(files.slice(1), async (paths) => paths.length)
  await read()
  await read()
  assert.equal(gets(), 2)
  await store.withCopies(files, async () => {})
  assert.equal(gets(), 3)
  assert.equal((await readdir(join(cache, 'files'))).length, 2)
  assert.deepEqual(await readdir(join(cache, '.tmp')), [])
})

test('a sink writes each event to one file, even if its bucket fails in every way', async (t) => {
  const { server, store } = await open(t, { timeoutMs: 1_000 })
  const faults: S3Fault[] = [
    { status: 500 },
    { status: 503 },
    { losesAnswer: true },
    { before: () => new Promise((resolve) => setTimeout(resolve, 1_200)) },
  ]
  const seed = Date.now() % 100_000
  t.diagnostic(`seed ${seed}`)
  let state = seed
  server.fault = () => {
    state = (state * 48_271) % 2_147_483_647
    return faults[state % (faults.length * 4)]
  }
  const sink = await startSinkOn(t, store, { flushSeconds: 0.02, flushRows: 9 })
  const messages = makeMessages(60)
  // A subscription does this, too: failed messages come again from where the lake ends.
  await eventually(
    async () => {
      try {
        const stored = await sink.lastSequence()
        await sink.handle(messages.slice(stored), NEVER)
        await sink.flush()
        return stored === messages.length
      } catch {
        return false
      }
    },
    { timeoutMs: 170_000, what: 'every event in the bucket' },
  )
  server.fault = () => undefined
  assert.deepEqual(
    await readEvents(store),
    messages.map(({ event }) => event.id),
  )
})

test('a sink starts without its bucket, and stops in time while the bucket does not answer', async (t) => {
  const { server, store } = await open(t)
  server.fault = () => ({ status: 500 })
  const { logger, lines } = collectLog('error')
  const sink = await startSinkOn(t, store, { logger })
  assert.match(lines[0] ?? '', /the lake cannot be read/)
  server.fault = () => undefined
  assert.equal(await sink.lastSequence(), 0)
  await sink.handle(makeMessages(2), NEVER)
  server.fault = () => ({ before: () => new Promise<void>(() => {}) })
  const stopwatch = new Stopwatch(t)
  await sink.stop()
  assert.ok(stopwatch.ms < 6_000)
  store.close()
  assert.match(lines.at(-1) ?? '', /last lake flush failed/)
})
