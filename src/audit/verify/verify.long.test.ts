import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { copyFile, readdir, rm, truncate, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { allowBrokenRows } from '../../../test/broken-rows.ts'
import { addBuyer } from '../../../test/buyers.ts'
import { onCleanup } from '../../../test/cleanup.ts'
import { eventually } from '../../../test/eventually.ts'
import { commitFile } from '../../../test/lake-harness.ts'
import { startAuditedStore, startStoreWithFiles, summarise } from '../../../test/pipeline-audit.ts'
import { dropSlot } from '../../../test/stream-harness.ts'
import { orderSlotOf } from '../../app/prepare-database.ts'
import { openReplication } from '../../change-stream/replication-connection.ts'
import { PUBLICATION } from '../../change-stream/replication-slot.ts'
import { recordRefill } from '../../change-stream/slot-positions.ts'
import { formatReport } from './format-report.ts'
import type { VerifyReport } from './verify.ts'

/** The lake's files, oldest first. */
async function filesOf(lake: string): Promise<string[]> {
  const names = await readdir(join(lake, 'orders'), { recursive: true })
  return names
    .filter((name) => name.endsWith('.parquet'))
    .sort()
    .map((name) => join(lake, 'orders', name))
}

test('repeated runs report no fault of a busy store', async (t) => {
  // On a slow machine one customer trades for a long time.
  const store = await startAuditedStore(t, { maxPendingOrdersPerUser: null })
  await store.startPipeline()
  let isTrading = true
  const trading = (async () => {
    while (isTrading) {
      await store.trade(3)
      // Because of these pauses, no run has more to read than the previous one.
      await delay(100)
    }
  })()
  try {
    for (let look = 0; look < 8; look++) assert.deepEqual((await store.verify()).findings, [])
  } finally {
    isTrading = false
    await trading
  }
  await store.untilDelivered()
  // A mail that was sent again is neither doubled nor of no event.
  await store.pool.query(
    `insert into email_deliveries (event_id, order_id, user_id, event_type, status)
    select event_id || '.copy1', order_id, user_id, event_type, status from email_deliveries limit 1`,
  )
  const report = await store.verify()
  assert.deepEqual(report.findings, [])
  assert.deepEqual([report.topic.lag.events, report.mails.lag.events, report.lake.lag.events], [0, 0, 0])
  assert.deepEqual(report.undecided, [])
  assert.match(formatReport(report), /\nnothing is missing, doubled or corrupt$/)
})

test('compares the orders of a range, and consecutive ranges compare each order exactly once', async (t) => {
  const store = await startAuditedStore(t, { maxPendingOrdersPerUser: null })
  const stop = await store.startPipeline()
  const early = await store.trade(4)
  await delay(5)
  const between = new Date()
  const late = await store.trade(5)
  await store.untilDelivered()
  await stop()
  const [missing = '', unmailed = ''] = late
  await store.pool.query(`delete from topic_messages where id = $1`, [`${missing}.1`])
  await store.pool.query(`delete from email_deliveries where event_id = $1`, [`${unmailed}.1`])
  const all = await store.verify()
  const before = await store.verify(0, { from: undefined, to: between })
  const after = await store.verify(0, { from: between, to: undefined })
  assert.deepEqual(before.findings, [])
  assert.deepEqual(summarise(after), ['topic missing 1', 'mails missing 1'])
  assert.deepEqual(summarise(all), summarise(after))
  const sizes = ({ orders, topic, mails, lake }: VerifyReport) => [orders.orders, orders.versions, topic.events, mails.sent, lake.events]
  assert.deepEqual([before.orders.orders, after.orders.orders], [early.length, late.length])
  assert.deepEqual(
    sizes(before).map((size, place) => size + (sizes(after)[place] ?? 0)),
    sizes(all),
  )
  const none = await store.verify(0, { from: new Date(Date.now() + 1_000), to: undefined })
  assert.deepEqual([sizes(none), none.findings], [[0, 0, 0, 0, 0], []])
})

test('counts changes in a slot without a reader as lag, and other changes as missing', async (t) => {
  const store = await startStoreWithFiles(t, [3])
  const [held = ''] = await store.trade(2)
  const waiting = await store.verify()
  assert.deepEqual([waiting.findings, waiting.topic.lag.events, waiting.undecided], [[], 2, []])
  assert.match(formatReport(waiting), /; 2 events on the way, the oldest for [\d.]+ s\n[\s\S]*\nnothing is missing, doubled or corrupt$/)
  await store.pool.query(`delete from topic_messages where sequence = (select min(sequence) from topic_messages)`)
  const report = await store.verify()
  assert.deepEqual(summarise(report), ['topic missing 1'])
  assert.ok(!report.findings[0]?.examples.includes(`${held}.1`))
  await store.replay()
  await store.startPipeline()
  await store.untilDelivered()
})

test('reports an undecided result while a reader of the slot neither confirms the changes nor ends', async (t) => {
  const store = await startStoreWithFiles(t, [1])
  // This reader confirms nothing.
  const reader = await openReplication(store.url, orderSlotOf(store.url), () => {}, { publication: PUBLICATION })
  onCleanup(t, () => reader.close())
  reader.pause()
  const orders = await store.trade(2)
  const report = await store.verify(300)
  assert.deepEqual([report.findings, report.topic.isSettled, report.topic.lag.events], [[], false, 2])
  assert.deepEqual(report.undecided, ['topic'])
  const text = formatReport(report)
  assert.match(text, /\ntopic .*; 2 events on the way, .*so they may be missing\n/)
  assert.match(text, /\ncannot tell whether anything is missing: see topic$/)
  assert.doesNotMatch(text, /nothing is missing/)
  // Missing mails are reported all the same, together with the undecided places.
  await store.pool.query(`delete from email_deliveries where event_id <> all ($1)`, [orders.map((id) => `${id}.1`)])
  const ill = await store.verify(300)
  assert.deepEqual([summarise(ill), ill.undecided], [['mails missing 1'], ['topic']])
  assert.match(formatReport(ill), /\n1 kind of fault; cannot tell whether more is missing: see topic$/)
  await reader.close()
  assert.deepEqual((await store.verify()).undecided, [])
  await store.replay()
})

test('reports a subscriber with too much lag as undecided, because it may have lost events', async (t) => {
  const store = await startStoreWithFiles(t, [2])
  // The rest looks like a new lake, and so does a wrong folder.
  await rm(store.lake, { recursive: true })
  await store.pool.query('delete from email_deliveries')
  await store.pool.query(`delete from topic_subscribers where name = 'email'`)
  const fresh = await store.verify(60_000)
  assert.deepEqual([fresh.findings, fresh.mails.lag.events, fresh.lake.lag.events, fresh.undecided], [[], 2, 2, []])
  // The order is as old as its event.
  const longAgo = '2026-01-01T00:00:00.000Z'
  const { rows } = await store.pool.query<{ order_id: string }>(
    `update topic_messages set event = replace(event::text, event ->> 'time', $1)::json
    where sequence = (select min(sequence) from topic_messages)
    returning event ->> 'subject' as order_id`,
    [longAgo],
  )
  await store.pool.query(
    `update orders set created_at = $2::text::timestamptz, updated_at = $2::text::timestamptz,
      status_history = jsonb_set(status_history, '{0,at}', to_jsonb($2::text))
    where id = $1`,
    [rows[0]?.order_id, longAgo],
  )
  const report = await store.verify(60_000)
  assert.deepEqual([report.findings, report.undecided], [[], ['mails', 'lake']])
  const text = formatReport(report)
  assert.match(text, /\nmails .*; 2 events on the way, the oldest for \d+.* s, longer than it should take\n/)
  assert.match(text, /\nlake .*; 2 events on the way, the oldest for \d+.* s, longer than it should take\n/)
  assert.match(text, /\ncannot tell whether anything is missing: see mails, lake$/)
})

test('reports each kind of fault with its place, count and examples', async (t) => {
  const store = await startAuditedStore(t)
  const stop = await store.startPipeline()
  const orders: string[] = []
  for (let file = 0; file < 4; file++) {
    orders.push(...(await store.trade(1)))
    await store.untilDelivered()
  }
  await stop()
  const event = (index: number) => `${orders[index]}.1`
  const files = await filesOf(store.lake)
  assert.equal(files.length, 4)
  const nobody = `${randomUUID()}.1`

  await store.pool.query('delete from topic_messages where id = $1', [event(0)])
  await store.pool.query(`update topic_messages set event = replace(event::text, '1250', '9999')::json where id = $1`, [event(1)])
  await store.pool.query('delete from email_deliveries where event_id = $1', [event(1)])
  await store.pool.query(
    `insert into email_deliveries (event_id, order_id, user_id, event_type, status)
    values ($1, gen_random_uuid(), gen_random_uuid(), 'storefront.order.created', 'sent')`,
    [nobody],
  )
  await unlink(files[1] ?? '')
  const copy = (files[2] ?? '').slice(store.lake.length + 1).replace(/\w{16}\.parquet$/, '0123456789abcdef.parquet')
  await copyFile(files[2] ?? '', join(store.lake, copy))
  await commitFile(store.lakeStore, copy)
  await truncate(files[3] ?? '', 900)

  const report = await store.verify(0)
  const found = new Map(report.findings.map(({ place, kind, examples }) => [`${place} ${kind}`, examples]))
  assert.deepEqual(found.get('topic missing'), [event(0)])
  assert.deepEqual(found.get('topic altered'), [event(1)])
  assert.deepEqual(found.get('mails missing'), [event(1)])
  assert.deepEqual(found.get('mails unknown'), [nobody])
  assert.deepEqual([found.get('lake missing'), report.lake.lag.events], [[event(1), event(3)].toSorted(), 0])
  assert.deepEqual(found.get('lake doubled'), [event(2)])
  assert.deepEqual(
    found
      .get('lake corrupt')
      ?.map((line) => line.split(': ')[0])
      .sort(),
    [files[1], files[3]],
  )
  assert.equal(found.size, 7)
  assert.match(formatReport(report), /topic: 1 missing \(storefront replay publishes them\)\n {2}[0-9a-f-]{36}\.1\n/)

  await store.pool.query('delete from email_deliveries where event_id = $1', [nobody])
  await store.pool.query('delete from topic_messages where id = $1', [event(1)])
  await store.replay()
})

test('finds an event whose payment or parcel differs from its order', async (t) => {
  const store = await startAuditedStore(t)
  const stop = await store.startPipeline()
  const [first = '', second = ''] = await store.trade(2)
  const admin = await addBuyer(store, 'admin')
  const tracking = { carrier: 'DHL', number: 'JJD0001', url: 'https://track.example/1' }
  for (const id of [first, second])
    for (const body of [
      { to: 'confirmed', reference: 'pay_1' },
      { to: 'shipped', reference: 'parcel_1', tracking },
    ])
      await admin.ok('POST', `/admin/orders/${id}/transitions`, { body })
  await store.untilDelivered()
  await stop()
  assert.deepEqual((await store.verify()).findings, [])
  const alter = (id: string, from: string, to: string) =>
    store.pool.query('update topic_messages set event = replace(event::text, $2, $3)::json where id = $1', [id, from, to])
  await alter(`${first}.2`, 'pay_1', 'pay_2')
  await alter(`${second}.3`, 'JJD0001', 'JJD0002')
  const report = await store.verify()
  assert.deepEqual(
    report.findings.map(({ place, kind, examples }) => [place, kind, examples]),
    [
      ['topic', 'altered', [`${first}.2`, `${second}.3`].sort()],
      // The lake has parcels, and no references of moves.
      ['lake', 'altered', [`${second}.3`]],
    ],
  )
})

test('finds an event that follows a later version of its order, unless a replay has published it', async (t) => {
  const store = await startAuditedStore(t)
  const stop = await store.startPipeline()
  // The first fill of the topic ends before the stream reads the slot.
  const isRead = async () =>
    (await store.pool.query('select from pg_replication_slots where active and slot_name = $1', [orderSlotOf(store.url)])).rowCount === 1
  await eventually(isRead, { what: 'the stream reads its slot' })
  const cancelled = (await store.trade(3)).at(-1)
  await store.untilDelivered()
  await stop()
  await store.pool.query('update topic_messages set sequence = default where id = $1', [`${cancelled}.1`])
  const unordered = async () => (await store.verify()).findings.find(({ kind }) => kind === 'unordered')
  assert.deepEqual(await unordered(), { place: 'topic', kind: 'unordered', count: 1, examples: [`${cancelled}.2`] })
  await store.pool.query(`update topic_messages set position = '' where id = $1`, [`${cancelled}.1`])
  assert.equal(await unordered(), undefined)
})

test('finds a file that is not Parquet, and a history that lacks a version', async (t) => {
  const store = await startAuditedStore(t)
  await store.startPipeline()
  const [order = ''] = await store.trade(2)
  await store.untilDelivered()
  const [file = ''] = await filesOf(store.lake)
  await writeFile(file, 'PAR1 it is not')
  await allowBrokenRows(store.pool)
  await store.pool.query(`update orders set status_history = '[]' where id = $1`, [order])
  const found = new Map((await store.verify()).findings.map(({ place, kind, examples }) => [`${place} ${kind}`, examples]))
  assert.deepEqual(found.get('orders corrupt'), [`${order}.1`])
  assert.equal(found.get('lake corrupt')?.length, 1)
})

test('reports that the change stream has lost its slot, and counts unpublished events as in flight, because a refill publishes them', async (t) => {
  const store = await startStoreWithFiles(t, [1])
  await dropSlot({ pool: store.pool, slotName: orderSlotOf(store.url) })
  await store.trade(2)
  const lost = await store.verify()
  assert.deepEqual([summarise(lost), lost.topic.lag.events], [['change stream lost 1'], 2])
  await store.replay()
})

test('reports a refill that has not ended, even if the slot is valid', async (t) => {
  const store = await startStoreWithFiles(t, [1])
  await recordRefill(store.pool, orderSlotOf(store.url), { id: randomUUID(), reason: 'this test' })
  assert.deepEqual(summarise(await store.verify()), ['change stream lost 1'])
  await store.pool.query('update slot_positions set refill_id = null')
})

test('counts all events of a new row in an unread slot as in flight, such as those of an imported order', async (t) => {
  const store = await startAuditedStore(t)
  const stop = await store.startPipeline()
  const [order = ''] = await store.trade(1)
  await store.untilDelivered()
  await stop()
  const copy = randomUUID()
  await store.pool.query(
    `insert into orders (id, user_id, status, items, product_ids, total_amount, currency, version, status_history, created_at, updated_at)
    select $2, user_id, 'confirmed', items, product_ids, total_amount, currency, 2,
      jsonb_build_array(status_history -> 0, jsonb_set(status_history -> 0, '{status}', '"confirmed"')), created_at, updated_at
    from orders
    where id = $1`,
    [order, copy],
  )
  const report = await store.verify()
  assert.deepEqual([report.findings, report.topic.lag.events], [[], 2])
  await store.startPipeline()
  await store.untilDelivered()
})

test("reports orders, products and stock that break the database's rules, as text and with ids", async (t) => {
  const store = await startAuditedStore(t)
  await store.startPipeline()
  const [short = '', unwhole = '', both = ''] = (await store.trade(5)).filter((_, index) => (index + 1) % 3 !== 0)
  const lamp = await store.addProduct({ stock: 3 })
  const vase = await store.addProduct({ stock: 3 })
  await store.untilDelivered()
  assert.deepEqual((await store.verify()).findings, [])
  await allowBrokenRows(store.pool)
  await store.pool.query(`update orders set items = replace(items::text, '"quantity":1', '"quantity":0')::json where id = any($1)`, [
    [short, both],
  ])
  await store.pool.query(`update orders set items = '[{"sku": "\\u0000"}]' where id = $1`, [both])
  await store.pool.query(`update orders set status_history = jsonb_set(status_history, '{0,status}', '"confirmed"') where id = any($1)`, [
    [unwhole, both],
  ])
  await store.pool.query(`update products set price_amount = -5 where id = $1`, [lamp.id])
  await store.pool.query(`update products set price_currency = 'euro' where id = $1`, [vase.id])
  await store.pool.query('update inventory set available = -2 where product_id = $1', [vase.id])
  const report = await store.verify()
  const invalid = report.findings.filter(({ kind }) => kind === 'invalid')
  const lines = 'the lines lack a product, a quantity or a price, or do not add up to the total'
  const history = 'the status history does not lead from pending to the status, one entry a version'
  assert.deepEqual(
    invalid.map(({ place, count, examples }) => ({ place, count, examples: examples.toSorted() })),
    [
      { place: 'orders', count: 3, examples: [`${short}: ${lines}`, `${unwhole}: ${history}`, `${both}: ${lines}; ${history}`].sort() },
      { place: 'products', count: 2, examples: invalid[1]?.examples.toSorted() ?? [] },
      { place: 'stock', count: 1, examples: [`${vase.id}: -2 are available`] },
    ],
  )
  assert.deepEqual(invalid[1]?.examples.map((example) => example.split(':')[0]).sort(), [lamp.id, vase.id].sort())
  assert.match(formatReport(report), /\norders: 3 invalid \(the database refuses such rows now: [^\n]+\)\n {2}[0-9a-f-]{36}: the /)
})

test('reports a wrong count of pending orders, search texts that differ from the orders, and an inconsistent stock history', async (t) => {
  const store = await startAuditedStore(t)
  const stop = await store.startPipeline()
  await store.trade(3)
  const products = await Promise.all([1, 2, 3].map(() => store.addProduct({ stock: 3 })))
  const admin = await addBuyer(store, 'admin')
  for (const { id } of products)
    for (const delta of [1, 2]) {
      const call = { token: admin.token, body: { delta, reference: `delivery ${delta}` } }
      assert.equal((await store.call('POST', `/admin/products/${id}/stock/adjustments`, call)).status, 201)
    }
  await store.untilDelivered()
  await stop()
  assert.deepEqual((await store.verify()).findings, [])
  const { rows } = await store.pool.query<{ user_id: string }>(
    'update pending_order_counts set pending = 5 where pending = 2 returning user_id',
  )
  const [whole, first, last] = products.map(({ id }) => id)
  const alter = (id: string | undefined, which: 'min' | 'max') =>
    store.pool.query(
      `update stock_adjustments set available_after = available_after + 10
      where product_id = $1 and version = (select case $2 when 'min' then min(version) else max(version) end from stock_adjustments where product_id = $1)`,
      [id, which],
    )
  await alter(first, 'min')
  await alter(last, 'max')
  const numbers = (await store.pool.query<{ id: string; number: number }>('select id, number from orders order by number')).rows
  const [missing, differing] = numbers.map(({ number }) => number)
  await store.pool.query('delete from order_search_texts where number = $1', [missing])
  await store.pool.query(`update order_search_texts set words = ' other' where number = $1`, [differing])
  await store.pool.query(`insert into order_search_texts values (1, ' nobody')`)
  const [counts, search, stock, ...others] = (await store.verify()).findings
  assert.deepEqual(others, [])
  assert.deepEqual(
    [search?.place, search?.kind, search?.examples.toSorted()],
    [
      'order search',
      'invalid',
      [
        `${numbers[0]?.id}: the order has no search text`,
        `${numbers[1]?.id}: the search text differs from the order`,
        'number 1: the search text belongs to no order',
      ].sort(),
    ],
  )
  assert.deepEqual([counts?.place, counts?.examples], ['order counts', [`${rows[0]?.user_id}: 5 orders are counted as pending, 2 are`]])
  assert.deepEqual([stock?.place, stock?.kind, stock?.count], ['stock', 'invalid', 2])
  for (const id of [first, last]) assert.ok(stock?.examples.some((example) => example.startsWith(`${id}: its adjustment of version `)))
  assert.ok(!stock?.examples.some((example) => example.startsWith(whole ?? '')))
})
