import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, type TestContext, test } from 'node:test'
import { IcebergError, IcebergRestCatalog } from 'iceberg-js'
import { makeKey } from '../../../test/api-keys.ts'
import { writeCatalogue } from '../../../test/catalogue-lake.ts'
import { writeFiles } from '../../../test/lake-harness.ts'
import { startS3Server } from '../../../test/s3-server.ts'
import { startStore } from '../../../test/store.ts'
import { openLake } from '../../app/open-lake.ts'
import { readConfig } from '../../config.ts'
import type { LakeStore } from '../lake-store.ts'
import { LocalLakeStore } from '../local-store.ts'
import { CATALOGUE_TABLES } from './lake-table.ts'
import { writeDerivedTables } from './write-derived-tables.ts'

const store = await startStore({ after })
const lake = new LocalLakeStore(join(store.config.dataDir, 'lake'))
const { key } = await makeKey(store, ['figures:read'])

/** An independent client, which speaks to the store without a network. */
function catalogueFor(token: string, { server } = store): IcebergRestCatalog {
  const fetch = async (input: string | URL | Request, init?: RequestInit) => {
    const headers = Object.fromEntries(new Headers(init?.headers))
    const { pathname, search } = new URL(String(input))
    const method = (init?.method ?? 'GET') as 'GET' | 'HEAD'
    const answer = await server.inject({ method, url: `${pathname}${search}`, headers })
    const isEmpty = answer.statusCode === 304 || answer.statusCode === 204
    return new Response(isEmpty ? null : answer.body, { status: answer.statusCode, headers: answer.headers as Record<string, string> })
  }
  return new IcebergRestCatalog({ baseUrl: 'http://shop.example/iceberg', auth: { type: 'bearer', token }, fetch })
}

/** Walks from the configuration to the metadata of each table, and writes the tables on the way. */
async function walk(t: TestContext, catalogue: IcebergRestCatalog, store: LakeStore): Promise<void> {
  assert.ok((await catalogue.loadConfig()).endpoints?.includes('GET /v1/{prefix}/namespaces'))
  const { namespaces } = await catalogue.listNamespaces()
  assert.deepEqual(namespaces, [{ namespace: ['storefront'] }])
  const [namespace = { namespace: [] }] = namespaces
  assert.deepEqual((await catalogue.listNamespaces({ parent: namespace })).namespaces, [])
  assert.deepEqual(await catalogue.loadNamespaceMetadata(namespace), { properties: {} })
  assert.deepEqual((await catalogue.listTables(namespace)).identifiers, [], 'nothing was written')

  await writeFiles(t, store, [3, 2])
  await writeCatalogue(t, store)
  await writeDerivedTables(store)
  const { identifiers } = await catalogue.listTables(namespace)
  assert.deepEqual(identifiers.map(({ name }) => name).toSorted(), [
    'adjustments',
    'catalogue_events',
    'customers',
    'order_events',
    'order_lines',
    'orders',
    'parcels',
    'payments',
    'prices',
    'products',
    'refunds',
    'stock_events',
  ])
  const rows: Record<string, number> = {}
  for (const table of identifiers) {
    const loaded = await catalogue.loadTableResult(table)
    const versions = { order_events: 3, catalogue_events: 3 }[table.name] ?? 1
    assert.equal(loaded?.['metadata-location'], locationOf(store, `iceberg/${table.name}/metadata/v${versions}.metadata.json`))
    const { metadata } = loaded
    assert.equal(metadata['format-version'], 2)
    assert.equal(metadata.location, locationOf(store, `iceberg/${table.name}`))
    const snapshot = metadata.snapshots?.at(-1)
    assert.deepEqual([snapshot?.['snapshot-id'], metadata.snapshots?.length], [metadata['current-snapshot-id'], versions])
    rows[table.name] = Number(snapshot?.summary?.['total-records'])
    const columns = metadata.schemas.find((schema) => schema['schema-id'] === metadata['current-schema-id'])?.fields
    assert.deepEqual(
      columns?.map(({ name }) => name),
      Object.keys(CATALOGUE_TABLES.find(({ name }) => name === table.name)?.columns ?? {}),
    )
    assert.equal(await catalogue.loadTable(table, { ifNoneMatch: loaded?.etag ?? '' }), null, 'nothing has changed')
    assert.equal(await catalogue.tableExists(table), true)
  }
  const none = { adjustments: 0, payments: 0, refunds: 0, parcels: 0 }
  assert.deepEqual(rows, {
    ...none,
    order_events: 5,
    orders: 5,
    order_lines: 5,
    customers: 5,
    catalogue_events: 9,
    products: 6,
    prices: 8,
    stock_events: 1,
  })
  await writeFiles(t, store, [1], { from: 6 })
  const events = { namespace: ['storefront'], name: 'order_events' }
  assert.equal((await catalogue.loadTable(events)).snapshots?.length, 4)
  assert.equal((await catalogue.loadTable(events, { snapshots: 'refs' }))?.snapshots?.length, 1)
}

