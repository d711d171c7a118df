import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import pino from 'pino'
import { Value } from 'typebox/value'
import { createCatalogueOperator, eur } from '../../test/catalogue-operator.ts'
import { eventually } from '../../test/eventually.ts'
import { startStore } from '../../test/store.ts'
import { inTransaction } from '../db/transaction.ts'
import { createEventBackfill } from './backfill-events.ts'
import { CATALOGUE_EVENT_TYPES, type ProductEventRecord, toCatalogueEvent } from './catalogue-event.ts'
import { findCatalogueEventDefect, findRecordDefect } from './catalogue-event-defects.ts'
import { catalogueEventSchemas } from './catalogue-event-schemas.ts'
import { recordProductEvents } from './change-catalogue.ts'
import { saveStockEventPercent } from './product-events.ts'

const store = await startStore({ after })
const { call, create, patch, setStock, eventsOf, typesOf } = await createCatalogueOperator(store)
const importLines = async (...lines: object[]) => {
  const raw = lines.map((line) => JSON.stringify({ name: 'A lamp', category: 'lamps', price: eur(1_999), ...line })).join('\n')
  const { text } = await call('POST', '/admin/products/import', { raw, headers: { 'content-type': 'application/x-ndjson' } })
  return JSON.parse(text.trim().split('\n').at(-1) ?? '')
}
const PAGE = {
  brand: 'Potter & Sons',
  compare_at_price: eur(2_500),
  images: [{ url: 'https://images.example/a', alt: 'A', width: 8, height: null }],
  seo: { title: 'Lamps', description: null },
  availability_text: 'Ships in 3 days',
  group: 'lamp',
  options: { colour: 'red' },
  attributes: { watts: 8, tags: ['a', 'b'] },
  translations: { de: { name: 'Eine Lampe' } },
  prices: [{ amount: 1_800, compare_at: 2_000, currency: 'USD' }],
}

test('a created product is recorded whole, as its page shows it', async () => {
  for (const product of [await create(PAGE), await create({ image_url: 'https://images.example/b' }), await create()]) {
    const [event, ...others] = await eventsOf(product.id)
    assert.deepEqual([event.version, event.type, others], [1, 'product.created', []])
    const { in_stock: _, updated_at: _updated, lowest_price_30_days: _lowest, ...page } = product
    const categories = page.categories.map(({ path: _path, ...category }: { path: unknown }) => category)
    assert.deepEqual(event.data, { product: { attributes: {}, ...page, categories, status: null, archived_at: null } })
  }
})

test('the event contains the trace of the request', async () => {
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
  const body = { name: 'A', category: 'c', price: eur(1), sku: 'TRACED' }
  const { json } = await call('POST', '/admin/products', { body, headers: { traceparent } })
  assert.equal((await eventsOf(json.id))[0].traceparent, traceparent)
})

test('changing each single property is an update, and changing nothing is no event', async () => {
  const { id, ...created } = await create()
  let version = 1
  for (const [name, value] of Object.entries({
    ...PAGE,
    compare_at_price: null,
    name: 'B',
    sku: 'OTHER',
    slug: 'other',
    description: 'D',
  })) {
    const isChanged = JSON.stringify(Reflect.get(created, name) ?? null) !== JSON.stringify(value)
    if (name === 'options') continue
    await patch(id, name === 'group' ? { group: value, options: PAGE.options } : { [name]: value })
    await patch(id, name === 'group' ? { group: value, options: PAGE.options } : { [name]: value })
    // A price in another currency has an event of its own, too.
    if (isChanged) version += name === 'prices' ? 2 : 1
    assert.equal((await eventsOf(id)).length, version, name)
  }
  assert.deepEqual(new Set((await eventsOf(id)).map(({ type }) => type)), new Set(['product.created', 'product.updated', 'price.changed']))
})

