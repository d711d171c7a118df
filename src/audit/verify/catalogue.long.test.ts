import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { onCleanup } from '../../../test/cleanup.ts'
import { eventually } from '../../../test/eventually.ts'
import { registerOperator } from '../../../test/register-operator.ts'
import { startStore, type TestStore } from '../../../test/store.ts'
import { silent } from '../../../test/stream-harness.ts'
import { openLake } from '../../app/open-lake.ts'
import { catalogueSlotOf } from '../../app/prepare-database.ts'
import { createEventBackfill } from '../../catalogue/backfill-events.ts'
import { CATALOGUE } from '../../topic/partitions.ts'
import { createPostgresTopic } from '../../topic/postgres/postgres-topic.ts'
import { replayCatalogue } from '../replay/replay-catalogue.ts'
import { compareCatalogue } from './verify.ts'

async function makeShop(t: TestContext) {
  const store = await startStore(t, { roles: ['api', 'stream'] })
  // Wait for the slot: the first fill of the topic publishes earlier events in no order.
  const slot = [catalogueSlotOf(store.url)]
  await eventually(
    async () => (await store.pool.query('select from pg_replication_slots where active and slot_name = $1', slot)).rowCount === 1,
    { what: 'the stream reads its slot' },
  )
  const operator = await registerOperator(store)
  const topic = createPostgresTopic(CATALOGUE, { pool: store.pool, url: store.url, logger: silent })
  const create = async (sku: string, changes: object = {}): Promise<string> => {
    const body = { sku, name: 'A lamp', category: 'lamps', price: { amount: 5, currency: 'EUR' }, ...changes }
    return (await operator.ok('POST', '/admin/products', { body })).id
  }
  const options = {
    pool: store.pool,
    streamUrl: store.addresses.stream,
    topic,
    slotName: catalogueSlotOf(store.url),
    lake: await openLake(store.config),
    now: () => new Date(),
    patienceMs: 60_000,
  }
  onCleanup(t, () => options.lake.close())
  const compare = () => compareTopic(options)
  const findings = async () => (await compare()).findings.map(({ place, kind, examples }) => [place, kind, examples])
  const replay = () => replayCatalogue(options)
  return { store, create, compare, options, findings, replay }
}

/** The report of the topic and of the products, with all findings. No process writes the lake. */
async function compareTopic(options: Parameters<typeof compareCatalogue>[0]) {
  const { catalogue, findings } = await compareCatalogue(options)
  return { ...catalogue, findings }
}

const published = (store: TestStore, count: number) =>
  eventually(async () => (await store.pool.query('select from catalogue_messages')).rowCount === count, { what: `${count} events` })

test('a catalogue whose events are all published has no findings', async (t) => {
  const { store, create, compare } = await makeShop(t)
  const id = await create('A', { stock: 0 })
  await store.pool.query('update inventory set available = 5 where product_id = $1', [id])
  assert.deepEqual(await compare(), { events: 3, published: 3, waiting: 0, toRecord: 0, isSettled: true, findings: [] })
})

test('a change made by SQL is reported, and a replay records it', async (t) => {
  const { store, create, findings, replay } = await makeShop(t)
  const [id, other] = [await create('A', { stock: 3 }), await create('B')]
  await published(store, 2)
  await store.pool.query(`update products set name = 'By hand', price_amount = 7 where id = $1`, [id])
  await store.pool.query('alter table inventory disable trigger user')
  await store.pool.query('update inventory set available = 0 where product_id = $1', [id])
  await store.pool.query('alter table inventory enable trigger user')
  await store.pool.query('delete from product_events where product_id = $1', [other])
  await store.pool.query('delete from catalogue_messages where id like $1', [`${other}%`])
  assert.deepEqual(await findings(), [['products', 'altered', [id, other, `${id}: its stock`]]])
  assert.equal((await replay()).recorded, 4)
  assert.deepEqual(await findings(), [])
  const { rows } = await store.pool.query(`select type from product_events where product_id = $1 order by stream, version`, [id])
  assert.deepEqual(
    rows.map(({ type }) => type),
    ['product.created', 'price.changed', 'product.updated', 'stock.depleted'],
  )
})