function locationOf(store: LakeStore, name: string): string {
  const located = store.locate(name)
  return located.startsWith('s3://') ? located : `file://${located}`
}

test('iceberg-js walks the catalogue of a lake in a folder to the metadata of each table', (t) => walk(t, catalogueFor(key), lake))

test('iceberg-js walks the catalogue of a lake in a bucket to the metadata of each table', async (t) => {
  const server = await startS3Server(t, { pageSize: 3 })
  Object.assign(process.env, server.env)
  const { lakeBucket } = readConfig({ ...server.env, LAKE_URL: `s3://${server.bucket}/shop` })
  const remote = await startStore(t, { lakeBucket })
  const inBucket = await openLake(remote.config)
  t.after(() => inBucket.close())
  assert.equal(inBucket.locate('x'), `s3://${server.bucket}/shop/x`)
  const made = await makeKey(remote, ['figures:read'])
  await walk(t, catalogueFor(made.key, remote), inBucket)
})

test('answers 404 for unknown names, as the protocol requires', async () => {
  const catalogue = catalogueFor(key)
  assert.equal(await catalogue.tableExists({ namespace: ['storefront'], name: '../orders' }), false)
  assert.equal(await catalogue.namespaceExists({ namespace: ['other'] }), false)
  const missing = (error: unknown) => error instanceof IcebergError && error.status === 404
  await assert.rejects(catalogue.loadTable({ namespace: ['storefront'], name: 'returns' }), missing)
  const answer = await store.call('GET', '/iceberg/v1/namespaces/other/tables', { token: key })
  assert.deepEqual([answer.status, answer.json.code], [404, 'not_found'])
  assert.deepEqual(answer.json.error, { message: 'There is no such namespace.', type: 'NoSuchNamespaceException', code: 404 })
})

test('lists the top-level namespaces for an empty parent, and refuses an unknown parent', async () => {
  const ask = (parent: string) => store.call('GET', `/iceberg/v1/namespaces?parent=${parent}`, { token: key })
  assert.deepEqual((await ask('')).json, { namespaces: [['storefront']] })
  assert.deepEqual((await ask('storefront')).json, { namespaces: [] })
  const unknown = await ask('other')
  assert.deepEqual([unknown.status, unknown.json.code], [404, 'not_found'])
  assert.equal(unknown.json.error.type, 'NoSuchNamespaceException')
})

test("every refusal has the protocol's error, whose message clients show", async () => {
  const error = async (method: string, path: string, token?: string) => {
    const { json } = await store.call(method, `/iceberg/v1/${path}`, token === undefined ? {} : { token })
    assert.equal(json.error.message, json.detail)
    assert.equal(json.error.code, json.status)
    return [json.status, json.error.type]
  }
  assert.deepEqual(await error('GET', 'namespaces'), [401, 'NotAuthorizedException'])
  assert.deepEqual(await error('GET', 'namespaces/storefront/tables/orders?snapshots=none', key), [400, 'BadRequestException'])
  assert.deepEqual(await error('GET', 'views', key), [404, 'NotFoundException'])
  assert.deepEqual(await error('POST', 'namespaces', key), [405, 'UnsupportedOperationException'])
  const { json } = await store.call('GET', '/icebergs')
  assert.equal('error' in json, false, 'only below /iceberg/')
})

