import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Role } from '../src/config.ts'
import { UnsuitableBucket } from '../src/lake/lake-store.ts'
import { listIncarnations } from '../src/topic/incarnations.ts'
import { eventually } from './eventually.ts'
import { startS3Server } from './s3-server.ts'
import { startSecondProcess, startStore } from './store.ts'
import { insertOrders } from './stream-harness.ts'

test('a bucket that is unavailable when the stream starts stops no event of a known database, and every event of another one', async (t) => {
  const server = await startS3Server(t)
  Object.assign(process.env, server.env)
  let isUnavailable = true
  server.fault = () => (isUnavailable ? { status: 403 } : undefined)
  const store = await startStore(t, { hasSlot: true })
  const { pool } = store
  const lakeBucket = { bucket: server.bucket, prefix: 'lake', endpoint: server.url, region: 'test-region-1' }
  const operations = { host: '127.0.0.1', port: 0, isRequired: true }
  const start = () => startSecondProcess(t, store, { roles: ['api', 'stream'], lakeBucket, operations })
  const published = async () => Number((await pool.query<{ count: string }>('select count(*) from topic_messages')).rows[0]?.count)
  const readiness = async (port: number | null) => {
    const answer = await fetch(`http://127.0.0.1:${port}/readyz`)
    return { status: answer.status, text: await answer.text() }
  }

  const known = await start()
  await insertOrders(pool, 3)
  await eventually(async () => (await published()) === 3, { what: 'the events of the known database' })
  await eventually(async () => (await readiness(known.app.operationsPort)).status === 200, { what: 'a process that is ready' })
  await known.app.stop()

  // This is the state after a restore: the used numbers are unknown without the lake.
  await pool.query(`update database_incarnations set identity = 'another database'`)
  const another = await start()
  await insertOrders(pool, 2)
  // The stream of the catalogue may be the first of the two that looks at the lake.
  await eventually(
    async () => {
      const { status, text } = await readiness(another.app.operationsPort)
      return status === 503 && /"change_stream".*the bucket s3:\/\/test-bucket\/lake\/: AccessDenied/.test(text)
    },
    { what: 'a stream that waits for the bucket' },
  )
  assert.equal(await published(), 3)
  isUnavailable = false
  await eventually(async () => (await published()) === 5, { what: 'the events after the bucket is back' })
  await another.app.stop()
})

test('a comparison that left the lake out is made up for after a restart: orders that only the lake has are found', async (t) => {
  const server = await startS3Server(t)
  Object.assign(process.env, server.env)
  let isUnavailable = false
  server.fault = () => (isUnavailable ? { status: 403 } : undefined)
  const store = await startStore(t, { hasSlot: true })
  const { pool } = store
  const lakeBucket = { bucket: server.bucket, prefix: 'lake', endpoint: server.url, region: 'test-region-1' }
  const start = (roles: Role[]) => startSecondProcess(t, store, { roles, lakeBucket, lakeFlushSeconds: 0.1 })
  const published = async () => (await pool.query('select from topic_messages')).rowCount
  const incarnations = () => listIncarnations(pool)

  const before = await start(['api', 'stream', 'lake'])
  await insertOrders(pool, 3)
  await eventually(async () => server.requests.some(({ method, key }) => method === 'PUT' && key.includes('orders/ingest_date=')), {
    what: 'a file of the lake',
  })
  await eventually(async () => (await published()) === 3)
  await before.app.stop()

  // Copied files from before these orders are put back: the database counts from there again, with the same identity.
  isUnavailable = true
  await pool.query('delete from topic_messages')
  await pool.query('alter sequence topic_messages_sequence_seq restart')
  await pool.query('delete from orders')
  const during = await start(['api', 'stream'])
  await insertOrders(pool, 3)
  await eventually(async () => (await published()) === 3, { what: 'events without the lake' })
  await during.app.stop()
  assert.equal((await incarnations()).length, 1)
  assert.notEqual((await incarnations())[0]?.lakeLeftOutAt, null)

  isUnavailable = false
  const after = await start(['api', 'stream'])
  const [, second] = await eventually(async () => (await incarnations()).length === 2 && (await incarnations()), {
    what: 'what the lake shows',
  })
  assert.equal(second?.isReconciled, false)
  assert.deepEqual(
    (await incarnations()).map(({ lakeLeftOutAt }) => lakeLeftOutAt),
    [null, null],
  )
  await after.app.stop()
})

test('a bucket that takes requests and answers none holds up neither start nor events nor stop', async (t) => {
  const server = await startS3Server(t)
  Object.assign(process.env, server.env)
  const store = await startStore(t, { hasSlot: true })
  const silence = Promise.withResolvers<void>()
  t.after(() => silence.resolve())
  server.fault = () => ({ before: () => silence.promise })
  const lakeBucket = { bucket: server.bucket, prefix: 'lake', endpoint: server.url, region: 'test-region-1' }
  const known = await startSecondProcess(t, store, { roles: ['api', 'stream'], lakeBucket })
  await insertOrders(store.pool, 3)
  await eventually(async () => (await store.pool.query('select from topic_messages')).rowCount === 3, {
    what: 'the events of the known database',
  })
  const asked = server.requests.length
  await eventually(async () => server.requests.length > asked, { what: 'another look at the lake' })
  const since = performance.now()
  await known.app.stop()
  const tookMs = performance.now() - since
  // One attempt of a request to the bucket takes 15 s.
  assert.ok(tookMs < 10_000, `the stop took ${tookMs} ms`)
})

for (const conditions of ['ignored', 'refused'] as const) {
  test(`a process with the role lake does not start with a bucket whose conditions are ${conditions}`, async (t) => {
    const server = await startS3Server(t, { conditions })
    Object.assign(process.env, server.env)
    const store = await startStore(t, { hasSlot: true })
    const lakeBucket = { bucket: server.bucket, prefix: 'lake', endpoint: server.url, region: 'test-region-1' }
    await assert.rejects(startSecondProcess(t, store, { roles: ['api', 'lake'], lakeBucket }), UnsuitableBucket)
  })
}
