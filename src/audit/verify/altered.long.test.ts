import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { allowBrokenRows } from '../../../test/broken-rows.ts'
import { addBuyer } from '../../../test/buyers.ts'
import { createCatalogueOperator, eur } from '../../../test/catalogue-operator.ts'
import { farFromMidnight } from '../../../test/midnight.ts'
import { startStore } from '../../../test/store.ts'
import { silent } from '../../../test/stream-harness.ts'
import { openLake } from '../../app/open-lake.ts'
import { EXAMPLE_NEW_PRODUCT } from '../../catalogue/examples.ts'
import { ORDER_EVENTS as STORED_ORDERS } from '../../change-stream/publish-order-events.ts'
import { PRODUCT_EVENTS } from '../../change-stream/publish-product-events.ts'
import { identifier, sql } from '../../db/sql.ts'
import { CATALOGUE_COLUMNS } from '../../lake/catalogue-row.ts'
import { commitFiles, eventTableOf, readSnapshot } from '../../lake/iceberg/event-table.ts'
import { newName } from '../../lake/lake-names.ts'
import { LAKE_COLUMNS } from '../../lake/lake-row.ts'
import { writeParquet } from '../../lake/parquet-writer.ts'
import { isStatus } from '../../orders/order-status.ts'
import { CATALOGUE, ORDERS } from '../../topic/partitions.ts'
import { createPostgresTopic } from '../../topic/postgres/postgres-topic.ts'
import type { TopicEvent } from '../../topic/topic.ts'
import { comparePartition } from './compare-partition.ts'
import { type ComparedPartition, cataloguePartition, orderPartition } from './compared-partition.ts'
import { digestContent } from './event-digest.ts'
import { MAX_EXAMPLES } from './finding.ts'

type Path = (string | number)[]

await farFromMidnight()
const store = await startStore({ after }, { roles: ['api'] })
const lake = await openLake(store.config)
after(() => lake.close())
const { pool } = store

/** The path of each value, except null, objects and lists. */
function* leavesOf(value: unknown, path: Path = []): Generator<Path> {
  if (value === null || value === undefined) return
  if (typeof value !== 'object' || value instanceof Date) yield path
  else for (const [name, member] of Object.entries(value)) yield* leavesOf(member, [...path, Array.isArray(value) ? Number(name) : name])
}

/** Another value of the same form: a time stays a time, an id an id, and a status a status. */
function other(value: unknown): unknown {
  if (typeof value === 'number') return value + 1
  if (typeof value === 'boolean') return !value
  if (value instanceof Date) return new Date(value.getTime() + 1)
  if (typeof value !== 'string' || value === '') return 'x'
  if (isStatus(value)) return value === 'pending' ? 'confirmed' : 'pending'
  return value.replace(/[0-9a-yA-Y](?=[^0-9a-yA-Y]*$)/, (last) => (last === '1' ? '2' : '1'))
}

function withOther<T>(value: T, [name, ...rest]: Path): T {
  if (name === undefined) return other(value) as T
  const copy = (Array.isArray(value) ? [...value] : { ...value }) as Record<string | number, unknown>
  copy[name] = withOther(copy[name], rest)
  return copy as T
}

/** Copies of a row, each for a separate order or product, with the event of the newest version. */
function copiesOf<Row extends object, E extends TopicEvent>(
  { stored }: ComparedPartition<Row, E>,
  row: Row,
  subject: string,
  count: number,
) {
  return Array.from({ length: count }, (_, index) => {
    const id = randomUUID()
    const text = JSON.stringify(row).replaceAll(subject, id)
    const times = Object.entries(row).flatMap(([name, value]) => (value instanceof Date ? [[name, value]] : []))
    const json: Record<string, unknown> = {
      ...JSON.parse(text),
      ...('number' in row ? { number: String(index + 1), client_reference: `cart-${index}` } : {}),
    }
    const copy = { ...json, ...Object.fromEntries(times) } as Row
    const events = stored.toEvents(copy)
    return { json, events, event: events.at(-1) ?? assert.fail() }
  })
}

/**
 * Alters each member of a partition's events in the topic, and each column of its rows in the lake. Each change is made
 * in the event of another order or product. Asserts that every change is found.
 */