test("a new price has an event of its own, which comes before the product's event", async () => {
  const { id, sku } = await create()
  await patch(id, { price: eur(1_500), compare_at_price: eur(1_999) })
  await patch(id, { compare_at_price: null })
  assert.deepEqual(await typesOf(id), [
    ...['1 product.created', '2 price.changed', '3 product.updated', '4 price.changed', '5 product.updated'],
  ])
  const [, first, , second] = await eventsOf(id)
  const shared = { product_id: id, sku, price: eur(1_500) }
  assert.deepEqual(first.data, {
    ...{ ...shared, previous_price: eur(1_999), compare_at_price: eur(1_999), previous_compare_at_price: null },
  })
  assert.deepEqual(second.data, {
    ...{ ...shared, previous_price: eur(1_500), compare_at_price: null, previous_compare_at_price: eur(1_999) },
  })
})

test("the events of one change have the same time, which is never before the last event's, even if the clock was set back", async () => {
  const { id } = await create({ price: eur(5) })
  await patch(id, { name: 'Other', price: eur(6), prices: [{ amount: 7, currency: 'USD' }] })
  const timesOf = async () => {
    const { rows } = await store.pool.query<{ time: Date }>(
      `select occurred_at as time from product_events where product_id = $1 and stream = 'product' order by version`,
      [id],
    )
    return rows.map(({ time }) => time.getTime())
  }
  const [, ...changed] = await timesOf()
  assert.equal(changed.length, 3)
  assert.equal(new Set(changed).size, 1)
  await store.pool.query(`update product_events set occurred_at = now() + interval '1 hour' where product_id = $1 and version = 4`, [id])
  await patch(id, { name: 'After the step back' })
  const times = await timesOf()
  assert.equal(times.at(-1), times.at(-2))
})

test('archiving a product, and selling it again by an import, are events', async () => {
  const { id, sku } = await create()
  assert.equal((await call('DELETE', `/admin/products/${id}`, { headers: { 'if-match': '*' } })).status, 204)
  assert.equal((await call('DELETE', `/admin/products/${id}`)).status, 404)
  await importLines({ sku, price: eur(5) })
  assert.deepEqual(await typesOf(id), ['1 product.created', '2 product.archived', '3 price.changed', '4 product.restored'])
  const [, archived, , restored] = await eventsOf(id)
  assert.match(archived.data.product.archived_at, /^\d{4}-.*T.*Z$/)
  assert.deepEqual([restored.data.product.archived_at, restored.data.product.price], [null, eur(5)])
})

test('an import records what it changes, and records nothing if every line is unchanged', async () => {
  const lines = [
    { sku: 'I-1', ...PAGE, slug: 'i one' },
    { sku: 'I-2', stock: 3 },
    { sku: 'I-3', stock: 0 },
  ]
  const count = async () => (await store.pool.query('select count(*) as count from product_events')).rows[0].count
  const before = await count()
  await importLines(...lines)
  // One of them is out of stock.
  assert.equal(await count(), before + 4)
  assert.deepEqual(await importLines(...lines), { created: 0, updated: 0, unchanged: 3, failed: 0 })
  assert.equal(await count(), before + 4)
  // Stock alone changes, and the catalogue shows it as `in_stock`.
  assert.equal((await importLines({ sku: 'I-3', stock: 1 })).updated, 1)
  assert.equal(await count(), before + 5)
  await importLines({ sku: 'I-2', name: 'Other', stock: 3 }, ...lines.slice(0, 1))
  assert.equal(await count(), before + 6)
})

test('a product renamed back and forth a thousand times has a thousand versions in order', async () => {
  const { id } = await create({ name: 'Forth' })
  for (let version = 2; version <= 1_000; version++) {
    await inTransaction(store.pool, async (tx) => {
      await tx.query('update products set name = $2 where id = $1', [id, version % 2 === 0 ? 'Back' : 'Forth'])
      await recordProductEvents(tx, [id], null)
    })
  }
  const events = await eventsOf(id)
  assert.deepEqual(
    events.map(({ version, data }) => `${version} ${data.product.name}`),
    Array.from({ length: 1_000 }, (_, index) => `${index + 1} ${index % 2 === 0 ? 'Forth' : 'Back'}`),
  )
})

