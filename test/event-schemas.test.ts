import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Value } from 'typebox/value'
import { CATALOGUE_EVENT_TYPES } from '../src/catalogue/catalogue-event.ts'
import { eventFiles } from '../src/cli/event-document.ts'
import { CATALOGUE_COLUMNS } from '../src/lake/catalogue-row.ts'
import { LAKE_COLUMNS } from '../src/lake/lake-row.ts'
import type { OrderEvent } from '../src/orders/events.ts'
import { addBuyer } from './buyers.ts'
import { eventually } from './eventually.ts'
import { startStore, type TestStore } from './store.ts'
import { runStorefront } from './store-process.ts'

const DOCS = fileURLToPath(new URL('../docs/', import.meta.url))
const read = (name: string) => readFileSync(join(DOCS, name), 'utf8')
const schemaOf = (type: string) => JSON.parse(read(`schemas/${type.replace('storefront.', '').replace('.', '-')}.schema.json`))

const OPTIONAL = ['traceparent', 'line2', 'region', 'phone', 'reference', 'tracking', 'url', 'category', 'attributes'].concat(
  ...['amended', 'parcel', 'city', 'postal_code', 'change', 'restock', 'shipped', 'cancelled', 'returned', 'original_total', 'parcels'],
)

const store = await startStore({ after }, { roles: ['api', 'stream'] })
const events = await makeEventsOfEveryType()

test('the committed documents are those that the program writes', async (t) => {
  const files = eventFiles()
  const committed = ['asyncapi.json', ...readdirSync(join(DOCS, 'schemas')).map((name) => `schemas/${name}`)]
  assert.deepEqual(Object.keys(files).sort(), committed.sort())
  for (const [name, document] of Object.entries(files)) assert.equal(read(name), `${JSON.stringify(document, null, 2)}\n`, name)
  assert.equal((await runStorefront(t, ['asyncapi'])).stdout, read('asyncapi.json'), 'npm run asyncapi writes them again')
})

test('real events of every type are as their schemas say', () => {
  const types = new Set(events.map(({ type }) => type))
  assert.deepEqual(
    [...types].sort(),
    ['amended', 'cancelled', 'confirmed', 'created', 'delivered', 'returned', 'shipped', 'updated'].map(
      (name) => `storefront.order.${name}`,
    ),
  )
  for (const event of events) assert.deepEqual([...Value.Errors(schemaOf(event.type), event)], [], JSON.stringify(event))
})

test('a schema allows properties of later releases at any depth, but no event of this one has any, nor lacks one', () => {
  for (const event of events) {
    const schema = schemaOf(event.type)
    const closed = close(schema)
    for (const [path, object] of objectsIn(event)) {
      object.unknown = 1
      assert.equal(Value.Check(schema, event), true, `${event.type} ${path}.unknown`)
      const isOpen = path.endsWith('.attributes')
      assert.equal(Value.Check(closed, event), isOpen, `${event.type} ${path}.unknown`)
      delete object.unknown
      for (const [name, value] of Object.entries(object)) {
        delete object[name]
        const isOptional = OPTIONAL.includes(name) || (path.endsWith('.change') && ['lines', 'amount'].includes(name))
        assert.equal(Value.Check(schema, event), isOptional || isOpen, `${event.type} ${path}.${name}`)
        object[name] = value
      }
    }
    assert.equal(Value.Check(closed, event), true)
  }
})

test('an event of one type is none of another', () => {
  for (const event of events) {
    for (const other of events) {
      if (other.type !== event.type) assert.equal(Value.Check(schemaOf(other.type), event), false, `${event.type} as ${other.type}`)
    }
  }
})

test('every reference of the AsyncAPI document leads somewhere, and each event type is a message', () => {
  const document = JSON.parse(read('asyncapi.json'))
  const references = [...read('asyncapi.json').matchAll(/"\$ref": "#\/([^"]*)"/g)].map(([, path = '']) => path)
  assert.ok(references.length > 0)
  for (const path of references) {
    // biome-ignore lint/suspicious/noExplicitAny: walks the document wherever the reference leads
    assert.ok(path.split('/').reduce((node: any, step) => node?.[step], document) !== undefined, path)
  }
  const names = Object.values<{ name: string }>(document.components.messages).map(({ name }) => name)
  assert.deepEqual(names.sort(), [...new Set([...events.map(({ type }) => type), ...CATALOGUE_EVENT_TYPES])].sort())
})

test('every object and enumeration of the AsyncAPI document has a name, and means what the schema of its event says', () => {
  const { schemas } = JSON.parse(read('asyncapi.json')).components
  const resolve = (node: unknown): unknown => {
    if (typeof node !== 'object' || node === null) return node
    if (Array.isArray(node)) return node.map(resolve)
    const { $ref } = node as { $ref?: string }
    if ($ref !== undefined) return resolve(schemas[$ref.replace('#/components/schemas/', '')])
    return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, resolve(value)]))
  }
  for (const type of [...new Set(events.map((event) => event.type)), ...CATALOGUE_EVENT_TYPES]) {
    const { $schema: _, $id: __, ...schema } = schemaOf(type)
    assert.deepEqual(resolve(schemas[type.replace('storefront.', '').replace('.', '-')]), schema, type)
  }
  for (const [name, schema] of Object.entries<object>(schemas))
    for (const part of Object.values(schema).flatMap(partsOf))
      assert.ok(!('properties' in part || 'enum' in part), `${name}: ${JSON.stringify(part)}`)
})