async function assertAllAreFound<Row extends object, E extends TopicEvent>(
  partition: ComparedPartition<Row, E>,
  row: Row,
  subject: string,
): Promise<Path> {
  const { stored, table, topic, dataset, contentOf, places } = partition
  const [sample = assert.fail()] = copiesOf(partition, row, subject, 1)
  const inTopic = [...leavesOf(sample.event)]
  const ingestedAt = new Date().toISOString()
  const inLake = [...leavesOf(dataset.toRow({ sequence: 1, event: sample.event }, ingestedAt))].filter(
    ([name]) => name !== 'sequence' && name !== 'ingested_at',
  )
  const copies = copiesOf(partition, row, subject, inTopic.length + inLake.length)
  await pool.query(sql`truncate ${identifier(table)} cascade`)
  for (const { json } of copies) {
    const columns = Object.keys(json).map(identifier)
    const list = columns.reduce((all, one) => sql`${all}, ${one}`)
    await pool.query(
      sql`insert into ${identifier(table)} (${list}) select ${list} from json_populate_record(null::${identifier(table)}, ${JSON.stringify(json)})`,
    )
  }
  const messages = table === 'orders' ? sql`topic_messages` : sql`catalogue_messages`
  await pool.query(sql`truncate ${messages} restart identity`)
  await topic.publish(copies.flatMap(({ events }) => events.map((event) => ({ position: '', event }))))
  const { rows } = await pool.query<{ id: string; sequence: number }>(sql`select id, sequence from ${messages} order by sequence`)
  const sequenceOf = new Map(rows.map(({ id, sequence }) => [id, sequence]))
  const lines = copies.flatMap(({ events, event }, index) =>
    events.map((each) => {
      const made = dataset.toRow({ sequence: sequenceOf.get(each.id) ?? 0, event: each }, ingestedAt)
      const path = index < inTopic.length || each !== event ? undefined : inLake[index - inTopic.length]
      return JSON.stringify(path === undefined ? made : withOther(made, path))
    }),
  )
  const name = newName(dataset.name, ingestedAt.slice(0, 10), 1, rows.length)
  const snapshot = await readSnapshot(lake, dataset.name)
  await lake.withWorkspace(async (folder) => {
    const file = { path: join(folder, 'file'), location: snapshot.table.locate(name) }
    const added = [await writeParquet(file, lines, eventTableOf(dataset.name))]
    await lake.put(name, file.path)
    assert.ok(await commitFiles(snapshot, { added, removed: snapshot.files, sequence: rows.length }, new Date()))
  })
  const compare = async () => {
    const { findings } = await comparePartition(partition, {
      ...{ pool, lake, streamUrl: store.addresses.stream, slotName: 'none', patienceMs: 0, now: () => new Date() },
      tablesRead: { count: 0, faults: [], moved: [], written: [] },
      dueBefore: { mails: 0, lake: 0 },
    })
    return new Map(findings.map(({ place, kind, examples }) => [`${place} ${kind}`, examples]))
  }
  const lakeFound = await compare()
  const alteredInLake = new Set(lakeFound.get(`${places.lake} altered`))
  const foundInLake = new Set([...alteredInLake, ...[...lakeFound].flatMap(([key, ids]) => (key.startsWith(places.lake) ? ids : []))])
  assert.deepEqual(
    inLake.filter((_, index) => !foundInLake.has(copies[inTopic.length + index]?.event.id ?? '')),
    [],
    'columns in the lake',
  )
  assert.equal(lakeFound.get(`${places.topic} altered`), undefined, 'the topic has what the rows have')

  const found = { altered: new Set<string>(), corrupt: new Set<number>() }
  const write = (event: E, id: string) => pool.query(sql`update ${messages} set event = ${JSON.stringify(event)} where id = ${id}`)
  for (let first = 0; first < inTopic.length; first += MAX_EXAMPLES) {
    const some = copies.slice(first, Math.min(first + MAX_EXAMPLES, inTopic.length))
    for (const [index, { event }] of some.entries()) await write(withOther(event, inTopic[first + index] ?? []), event.id)
    const findings = await compare()
    for (const id of findings.get(`${places.topic} altered`) ?? []) found.altered.add(id)
    for (const example of findings.get(`${places.topic} corrupt`) ?? []) found.corrupt.add(Number(/^sequence (\d+):/.exec(example)?.[1]))
    for (const { event } of some) await write(event, event.id)
  }
  assert.deepEqual(
    inTopic.filter((_, index) => {
      const id = copies[index]?.event.id ?? ''
      return !found.altered.has(id) && !found.corrupt.has(sequenceOf.get(id) ?? 0)
    }),
    [],
    'members in the topic',
  )
  assert.ok(found.altered.size > found.corrupt.size, 'most of them are events')

  const digestOf = (changed: Row) =>
    stored.findDefect(changed) === null ? stored.toEvents(changed).map((event) => digestContent(contentOf(event))) : null
  const unnoticed = [...leavesOf(row)].filter((path) => isDeepStrictEqual(digestOf(withOther(row, path)), digestOf(row)))
  assert.deepEqual(unnoticed, [], 'members of the row')
  return inLake.flatMap(([name]) => name ?? [])
}