test('concurrent writers of one product get one version each', async () => {
  const { id, sku } = await create()
  await Promise.all([
    ...Array.from({ length: 8 }, (_, index) => patch(id, { name: `Name ${index}` })),
    ...Array.from({ length: 4 }, (_, index) => importLines({ sku, name: `Imported ${index}` })),
  ])
  const events = await eventsOf(id)
  assert.deepEqual(
    events.map(({ version }) => version),
    Array.from({ length: 13 }, (_, index) => index + 1),
  )
  assert.equal(events.at(-1).data.product.name, (await store.call('GET', `/products/${id}`)).json.name)
})

test('a change that is rolled back is no event', async () => {
  const { id } = await create()
  await assert.rejects(
    inTransaction(store.pool, async (tx) => {
      await tx.query(`update products set name = 'Never' where id = $1`, [id])
      assert.equal(await recordProductEvents(tx, [id], null), 1)
      throw new Error('changed my mind')
    }),
  )
  assert.deepEqual(await typesOf(id), ['1 product.created'])
})

test("if somebody damaged an event, the product's state is recorded again under the next version", async () => {
  const { id } = await create()
  await store.pool.query(
    `insert into product_events (product_id, stream, version, type, occurred_at, data) values ($1, 'product', 2, 'product.exploded', now(), '[1]')`,
    [id],
  )
  await patch(id, { name: 'Sound' })
  assert.deepEqual((await typesOf(id)).slice(-1), ['3 product.updated'])
})

test('the API cannot change or remove recorded events', async () => {
  const { rows } = await store.pool.query<{ rights: string[] }>(
    `select array_agg(privilege_type::text) as rights from information_schema.role_table_grants where table_name = 'product_events' and grantee <> 'postgres'
     and grantee <> current_user`,
  )
  assert.deepEqual(new Set(rows[0]?.rights), new Set(['SELECT']))
})

test('products without events are recorded once, in batches, also if two processes run', async () => {
  const ids = await Promise.all(Array.from({ length: 3 }, async () => (await create({ stock: 0 })).id))
  const changed = (await create()).id
  await store.pool.query('delete from product_events where product_id = any($1)', [ids])
  await store.pool.query(`insert into product_event_backfill values ('00000000-0000-0000-0000-000000000000')`)
  const options = { pool: store.pool, logger: pino({ level: 'silent' }) }
  const services = [createEventBackfill(options), createEventBackfill(options)]
  for (const service of services) await service.start()
  await eventually(async () => (await store.pool.query('select from product_event_backfill')).rowCount === 0)
  for (const service of services) await service.stop()
  for (const id of ids) {
    assert.deepEqual(await typesOf(id), ['1 product.created'])
    assert.deepEqual(await typesOf(id, 'stock'), ['1 stock.depleted'])
  }
  assert.deepEqual(await typesOf(changed), ['1 product.created'])
})

test('if the process that records products without events dies, another one continues', async () => {
  const { id } = await create()
  await store.pool.query('delete from product_events where product_id = $1', [id])
  await store.pool.query(`insert into product_event_backfill values ('00000000-0000-0000-0000-000000000000')`)
  const dying = await store.pool.connect()
  await dying.query('begin; select from product_event_backfill for update')
  const backfill = createEventBackfill({ pool: store.pool, logger: pino({ level: 'silent' }) })
  await backfill.start()
  const isWaiting = `select from pg_stat_activity where wait_event_type = 'Lock' and query ~ 'backfill_product_events'`
  await eventually(async () => (await store.pool.query(isWaiting)).rowCount === 1)
  dying.release(true)
  await eventually(async () => (await store.pool.query('select from product_event_backfill')).rowCount === 0)
  await backfill.stop()
  assert.deepEqual(await typesOf(id), ['1 product.created'])
})