test('an unreadable lake is 503 as the protocol requires, and a large body is never read', async (t) => {
  const server = await startS3Server(t)
  Object.assign(process.env, server.env)
  const { lakeBucket } = readConfig({ ...server.env, LAKE_URL: `s3://${server.bucket}/shop` })
  const remote = await startStore(t, { lakeBucket })
  const { key: reader } = await makeKey(remote, ['figures:read'])
  server.fault = () => ({ status: 403 })
  const tables = '/iceberg/v1/namespaces/storefront/tables'
  for (const path of [tables, `${tables}/orders`]) {
    const { status, json, headers } = await remote.call('GET', path, { token: reader })
    assert.deepEqual([status, json.error.type, json.error.code, json.error.message], [503, 'ServiceUnavailableException', 503, json.detail])
    assert.match(String(headers['content-type']), /^application\/json/)
  }
  server.fault = () => undefined
  assert.equal((await remote.call('GET', tables, { token: reader })).status, 200, 'the bucket is back')

  // No call reads a body, so none can be too large.
  const body = { name: 'x'.repeat(2_000_000) }
  const { status, json } = await remote.call('POST', tables, { token: reader, body })
  assert.deepEqual([status, json.error.code, json.error.message], [405, 405, json.detail])
  assert.equal((await remote.call('GET', tables, { token: reader, body })).status, 200)
})

test('needs the permission to read figures, and is read-only', async () => {
  const other = await makeKey(store, ['orders:read'])
  const refused = (error: unknown) => error instanceof IcebergError && error.status === 403
  await assert.rejects(catalogueFor(other.key).loadConfig(), refused)
  await assert.rejects(
    catalogueFor(key).createNamespace({ namespace: ['other'] }),
    (error) => error instanceof IcebergError && error.status === 405,
  )
  await assert.rejects(
    catalogueFor(key).dropTable({ namespace: ['storefront'], name: 'orders' }),
    (error) => error instanceof IcebergError && error.status === 405,
  )
})

test("every refusal below /iceberg is JSON with the protocol's error, also with BASE_PATH and for unknown paths", async (t) => {
  for (const basePath of ['', '/shop']) {
    const other = await startStore(t, { basePath, isRateLimited: true, baseUrl: `http://localhost:3000${basePath}` })
    const { key: fit } = await makeKey(other, ['figures:read'])
    const { key: unfit } = await makeKey(other, ['products:write'])
    const ask = async (method: 'GET' | 'POST' | 'PUT', path: string, token?: string, payload?: string) => {
      const headers = {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(payload === undefined ? {} : { 'content-type': 'application/json' }),
      }
      const sent = payload === undefined ? {} : { payload }
      const answer = await other.server.inject({ method, url: `${basePath}${path}`, headers, ...sent })
      const body = answer.json()
      assert.match(String(answer.headers['content-type']), /^application\/json/, answer.body)
      assert.deepEqual([body.error.code, body.error.message, typeof body.error.type], [answer.statusCode, body.detail, 'string'])
      return answer.statusCode
    }
    const tables = '/iceberg/v1/namespaces/storefront/tables'
    assert.equal(await ask('GET', '/iceberg/v1/config'), 401)
    assert.equal(await ask('GET', '/iceberg/v1/config', unfit), 403)
    assert.equal(await ask('GET', '/iceberg/v1/nothing', fit), 404)
    assert.equal(await ask('GET', `${tables}/nothing`, fit), 404)
    assert.equal(await ask('GET', `/iceberg/v1/namespaces/${'x'.repeat(2_000)}`, fit), 404)
    assert.equal(await ask('GET', '/iceberg/%', fit), 400)
    assert.equal(await ask('GET', `${tables}/orders?snapshots=none`, fit), 400)
    assert.equal(await ask('POST', tables, fit, '{}'), 405)
    const statuses = new Set<number>()
    for (let wrong = 0; wrong < 60 && !statuses.has(429); wrong++)
      statuses.add(await ask('GET', '/iceberg/v1/config', `${fit.slice(0, -6)}aaaaaa`))
    assert.ok(statuses.has(401) && [...statuses].every((status) => status === 401 || status === 429), [...statuses].join())
    assert.match(String((await other.server.inject({ url: `${basePath}/nothing` })).headers['content-type']), /problem/)
  }
})
