import assert from 'node:assert/strict'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { eventually } from '../../test/eventually.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { startSecondProcess, startStore, type TestStore } from '../../test/store.ts'
import { ROLES } from '../config.ts'
import { MAIL_DELIVERIES } from '../mail/email-deliveries.ts'
import { SUBSCRIBERS } from '../subscribers.ts'
import { finishRun, recordRun } from './audit-runs.ts'
import { Pipeline } from './pipeline-status.ts'

async function placeOrder(store: TestStore): Promise<void> {
  const customer = await store.register()
  const product = await store.addProduct()
  const body = { items: [{ product_id: product.id, quantity: 1 }] }
  await customer.ok('POST', '/orders', { body, headers: { 'idempotency-key': product.id } })
}

const OF_ORDERS = SUBSCRIBERS.filter(({ partition }) => partition === 'orders')

test('a process with only the API reports what the other processes have done with each event', async (t) => {
  const store = await startStore(t, { roles: ROLES, lakeFlushSeconds: 1 })
  const { token } = await registerOperator(store)
  const apiOnly = await startSecondProcess(t, store)
  await placeOrder(store)
  await placeOrder(store)
  const read = async (from: Pick<TestStore, 'call'>) => (await from.call('GET', '/admin/pipeline', { token })).json
  await eventually(
    async () => {
      const { subscribers, lake } = await read(apiOnly)
      return lake?.files > 0 && subscribers?.every((one: { lag_events: number | null }) => one.lag_events === 0)
    },
    { what: 'every subscriber is up to date', timeoutMs: 40_000 },
  )
  const seen = await read(apiOnly)
  assert.deepEqual(seen.unavailable, [])
  assert.equal(seen.slot.is_active, true)
  assert.equal(seen.slot.lost_reason, null)
  assert.deepEqual(seen.topic, { store: 'postgres', epoch: 0, newest_sequence: 2 })
  assert.deepEqual(
    seen.subscribers.map(({ name, position, is_active, state }: Record<string, unknown>) => [name, position, is_active, state]),
    OF_ORDERS.map(({ name }) => [name, 2, true, null]),
  )
  assert.deepEqual(
    (await read(store)).subscribers.map(({ state }: { state: string }) => state),
    OF_ORDERS.map(() => 'active'),
  )
  assert.ok(seen.lake.size_bytes > 1_000 && Date.parse(seen.lake.newest_file_at) > Date.now() - 60_000)
  assert.deepEqual(seen.dead_letters, { count: 0, newest: [] })
  assert.equal(seen.last_verify, null)
})

test('answers 304 to a reader that has the current state, and shows the last verify run and the dead letters', async (t) => {
  const store = await startStore(t)
  const operator = await registerOperator(store)
  const reason = '<img src=x onerror=alert(1)>'
  await store.pool.query(
    `insert into dead_letters (event_id, reason, position, recorded_at)
    select gen_random_uuid() || '.1', $1 || number, '', now() + number * interval '1 second' from generate_series(1, 7) as number`,
    [reason],
  )
  const id = await recordRun(store.pool, { kind: 'verify', command: 'storefront verify' })
  await finishRun(store.pool, id, { exitStatus: 0, result: { findings: [] }, output: 'nothing is missing' })
  await recordRun(store.pool, { kind: 'verify', command: 'storefront verify' })
  const read = (headers = {}) => operator.call('GET', '/admin/pipeline', { headers })
  const first = await read()
  assert.equal(first.json.dead_letters.count, 7)
  assert.deepEqual(
    first.json.dead_letters.newest.map((letter: { reason: string }) => letter.reason),
    [7, 6, 5, 4, 3].map((number) => reason + number),
  )
  assert.deepEqual([first.json.last_verify.id, first.json.last_verify.status], [id, 'passed'], 'the one that has ended')
  assert.equal(first.headers['cache-control'], 'no-store')
  await eventually(async () => (await read({ 'if-none-match': String((await read()).headers.etag) })).status === 304, { what: '304' })
})

test('a lake that cannot be read affects only the part of the lake', async (t) => {
  const store = await startStore(t)
  const operator = await registerOperator(store)
  const lake = join(store.config.dataDir, 'lake')
  await rm(lake, { recursive: true, force: true })
  await writeFile(lake, 'no folder')
  const json = await operator.ok('GET', '/admin/pipeline')
  assert.equal(json.lake, null)
  assert.deepEqual(
    json.unavailable.map(({ part }: { part: string }) => part),
    ['lake'],
  )
  assert.match(json.unavailable[0].reason, /ENOTDIR/)
  assert.equal(json.subscribers.length, OF_ORDERS.length)
})

const pipelineOf = (store: TestStore, openLake: () => Promise<object>) =>
  new Pipeline({
    pool: store.pool,
    slotName: 'none',
    topic: { isOutside: false, newestSequence: async () => 0 } as never,
    openLake: openLake as never,
    readStates: async () => [],
    queues: [{ ...MAIL_DELIVERIES, name: 'slow', readLength: () => delay(10, { queued: 3, oldestUntriedSeconds: 0 }) }],
  })

test('a lake that could not be opened is opened when the state is read again', async (t) => {
  const store = await startStore(t)
  let attempts = 0
  const pipeline = pipelineOf(store, async () => {
    attempts++
    if (attempts === 1) throw new Error('no credentials yet')
    return { list: async () => [], locate: () => 's3://lake/', close() {} }
  })
  assert.deepEqual((await pipeline.read()).unavailable, [{ part: 'lake', reason: 'no credentials yet' }])
  assert.equal((await pipeline.read()).lake?.place, 's3://lake/')
  await pipeline.stop()
})

test('a part that does not answer affects only itself, and is not asked a second time meanwhile', async (t) => {
  const store = await startStore(t)
  let asked = 0
  const hang = Promise.withResolvers<never>()
  const pipeline = pipelineOf(store, async () => ({ list: () => [++asked, hang.promise][1], locate: () => '', close() {} }))
  const beganAt = performance.now()
  const [one, two] = await Promise.all([pipeline.read(), pipeline.read()])
  const three = await pipeline.read()
  for (const status of [one, two, three]) {
    assert.deepEqual(status.unavailable, [{ part: 'lake', reason: 'it does not answer within 2 s' }])
    assert.deepEqual(status.queues, [{ name: 'slow', queued: 3, oldestUntriedSeconds: 0 }])
    assert.match(status.slot?.lostReason ?? '', /does not exist/)
  }
  assert.equal(asked, 1)
  assert.ok(performance.now() - beganAt < 6_000)
  await pipeline.stop()
})