test('verify finds a change in any member of an order event and in any column of its row or of the lake', async () => {
  const [ada, admin] = [await store.register(), await addBuyer(store, 'admin')]
  const lamp = await store.addProduct({ stock: 9, amount: 1_000 })
  const body = {
    items: [{ product_id: lamp.id, quantity: 3 }],
    client_reference: 'cart-1',
    shipping_address: { name: 'Ada', line1: '12 St James Square', city: 'London', postal_code: 'SW1Y 4JH', country: 'GB' },
    billing_address: { name: 'Grace', line1: 'Ring 1', city: 'Wien', postal_code: '1010', country: 'AT' },
    vat_number: 'ATU12345678',
    note: 'Please ring twice.',
    attributes: { channel: 'app', is_gift: false },
  }
  const { id } = await ada.ok('POST', '/orders', { body })
  const call = async (method: string, path: string, sent: object) => {
    const { status, text } = await admin.call(method, `/admin/orders/${id}/${path}`, { body: sent })
    assert.equal(status, 200, text)
  }
  for (const kind of ['shipping', 'discount', 'tax', 'fee'])
    await call('POST', 'adjustments', { kind, label: kind, amount: eur(kind === 'discount' ? -100 : 100), reference: `r ${kind}` })
  await call('PUT', 'payment', { provider: 'stripe', reference: 'pi_1', state: 'paid' })
  const [paid = assert.fail()] = await STORED_ORDERS.readOf(pool, [id])
  await call('POST', 'transitions', { to: 'confirmed', reason: 'checked', reference: 'pay_1' })
  const tracking = { carrier: 'DHL', number: 'JJD 0001', url: 'https://track.example/1' }
  await call('POST', 'shipments', { lines: [{ product_id: lamp.id, quantity: 1 }], tracking, reference: 'parcel-1' })
  const refunded = [{ product_id: lamp.id, quantity: 1, amount: eur(50) }]
  await call('POST', 'refunds', { amount: eur(100), reference: 're_1', reason: 'scratched', lines: refunded })
  await call('POST', 'transitions', { to: 'shipped', reason: 'all of it', reference: 'parcel-2', tracking })
  const [shipped = assert.fail()] = await STORED_ORDERS.readOf(pool, [id])
  await allowBrokenRows(pool)
  const partition = orderPartition(createPostgresTopic(ORDERS, { pool, url: store.url, logger: silent }))
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  const planted = new Set<string | number>()
  for (const row of [paid, shipped]) for (const name of await assertAllAreFound(partition, { ...row, traceparent }, id)) planted.add(name)
  assert.deepEqual(
    Object.keys(LAKE_COLUMNS).filter((name) => !planted.has(name)),
    ['sequence', 'ingested_at'],
  )
})

test('verify finds a change in any member of a catalogue event and in any column of its row or of the lake', async () => {
  const { create, patch, setStock } = await createCatalogueOperator(store)
  const { id } = await create({ ...EXAMPLE_NEW_PRODUCT, category: undefined, stock: 0 })
  await patch(id, { price: eur(600), compare_at_price: eur(800), image_url: 'https://images.example.com/mug.jpg' })
  await setStock(id, 5)
  const rows = (await PRODUCT_EVENTS.readAfter(pool, null)).filter(({ product_id }) => product_id === id)
  assert.deepEqual(rows.map(({ type }) => type).toSorted(), [
    ...['price.changed', 'product.created', 'product.updated', 'stock.depleted', 'stock.replenished'],
  ])
  const partition = cataloguePartition(createPostgresTopic(CATALOGUE, { pool, url: store.url, logger: silent }))
  const planted = new Set<string | number>()
  for (const row of rows) for (const name of await assertAllAreFound(partition, row, id)) planted.add(name)
  assert.deepEqual(
    Object.keys(CATALOGUE_COLUMNS).filter((name) => !planted.has(name)),
    ['sequence', 'archived_at', 'ingested_at'],
  )
})
