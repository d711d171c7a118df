import assert from 'node:assert/strict'
import { rename, rm, writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import { allowBrokenRows } from './broken-rows.ts'
import { onCleanup } from './cleanup.ts'
import { startAuditedStore } from './pipeline-audit.ts'
import { TEST_SECRET } from './store.ts'
import { runStorefront } from './store-process.ts'

test('verify and replay: statuses, text and JSON, from the command line', async (t) => {
  const store = await startAuditedStore(t)
  const { api, stream } = store.addresses
  const env = { DATABASE_URL: api, DATABASE_STREAM_URL: stream, STOREFRONT_SECRET: TEST_SECRET, DATA_DIR: store.config.dataDir }
  const stop = await store.startPipeline()
  const [order = ''] = await store.trade(2)
  await store.untilDelivered()
  await stop()
  const well = await runStorefront(t, ['verify'], { env })
  assert.deepEqual([well.status, well.stderr], [0, ''])
  assert.match(well.stdout, /^orders +2 orders, 2 versions\ntopic +2 events\n[\s\S]*nothing is missing, doubled or corrupt\n$/)

  await store.pool.query(`delete from topic_messages where event ->> 'subject' = $1`, [order])
  onCleanup(t, async () => void (await store.replay()))
  const ill = await runStorefront(t, ['verify', '--json'], { env })
  assert.equal(ill.status, 1)
  assert.deepEqual(JSON.parse(ill.stdout).findings, [{ place: 'topic', kind: 'missing', count: 1, examples: [`${order}.1`] }])
  const refill = await runStorefront(t, ['replay', '--order', order.toUpperCase()], { env })
  assert.deepEqual([refill.status, refill.stdout], [0, 'compared 1 events with the topic and published 1 that it lacked\n'])
  assert.equal((await runStorefront(t, ['verify'], { env })).status, 0)

  // A lake that is empty, or not the store's: what it lacks is old, so it is not just on its way.
  const aside = `${store.lake}-aside`
  await rename(store.lake, aside)
  const { rows: messages } = await store.pool.query<{ id: string; event: object }>('select id, event from topic_messages')
  const { rows: orders } = await store.pool.query('select id, created_at::text, updated_at::text, status_history from orders')
  const age = (id: string, created: string, updated: string, history: unknown) =>
    store.pool.query('update orders set created_at = $2, updated_at = $3, status_history = $4 where id = $1', [
      ...[id, created, updated, JSON.stringify(history)],
    ])
  const longAgo = '2026-01-01T00:00:00.000Z'
  await store.pool.query(`update topic_messages set event = replace(event::text, event ->> 'time', $1)::json`, [longAgo])
  for (const { id, status_history: history } of orders) await age(id, longAgo, longAgo, [{ ...history[0], at: longAgo }])
  const unclear = await runStorefront(t, ['verify'], { env })
  assert.equal(unclear.status, 3)
  assert.match(unclear.stdout, /\ncannot tell whether anything is missing: see lake\n$/)
  const unclearJson = await runStorefront(t, ['verify', '--json'], { env })
  const { findings, undecided } = JSON.parse(unclearJson.stdout)
  assert.deepEqual([unclearJson.status, findings, undecided], [3, [], ['lake']])
  await rm(store.lake, { recursive: true, force: true })
  await writeFile(store.lake, 'no folder')
  const unreadable = await runStorefront(t, ['verify'], { env })
  assert.deepEqual([unreadable.status, unreadable.stdout], [1, ''])
  await rm(store.lake)
  await rename(aside, store.lake)
  for (const { id, event } of messages)
    await store.pool.query('update topic_messages set event = $2 where id = $1', [id, JSON.stringify(event)])
  for (const { id, created_at, updated_at, status_history } of orders) await age(id, created_at, updated_at, status_history)

  await allowBrokenRows(store.pool)
  const quantify = (from: number, to: number) =>
    store.pool.query('update orders set items = replace(items::text, $2, $3)::json where id = $1', [
      order,
      `"quantity":${from}`,
      `"quantity":${to}`,
    ])
  await quantify(1, 0)
  const broken = await runStorefront(t, ['verify'], { env })
  assert.equal(broken.status, 1)
  assert.match(
    broken.stdout,
    new RegExp(`\\norders: 1 invalid \\(.+\\)\\n  ${order}: the lines .+\\ntopic: 1 altered.*\\n  ${order}.1\\n2 kinds of fault\\n$`),
  )
  const brokenJson = await runStorefront(t, ['verify', '--json'], { env })
  assert.equal(brokenJson.status, 1)
  assert.deepEqual(
    JSON.parse(brokenJson.stdout).findings.map(({ examples, ...finding }: { examples: string[] }) => ({
      ...finding,
      ids: examples.map((e) => e.slice(0, 36)),
    })),
    [
      { place: 'orders', kind: 'invalid', count: 1, ids: [order] },
      { place: 'topic', kind: 'altered', count: 1, ids: [order] },
    ],
  )
  await quantify(0, 1)

  const rewound = await runStorefront(t, ['replay', '--subscriber', 'email'], { env })
  assert.match(rewound.stdout, /^email reads again what comes after 0; it was at \d+\n$/)
  const lake = await runStorefront(t, ['replay', '--subscriber', 'lake'], { env })
  assert.equal(lake.stdout, 'wrote 0 events that the lake lacked\n')
  const webhook = await runStorefront(t, ['replay', '--subscriber', 'webhook'], { env })
  assert.deepEqual([webhook.status, webhook.stderr], [1, 'storefront: there is no subscriber webhook; known are: email, lake\n'])
  for (const args of [
    ['--subscriber', 'nobody'],
    ['--since', 'yesterday'],
    ['--order', 'x'],
    ['--order', order, '--subscriber', 'email'],
  ]) {
    assert.equal((await runStorefront(t, ['replay', ...args], { env })).status, 2)
  }
})
