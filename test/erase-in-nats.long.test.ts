import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { nanos } from '@nats-io/transport-node'
import { readConfig } from '../src/config.ts'
import { eventually } from './eventually.ts'
import { connectManager } from './nats-harness.ts'
import { NO_NATS, startNatsServer } from './nats-server.ts'
import { startStore, TEST_SECRET } from './store.ts'
import { runStorefront } from './store-process.ts'

const RETAIN_DAYS = 100
const ADDRESS = { name: 'Ada Lovelace', line1: '12 St James Square', city: 'London', postal_code: 'SW1Y', country: 'GB' }

/** The statement of docs/inside/personal-data.md that says whose messages are to be purged. */
function readStatement(): string {
  const document = readFileSync(join(import.meta.dirname, '../docs/inside/personal-data.md'), 'utf8')
  const [, statement = ''] = /--command "([^"]+)" \|/.exec(document) ?? []
  assert.match(statement, /'3650 days'/)
  return statement.replace('3650 days', `${RETAIN_DAYS} days`)
}

test('what docs/inside/personal-data.md says erases an address from NATS, and no mail, lake row or finding comes of it', {
  skip: NO_NATS,
}, async (t) => {
  const { url } = await startNatsServer(t)
  const roles = ['api', 'stream', 'email', 'lake'] as const
  const nats = readConfig({ NATS_URL: url }).nats
  const store = await startStore(t, { roles: [...roles], lakeFlushSeconds: 1, nats, retainOrderAddressDays: RETAIN_DAYS })
  const { id: product_id } = await store.addProduct({ stock: null })
  const place = async () => {
    const { token } = await store.register()
    const body = { items: [{ product_id, quantity: 1 }], shipping_address: ADDRESS, note: 'ring twice' }
    const { json } = await store.call('POST', '/orders', { token, body })
    assert.equal((await store.call('POST', `/orders/${json.id}/cancel`, { token })).status, 200)
    return { token, id: json.id as string }
  }
  const [ada, bob] = [await place(), await place()]
  const env = {
    ...{ DATABASE_URL: store.url, DATABASE_STREAM_URL: store.addresses.stream, NATS_URL: url },
    ...{ STOREFRONT_SECRET: TEST_SECRET, DATA_DIR: store.config.dataDir, LAKE_FLUSH_SECONDS: '1' },
  }
  const isDelivered = async () => {
    const { findings, mails, lake, topic } = JSON.parse((await runStorefront(t, ['verify', '--json'], { env })).stdout)
    return findings.length === 0 && mails.sent === 4 && lake.events === 4 && topic.events === 4
  }
  await eventually(isDelivered, { what: 'every event everywhere' })
  const backdate = (days: number) => store.pool.query('update orders set updated_at = updated_at - make_interval(days => $1)', [days])
  await backdate(RETAIN_DAYS + 1)
  assert.equal((await store.call('DELETE', '/me', { token: ada.token })).status, 204)

  const { streams } = await connectManager(t, url)
  /** The orders of which a message of the stream has an address or a note. */
  const holding = async () => {
    const { state } = await streams.info('ORDERS', { subjects_filter: 'orders.>' })
    const found = new Set<string>()
    for (const subject of Object.keys(state.subjects ?? {})) {
      const message = await streams.getMessage('ORDERS', { last_by_subj: subject })
      if (/Lovelace|St James|ring twice/.test(message?.string() ?? '')) found.add(subject.split('.')[1] ?? '')
    }
    return [[...found].sort(), state.messages]
  }
  assert.deepEqual(await holding(), [[ada.id, bob.id].sort(), 4], 'the store erases nothing in NATS')
  const { rows } = await store.pool.query<{ id: string }>(readStatement())
  assert.deepEqual(rows, [{ id: ada.id }])
  // The events are to come again as they were.
  await backdate(-RETAIN_DAYS - 1)
  await streams.purge('ORDERS', { filter: `orders.${ada.id}.>` })
  // NATS drops what it had two minutes ago, also when it was purged since. Here the order is seconds old.
  await streams.update('ORDERS', { duplicate_window: nanos(100) })
  const isPublished = async () => {
    assert.equal((await runStorefront(t, ['replay'], { env })).status, 0)
    return (await streams.info('ORDERS')).state.messages === 4
  }
  await eventually(isPublished, { what: 'the purged events again' })
  assert.deepEqual(await holding(), [[bob.id], 4])
  assert.ok(await eventually(isDelivered, { what: 'nothing more' }))
})