test('finds events that are missing in the topic, stored twice or out of order, and a replay publishes missing ones', async (t) => {
  const { store, create, findings, replay, compare } = await makeShop(t)
  const id = await create('A')
  for (const amount of [6, 7]) {
    const operator = await registerOperator(store)
    await operator.call('PATCH', `/admin/products/${id}`, {
      body: { price: { amount, currency: 'EUR' } },
      headers: { 'if-match': '*' },
    })
  }
  await published(store, 5)
  await eventually(async () => (await compare()).isSettled)
  await store.pool.query('delete from catalogue_messages where id in ($1, $2)', [`${id}.2`, `${id}.3`])
  assert.deepEqual(await findings(), [['catalogue', 'missing', [`${id}.2`, `${id}.3`]]])
  assert.deepEqual(await replay(), { recorded: 0, published: 2, dropped: [] })
  // They come after later versions, as what is published late does.
  assert.deepEqual(await findings(), [])
  await store.pool.query(`update catalogue_messages set sequence = default where id = $1`, [`${id}.1`])
  assert.deepEqual(await findings(), [['catalogue', 'unordered', [`${id}.2`, `${id}.3`, `${id}.4`, `${id}.5`]]])
  await store.pool.query('alter table catalogue_messages drop constraint catalogue_messages_id_unique')
  await store.pool.query(
    `insert into catalogue_messages (id, position, event) select id, position, event from catalogue_messages where id = $1`,
    [`${id}.1`],
  )
  await store.pool.query(`insert into catalogue_messages (id, position, event) values ('foreign', '', '{"a": 1}')`)
  const kinds = (await findings()).map(([, kind]) => kind)
  assert.deepEqual(
    kinds.filter((kind) => kind !== 'unordered'),
    ['doubled', 'corrupt'],
  )
})

test('events that are recorded during the comparison do not count as missing', async (t) => {
  const { store, create, compare, options } = await makeShop(t)
  const lost = await create('A')
  await published(store, 1)
  await eventually(async () => (await compare()).isSettled)
  await store.pool.query('delete from catalogue_messages where id = $1', [`${lost}.1`])
  let later = ''
  const pool = new Proxy(store.pool, {
    get(target, name) {
      if (name !== 'query') return Reflect.get(target, name)
      return async (...args: [string, unknown[]]) => {
        if (later === '' && JSON.stringify(args).includes('confirmed_flush_lsn')) {
          later = await create('B')
          await eventually(
            async () => (await store.pool.query('delete from catalogue_messages where id = $1', [`${later}.1`])).rowCount === 1,
          )
        }
        return target.query(...args)
      }
    },
  })
  const { findings } = await compareTopic({ ...options, pool })
  assert.notEqual(later, '')
  assert.deepEqual(
    findings.map(({ kind, examples }) => [kind, examples]),
    [['missing', [`${lost}.1`]]],
  )
})

test('finds a message that is no event behind many messages whose rows are gone', async (t) => {
  const { store, create, findings } = await makeShop(t)
  const id = await create('A')
  await published(store, 1)
  await store.pool.query(
    `insert into catalogue_messages (id, position, event)
    select $1 || '.' || version, '', event::jsonb || jsonb_build_object('id', $1 || '.' || version, 'sequence', lpad(version::text, 10, '0'))
    from catalogue_messages
    cross join generate_series(100, 1400) as version`,
    [id],
  )
  await store.pool.query(`insert into catalogue_messages (id, position, event) values ('foreign', '', '{"a": 1}')`)
  const [[place, kind, examples = []] = [], ...others] = await findings()
  assert.deepEqual([place, kind, examples.length, others], ['catalogue', 'corrupt', 1, []])
})

