import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { IcebergError, IcebergRestCatalog } from 'iceberg-js'
import { makeKey } from '../../test/api-keys.ts'
import { writeFiles } from '../../test/lake-harness.ts'
import { assertProblem } from '../../test/problem.ts'
import { startStore } from '../../test/store.ts'
import { commitOrderEvents } from '../lake/iceberg/commit-order-events.ts'
import { writeDerivedTables } from '../lake/iceberg/write-derived-tables.ts'
import { LocalLakeStore } from '../lake/local-store.ts'

const store = await startStore({ after })
const lake = new LocalLakeStore(join(store.config.dataDir, 'lake'))
const { key } = await makeKey(store, ['figures:read'])

/** An independent client, which speaks to the store without a network. */
function catalogueFor(token: string): IcebergRestCatalog {
  const fetch = async (input: string | URL | Request, init?: RequestInit) => {
    const headers = Object.fromEntries(new Headers(init?.headers))
    const { pathname, search } = new URL(String(input))
    const method = (init?.method ?? 'GET') as 'GET' | 'HEAD'
    const answer = await store.server.inject({ method, url: `${pathname}${search}`, headers })
    const isEmpty = answer.statusCode === 304 || answer.statusCode === 204
    return new Response(isEmpty ? null : answer.body, { status: answer.statusCode, headers: answer.headers as Record<string, string> })
  }
  return new IcebergRestCatalog({ baseUrl: 'http://shop.example/iceberg', auth: { type: 'bearer', token }, fetch })
}

test('iceberg-js walks the catalogue from its configuration to the metadata of each table', async (t) => {
  const catalogue = catalogueFor(key)
  assert.ok((await catalogue.loadConfig()).endpoints?.includes('GET /v1/{prefix}/namespaces'))
  const { namespaces } = await catalogue.listNamespaces()
  assert.deepEqual(namespaces, [{ namespace: ['storefront'] }])
  const [namespace = { namespace: [] }] = namespaces
  assert.deepEqual((await catalogue.listNamespaces({ parent: namespace })).namespaces, [])
  assert.deepEqual(await catalogue.loadNamespaceMetadata(namespace), { properties: {} })
  assert.deepEqual((await catalogue.listTables(namespace)).identifiers, [], 'nothing was written')

  await writeFiles(t, lake, [3, 2])
  await commitOrderEvents(lake)
  await writeDerivedTables(lake)
  const { identifiers } = await catalogue.listTables(namespace)
  assert.deepEqual(
    identifiers.map(({ name }) => name),
    ['order_events', 'orders', 'order_lines'],
  )
  for (const table of identifiers) {
    const loaded = await catalogue.loadTableResult(table)
    assert.equal(loaded?.['metadata-location'], `file://${lake.locate(`iceberg/${table.name}/metadata/v1.metadata.json`)}`)
    assert.equal(loaded?.metadata['format-version'], 2)
    assert.equal(loaded?.metadata.snapshots?.length, 1)
    assert.equal(await catalogue.loadTable(table, { ifNoneMatch: loaded?.etag ?? '' }), null, 'nothing has changed')
    assert.equal(await catalogue.tableExists(table), true)
  }
  await writeFiles(t, lake, [1], { from: 6 })
  await commitOrderEvents(lake)
  const events = { namespace: ['storefront'], name: 'order_events' }
  assert.equal((await catalogue.loadTable(events)).snapshots?.length, 2)
  assert.equal((await catalogue.loadTable(events, { snapshots: 'refs' }))?.snapshots?.length, 1)
})

test('answers 404 for what is not there, as the protocol says', async () => {
  const catalogue = catalogueFor(key)
  assert.equal(await catalogue.tableExists({ namespace: ['storefront'], name: '../orders' }), false)
  assert.equal(await catalogue.namespaceExists({ namespace: ['other'] }), false)
  const missing = (error: unknown) => error instanceof IcebergError && error.status === 404
  await assert.rejects(catalogue.loadTable({ namespace: ['storefront'], name: 'prices' }), missing)
  const answer = await store.call('GET', '/iceberg/v1/namespaces/other/tables', { token: key })
  assertProblem(answer, 404, 'not_found')
  assert.deepEqual(answer.json.error, { message: 'There is no such namespace.', type: 'NoSuchNamespaceException', code: 404 })
})

test('lists the namespaces of the top level for an empty parent, and refuses an unknown one', async () => {
  const ask = (parent: string) => store.call('GET', `/iceberg/v1/namespaces?parent=${parent}`, { token: key })
  assert.deepEqual((await ask('')).json, { namespaces: [['storefront']] })
  assert.deepEqual((await ask('storefront')).json, { namespaces: [] })
  const unknown = await ask('other')
  assertProblem(unknown, 404, 'not_found')
  assert.equal(unknown.json.error.type, 'NoSuchNamespaceException')
})

test('is for those who may read figures, and read-only', async () => {
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
