import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { simpleParser } from 'mailparser'
import { addBuyer } from './buyers.ts'
import { eventually } from './eventually.ts'
import { queryFolder } from './lake-harness.ts'
import { startAuditedStore, summarise } from './pipeline-audit.ts'
import { startStore } from './store.ts'

const LINES = 600
const LIFE = ['pending', 'confirmed', 'shipped', 'delivered', 'returned']

test('carries all 600 lines of an order through its whole life to topic and lake, and tells in its timeline how far each change has come', async (t) => {
  const store = await startStore(t, { roles: ['api', 'stream', 'email', 'lake'], lakeFlushSeconds: 1 })
  const [ada, admin] = [await store.register({ name: 'Ada' }), await addBuyer(store, 'admin')]
  const { rows: products } = await store.pool.query<{ id: string }>(
    `with added as (
      insert into products (id, sku, name, category, price_amount, price_currency, in_stock)
      select gen_random_uuid(), 'LIFE-' || n, 'Line ' || n || repeat(' of a wholesale basket', 4), 'bulk', n, 'EUR', true
      from generate_series(1, $1) as n
      returning id
    )
    insert into inventory (product_id, available) select id, 5 from added returning product_id as id`,
    [LINES],
  )
  const items = products.map(({ id }) => ({ product_id: id, quantity: 2 }))
  const placed = await store.call('POST', '/orders', { token: ada.token, body: { items } })
  assert.equal(placed.status, 201, placed.text.slice(0, 300))
  for (const to of LIFE.slice(1)) {
    const moved = await store.call('POST', `/admin/orders/${placed.json.id}/transitions`, { token: admin.token, body: { to } })
    assert.equal(moved.status, 200, moved.text.slice(0, 300))
    assert.equal(moved.json.items.length, LINES)
  }

  const timeline = await eventually(
    async () => {
      const read = (await store.call('GET', `/orders/${placed.json.id}`, { token: ada.token })).json.timeline as Step[]
      return read.every((step) => step.published_at !== null && step.mail?.status === 'sent' && step.lake_at !== null) && read
    },
    { what: 'a timeline without gaps' },
  )
  assert.deepEqual(
    timeline.map(({ version, status }) => [version, status]),
    LIFE.map((status, i) => [i + 1, status]),
  )
  for (const { at, published_at, mail, lake_at } of timeline) {
    assert.ok(at <= `${published_at}` && `${published_at}` <= `${lake_at}`, 'changed, published, in the lake, in this order')
    assert.ok(mail !== null && mail.queued_at <= `${mail.sent_at}` && mail.failed_at === null && mail.attempts === 1)
  }

  const { rows: events } = await store.pool.query<{
    event: { data: { order: { status: string; items: { product_id: string; name: string }[] } } }
  }>(`select event from topic_messages where event ->> 'subject' = $1 order by sequence`, [placed.json.id])
  const names = placed.json.items.map((item: { name: string }) => item.name)
  assert.deepEqual(
    events.map(({ event }) => event.data.order.status),
    LIFE,
  )
  for (const { event } of events)
    assert.deepEqual(
      event.data.order.items.map(({ name }) => name),
      names,
    )

  const lake = await queryFolder(
    join(store.config.dataDir, 'lake'),
    `select status, item_count, len(items), list_distinct(list_transform(items, item -> item.product_id)).len()
    from order_events where order_id = '${placed.json.id}' order by version`,
  )
  assert.deepEqual(
    lake.rows.map((row) => row.map(String)),
    LIFE.map((status) => [status, '600', '600', '600']),
  )
})

test('brings payment and parcel to mail, topic and lake, and replay restores a shipped event with them', async (t) => {
  const store = await startAuditedStore(t)
  const stop = await store.startPipeline()
  const [ada, admin] = [await store.register({ name: 'Ada' }), await addBuyer(store, 'admin')]
  const { id: product_id } = await store.addProduct()
  const placed = await store.call('POST', '/orders', { token: ada.token, body: { items: [{ product_id, quantity: 1 }] } })
  const tracking = { carrier: 'DHL & Söhne', number: 'JJD0001', url: 'https://track.example/parcels?id=JJD0001' }
  const moves = [
    { to: 'confirmed', reference: 'pay_1' },
    { to: 'shipped', reference: 'parcel_1', tracking },
    { to: 'delivered', reference: 'signature_1' },
  ]
  const makeMoves = async () => {
    for (const body of moves) {
      const moved = await store.call('POST', `/admin/orders/${placed.json.id}/transitions`, { token: admin.token, body })
      assert.equal(moved.status, 200, moved.text)
    }
  }
  await makeMoves()
  await store.untilDelivered()
  await makeMoves()
  await stop()
  assert.deepEqual((await store.verify()).findings, [])

  const folder = join(store.config.dataDir, 'mail')
  const mails = await Promise.all(readdirSync(folder, { encoding: 'utf8' }).map((name) => simpleParser(readFileSync(join(folder, name)))))
  const [shipped, ...others] = mails.filter(({ subject }) => subject?.endsWith('is on its way'))
  assert.deepEqual([mails.length, others.length], [4, 0], 'repeated moves cause no mail')
  assert.ok(shipped?.text?.includes(`DHL & Söhne, tracking number JJD0001\n${tracking.url}\n`), String(shipped?.text))
  assert.match(`${shipped?.html}`, /DHL &amp; Söhne, tracking number <a href="https:[^"]*JJD0001">JJD0001<\/a>/)

  const readEvents = async () =>
    (await store.pool.query(`select id, event from topic_messages where event ->> 'subject' = $1 order by id`, [placed.json.id])).rows as {
      id: string
      event: { data: { order: { status_history: object[] } }; traceparent?: string }
    }[]
  const events = await readEvents()
  assert.deepEqual(
    events.map(({ event }) => event.data.order.status_history.map((entry) => pickMove(entry))),
    [1, 2, 3, 4].map((version) => [{ status: 'pending' }, ...moves.map(({ to, ...move }) => ({ status: to, ...move }))].slice(0, version)),
  )
  await store.pool.query('delete from topic_messages where id = $1', [`${placed.json.id}.3`])
  assert.deepEqual(summarise(await store.verify()), ['topic missing 1'])
  assert.equal((await store.replay()).published, 1)
  const [, , , after] = [null, ...(await readEvents())]
  const { traceparent: _, ...before } = events[2]?.event ?? assert.fail()
  assert.deepEqual(after?.event, before)
  assert.deepEqual((await store.verify()).findings, [])
})

function pickMove({ status, reference, tracking }: { status?: string; reference?: string; tracking?: object }) {
  return { status, ...(reference && { reference }), ...(tracking && { tracking }) }
}

interface Step {
  version: number
  status: string
  at: string
  published_at: string | null
  mail: { status: string; queued_at: string; sent_at: string | null; failed_at: string | null; attempts: number } | null
  lake_at: string | null
}
