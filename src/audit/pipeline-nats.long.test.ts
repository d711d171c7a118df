import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { connectManager } from '../../test/nats-harness.ts'
import { NO_NATS, startNatsServer } from '../../test/nats-server.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { startSecondProcess, startStore } from '../../test/store.ts'
import { readConfig } from '../config.ts'

test("shows a topic in NATS without ever creating it, and an unavailable broker affects only the topic's part", {
  skip: NO_NATS,
}, async (t) => {
  const broker = await startNatsServer(t)
  const manager = await connectManager(t, broker.url)
  const store = await startStore(t, { nats: readConfig({ NATS_URL: broker.url }).nats, lakeFlushSeconds: 1, hasSlot: true })
  const operator = await registerOperator(store)
  const read = async () => {
    const json = await operator.ok('GET', '/admin/pipeline')
    return { ...json, gaps: json.unavailable.map(({ part }: { part: string }) => part) }
  }
  const countEpochs = async () => (await store.pool.query('select from topic_epochs')).rowCount

  // Nobody has used the topic yet.
  for (const name of ['ORDERS', 'CATALOGUE']) await manager.streams.delete(name).catch(() => {})
  for (const table of ['topic_epochs', 'catalogue_epochs']) await store.pool.query(`delete from ${table}`)
  const unused = await read()
  assert.deepEqual([unused.gaps, unused.topic], [['topic'], null])
  assert.match(unused.unavailable[0].reason, /^there is no stream ORDERS/)
  assert.equal(
    await manager.streams
      .list()
      .next()
      .then((streams) => streams.length),
    0,
  )
  assert.equal(await countEpochs(), 0)

  const pipeline = await startSecondProcess(t, store, { roles: ['api', 'stream', 'email', 'webhook', 'lake'] })
  const customer = await store.register()
  const { id: product_id } = await store.addProduct()
  await customer.ok('POST', '/orders', { body: { items: [{ product_id, quantity: 1 }] } })
  const isComplete = (seen: { subscribers: { lag_events: number | null }[]; topic: { newest_sequence: number } | null }) =>
    seen.topic?.newest_sequence === 1 && seen.subscribers.every(({ lag_events }) => lag_events === 0)
  // The lake is listed every ten seconds.
  const complete = await eventually(
    async () => {
      const seen = await read()
      return isComplete(seen) && seen
    },
    { what: 'every subscriber is up to date', pauseMs: 500 },
  )
  assert.deepEqual([complete.topic, complete.gaps], [{ store: 'nats', epoch: 1, newest_sequence: 1 }, []])
  assert.deepEqual(
    complete.subscribers.map(({ position }: { position: number }) => position),
    [1, 1, 1],
  )

  await broker.end()
  const beganAt = performance.now()
  const away = await read()
  assert.ok(performance.now() - beganAt < 10_000)
  assert.deepEqual([away.gaps, away.topic], [['topic'], null])
  assert.notEqual(away.unavailable[0].reason, '')
  assert.deepEqual(
    away.subscribers.map(({ name, position, lag_events }: Record<string, unknown>) => [name, position, lag_events]),
    [
      ['email', 1, null],
      ['webhook', 1, null],
      ['lake', 1, null],
    ],
  )
  for (const part of ['slot', 'queues', 'dead_letters', 'lake']) assert.notEqual(away[part], null, part)

  // The broker comes back without its data. The change stream begins a new epoch, and this process shows it.
  await pipeline.app.stop()
  broker.wipe()
  await broker.start()
  const lost = await eventually(
    async () => {
      const seen = await read()
      return /no stream/.test(seen.unavailable[0]?.reason) && seen
    },
    { what: 'a broker without the stream', pauseMs: 200 },
  )
  assert.deepEqual(lost.gaps, ['topic'])
  assert.equal(await countEpochs(), 1)
  await startSecondProcess(t, store, { roles: ['api', 'stream'] })
  const renewed = await eventually(
    async () => {
      const seen = await read()
      return seen.topic !== null && seen
    },
    { what: 'the new stream', pauseMs: 200 },
  )
  assert.deepEqual(renewed.topic, { store: 'nats', epoch: 2, newest_sequence: 0 })
})