test('products without events are undecided if no process records them, in flight while one does, and recorded by a replay', async (t) => {
  const { store, create, options, replay } = await makeShop(t)
  const [first, second] = [await create('A', { stock: 0 }), await create('B')]
  await published(store, 3)
  await store.pool.query('delete from product_events where product_id in ($1, $2)', [first, second])
  await store.pool.query('truncate catalogue_messages')
  await store.pool.query(`insert into product_event_backfill values ('00000000-0000-0000-0000-000000000000')`)
  const compare = async (patienceMs: number) => {
    const { toRecord, isSettled, findings } = await compareTopic({ ...options, patienceMs })
    return { toRecord, isSettled, findings }
  }
  assert.deepEqual(await compare(700), { toRecord: 2, isSettled: false, findings: [] })
  const backfill = createEventBackfill({ pool: store.pool, logger: silent })
  t.after(() => backfill.stop())
  const comparing = compare(60_000)
  await backfill.start()
  const { isSettled, findings } = await comparing
  assert.deepEqual([isSettled, findings], [true, []])
  await eventually(async () => (await store.pool.query('select from product_event_backfill')).rowCount === 0)
  assert.deepEqual(await compare(60_000), { toRecord: 0, isSettled: true, findings: [] })
  await store.pool.query('delete from product_events where product_id = $1', [second])
  await store.pool.query('delete from catalogue_messages where id like $1', [`${second}%`])
  await store.pool.query(`insert into product_event_backfill values ('00000000-0000-0000-0000-000000000000')`)
  assert.equal((await replay()).recorded, 1)
  assert.deepEqual(await compare(700), { toRecord: 0, isSettled: true, findings: [] })
})

test('products of a renamed category count as still to be recorded, and a replay does not record them', async (t) => {
  const store = await startStore(t)
  const operator = await registerOperator(store)
  const { pool } = store
  const topic = createPostgresTopic(CATALOGUE, { pool, url: store.url, logger: silent })
  const body = { sku: 'A', name: 'A lamp', category: 'lamps', price: { amount: 5, currency: 'EUR' } }
  const { id } = await operator.ok('POST', '/admin/products', { body })
  // No process with the role `stream` walks through them.
  await pool.query(`update categories set name = 'Lights', slug = 'lights', renamed_at = now()`)
  const lake = await openLake(store.config)
  onCleanup(t, () => lake.close())
  const common = { pool, streamUrl: store.addresses.stream, topic, slotName: catalogueSlotOf(store.url), patienceMs: 700 }
  const options = { ...common, lake, now: () => new Date() }
  const { toRecord, findings } = await compareTopic(options)
  assert.deepEqual([toRecord, findings.filter(({ place }) => place === 'products')], [1, []])
  assert.ok(!findings.some(({ kind }) => kind === 'lost'), 'the slot was never made')
  await pool.query(`insert into slot_positions (slot_name, lost_reason) values ($1, 'a reason')`, [options.slotName])
  const lost = (await compareTopic(options)).findings.find(({ kind }) => kind === 'lost')
  assert.deepEqual([lost?.place, lost?.examples], ['change stream', [`the replication slot ${options.slotName} does not exist`]])
  assert.equal((await replayCatalogue(options)).recorded, 0)
  await pool.query('update categories set renamed_at = null')
  assert.deepEqual((await compareTopic(options)).findings.find(({ place }) => place === 'products')?.examples, [id])
})

test('a row that cannot become an event is dead-lettered, and does not count as missing', async (t) => {
  const { store, create, findings, replay } = await makeShop(t)
  const id = await create('A')
  await store.pool.query(
    `insert into product_events (product_id, stream, version, type, occurred_at, data) values ($1, 'stock', 9, 'stock.exploded', now(), '{}')`,
    [id],
  )
  await eventually(async () => (await store.pool.query('select from catalogue_dead_letters')).rowCount === 1)
  assert.deepEqual(await findings(), [['catalogue', 'dead-lettered', [`${id}.stock.9: type is no type of its stream`]]])
  assert.deepEqual((await replay()).dropped, [`${id}.stock.9`])
})