/** The schemas in a value of a schema, at any depth. */
function partsOf(value: unknown): object[] {
  if (typeof value !== 'object' || value === null) return []
  const parts = Object.values(value).filter((part) => typeof part === 'object' && part !== null)
  return [...parts, ...parts.flatMap(partsOf)]
}

/** Names and types of a table of the lake's columns in docs/data/lake.md, by its place. */
function documentedColumns(place: number): [string, string][] {
  const [table = ''] = read('data/lake.md').split('| Column | Type |')[place]?.split('\n\n') ?? []
  const rows = table.split('\n').filter((line) => line.startsWith('| `'))
  return rows.flatMap((row) => {
    const [, names = '', type = ''] = row.split('|')
    return [...names.matchAll(/`(\w+)`/g)].map(([, name = '']): [string, string] => [name, type.trim()])
  })
}

test('docs/data/lake.md has every column of the lake with its type', () => {
  const columns = Object.entries({ ...LAKE_COLUMNS, ingest_date: { text: 'DATE' } }).map(([name, { text: type }]) => [
    name,
    type.startsWith('STRUCT') ? 'LIST of STRUCT' : type,
  ])
  assert.deepEqual(documentedColumns(1).sort(), columns.sort())
})

test('docs/data/lake.md has every column of the catalogue in the lake', () => {
  const names = documentedColumns(2).map(([name]) => name)
  assert.deepEqual(names.sort(), [...Object.keys(CATALOGUE_COLUMNS), 'ingest_date'].sort())
})

/** The schema with no room for what it does not name. */
function close<T>(schema: T): T {
  if (Array.isArray(schema)) return schema.map(close) as T
  if (typeof schema !== 'object' || schema === null) return schema
  const parts = Object.entries(schema).map(([key, value]) => [key, close(value)])
  return Object.fromEntries('properties' in schema ? [...parts, ['additionalProperties', false]] : parts) as T
}

/** Orders with everything and with nothing optional, taken through every status. */
async function makeEventsOfEveryType(): Promise<OrderEvent[]> {
  const ada = await store.register()
  const products = [await store.addProduct(), await store.addProduct()]
  const items = products.map(({ id }, index) => ({ product_id: id, quantity: index + 1 }))
  const shipping_address = { name: 'Ada', line1: '1 St', line2: null, city: 'London', region: 'London', postal_code: 'SW1', country: 'GB' }
  const full = { items, shipping_address, note: 'ring', client_reference: 'mine', attributes: { channel: 'app' } }
  const place = async (body: object): Promise<string> => {
    const placed = await store.call('POST', '/orders', { token: ada.token, body })
    assert.equal(placed.status, 201, placed.text)
    return placed.json.id
  }
  const ids = [await place(full), await place({ items }), await place({ items })]
  const [returned = '', delivered = '', cancelled = ''] = ids
  await move(store, returned, 'confirmed', 'shipped', 'returned')
  await move(store, delivered, 'confirmed', 'shipped', 'delivered', 'returned')
  assert.equal((await store.call('POST', `/orders/${cancelled}/cancel`, { token: ada.token })).status, 200)
  const [parts = '', { token }] = [await place({ items }), await addBuyer(store, 'admin')]
  await move(store, parts, 'confirmed')
  const part = { lines: [{ product_id: products[1]?.id, quantity: 1 }] }
  const tracking = { carrier: 'DHL', number: '2', url: 'https://track.example/2' }
  for (const [kind, body] of [
    ['shipments', { ...part, reference: 'parcel_2', tracking }],
    ['amendments', { parcel: { version: 3, tracking: { ...tracking, number: '3' } } }],
    ['cancellations', part],
    ['returns', { ...part, restock: true }],
  ] as const) {
    const changed = await store.call('POST', `/admin/orders/${parts}/${kind}`, { token, body })
    assert.equal(changed.status, 200, changed.text)
  }
  const expected = 4 + 5 + 2 + 6
  return eventually(
    async () => {
      const { rows } = await store.pool.query<{ event: OrderEvent }>('select event from topic_messages order by sequence')
      return rows.length === expected && rows.map(({ event }) => event)
    },
    { what: 'an event for each change' },
  )
}

async function move({ pool }: TestStore, id: string, ...statuses: string[]): Promise<void> {
  for (const status of statuses) {
    const tracking = { carrier: 'DHL', number: '1', url: 'https://track.example/1' }
    const details = { confirmed: { reference: 'pay_1' }, shipped: { reference: 'parcel_1', tracking } }[status]
    const change = { status, at: new Date(), actor: { type: 'admin', id: null }, reason: null, ...details }
    await pool.query(
      `update orders
      set status = $2, version = version + 1, updated_at = now(), status_history = status_history || $3::jsonb
      where id = $1`,
      [id, status, JSON.stringify([change])],
    )
  }
}

function* objectsIn(value: unknown, path = ''): Generator<[string, Record<string, unknown>]> {
  if (typeof value !== 'object' || value === null) return
  if (!Array.isArray(value)) yield [path, value as Record<string, unknown>]
  for (const [name, inner] of Object.entries(value)) yield* objectsIn(inner, `${path}.${name}`)
}