test('every recorded event matches its schema, and none of its members may be missing', async (t) => {
  t.after(() => saveStockEventPercent(store.pool, 0))
  await saveStockEventPercent(store.pool, 10)
  const { id } = await create({ ...PAGE, stock: 20 })
  await setStock(id, 5)
  for (const change of [{ price: eur(5) }, { prices: [{ amount: 5, currency: 'USD' }] }, { prices: [] }]) await patch(id, change)
  const { rows } = await store.pool.query<ProductEventRecord>(
    `select distinct on (type, json_typeof(data -> 'price'), json_typeof(data -> 'previous_price')) product_id, stream, version::text as version, type, occurred_at, traceparent, data
    from product_events
    where type <> 'product.exploded' and (traceparent is not null or stream = 'stock')
    order by type, json_typeof(data -> 'price'), json_typeof(data -> 'previous_price'), occurred_at desc`,
  )
  assert.equal(rows.filter(({ type }) => type === 'price.changed').length, 3)
  const schemas = catalogueEventSchemas()
  assert.deepEqual(new Set(rows.map(({ type }) => `storefront.${type}`)), new Set(CATALOGUE_EVENT_TYPES))
  for (const record of rows) {
    assert.equal(findRecordDefect(record), null)
    const event = JSON.parse(JSON.stringify(toCatalogueEvent(record)))
    const schema = schemas[event.type]
    assert.ok(schema)
    assert.equal(findCatalogueEventDefect(event), null)
    assert.deepEqual([...Value.Errors(schema, event)], [], JSON.stringify(event))
    for (const name of ['id', 'type', 'subject', 'sequence', 'time', 'data']) {
      const { [name]: _, ...rest } = event
      assert.equal(Value.Check(schema, rest), false, name)
      assert.notEqual(findCatalogueEventDefect(rest), null, name)
    }
    for (const name of Object.keys(event.data)) {
      const { [name]: _, ...data } = event.data
      assert.equal(Value.Check(schema, { ...event, data }), false, `${event.type} ${name}`)
    }
    for (const name of ['categories', 'translations', 'prices', 'images', 'price']) {
      if (event.data.product === undefined) continue
      for (const wrong of ['text', [1], [{}]])
        assert.notEqual(findCatalogueEventDefect({ ...event, data: { product: { ...event.data.product, [name]: wrong } } }), null, name)
    }
    assert.notEqual(findCatalogueEventDefect({ ...event, sequence: '0000000000' }), null)
    assert.notEqual(findCatalogueEventDefect({ ...event, subject: event.id }), null)
  }
})

test('a change to a product that the backfill has not reached yet also records the state before the change', async (t) => {
  const waiting = async () => {
    const product = await create()
    await store.pool.query('delete from product_events where product_id = $1', [product.id])
    return product
  }
  t.after(() => store.pool.query('delete from product_event_backfill'))
  await store.pool.query(`insert into product_event_backfill values ('00000000-0000-0000-0000-000000000000')`)
  const [changed, imported, archived] = [await waiting(), await waiting(), await waiting()]
  await patch(changed.id, { price: eur(2_500) })
  await importLines({ sku: imported.sku, price: eur(2_500) })
  assert.equal((await call('DELETE', `/admin/products/${archived.id}`, { headers: { 'if-match': '*' } })).status, 204)
  for (const { id } of [changed, imported]) {
    const events = await eventsOf(id)
    assert.deepEqual(
      events.map(({ version, type }) => `${version} ${type}`),
      ['1 product.created', '2 price.changed', '3 product.updated'],
    )
    assert.deepEqual([events[0].data.product.price, events[1].data.previous_price], [eur(1_999), eur(1_999)])
  }
  assert.deepEqual(await typesOf(archived.id), ['1 product.created', '2 product.archived'])
  assert.equal((await eventsOf(archived.id))[0].data.product.archived_at, null)
  assert.deepEqual((await patch(changed.id, { price: eur(2_200), compare_at_price: eur(2_500) })).lowest_price_30_days, eur(1_999))
})
