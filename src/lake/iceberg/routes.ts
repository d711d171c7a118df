import { Type } from 'typebox'
import { AppError } from '../../errors.ts'
import { defineRoute, sendPolledText } from '../../http/define-route.ts'
import type { HttpServer } from '../../http/http-server.ts'
import type { Catalogue, LoadedTable } from './catalogue.ts'

const NAMESPACE = 'storefront'
const ENDPOINTS = [
  'GET /v1/{prefix}/namespaces',
  'GET /v1/{prefix}/namespaces/{namespace}',
  'HEAD /v1/{prefix}/namespaces/{namespace}',
  'GET /v1/{prefix}/namespaces/{namespace}/tables',
  'GET /v1/{prefix}/namespaces/{namespace}/tables/{table}',
  'HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}',
]

const Names = Type.Record(Type.String(), Type.String())
const Namespace = Type.Array(Type.String(), { description: "The levels of the namespace's name. It has one level." })

const Configuration = Type.Object(
  { defaults: Names, overrides: Names, endpoints: Type.Array(Type.String()) },
  { title: 'IcebergConfiguration', examples: [{ defaults: {}, overrides: {}, endpoints: ENDPOINTS }] },
)
const Namespaces = Type.Object(
  { namespaces: Type.Array(Namespace) },
  { title: 'IcebergNamespaces', examples: [{ namespaces: [[NAMESPACE]] }] },
)
const OneNamespace = Type.Object(
  { namespace: Namespace, properties: Names },
  { title: 'IcebergNamespace', examples: [{ namespace: [NAMESPACE], properties: {} }] },
)
const Tables = Type.Object(
  { identifiers: Type.Array(Type.Object({ namespace: Namespace, name: Type.String() })) },
  { title: 'IcebergTables', examples: [{ identifiers: [{ namespace: [NAMESPACE], name: 'order_events' }] }] },
)
const Table = Type.Object(
  {
    'metadata-location': Type.String({ description: 'Address of the metadata file in the lake: `s3://…` or `file:///…`.' }),
    metadata: Type.Object(
      {},
      { additionalProperties: true, description: 'The table metadata in format v2, as in the file `metadata-location`.' },
    ),
    config: Names,
  },
  {
    title: 'IcebergTable',
    examples: [
      {
        'metadata-location': 's3://bucket/lake/iceberg/order_events/metadata/v12.metadata.json',
        metadata: { 'format-version': 2, 'table-uuid': '0f6ed9f4-4d8a-4f4c-9a39-6f0f1a4f3f52' },
        config: {},
      },
    ],
  },
)

const InNamespace = Type.Object({ namespace: Type.String({ description: `\`${NAMESPACE}\`.` }) })
const OfTable = Type.Object({
  ...InNamespace.properties,
  table: Type.String({
    description:
      '`order_events`, `orders`, `order_lines`, `adjustments`, `payments`, `refunds`, `parcels`, `customers`, `catalogue_events`, `products`, `prices` or `stock_events`.',
  }),
})

/** Read-only. https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml */
export function icebergRoutes(server: HttpServer, { catalogue }: { catalogue: Catalogue }): void {
  defineRoute(
    server,
    'GET /iceberg/v1/config',
    {
      access: 'figures:read',
      operationId: 'getIcebergConfiguration',
      summary: 'What the Iceberg REST catalogue of the lake supports',
      description:
        'Give clients the address up to `/iceberg` as the URI of the catalogue, and an API key as the token. The catalogue is read-only.',
      query: Type.Object({ warehouse: Type.Optional(Type.String({ description: 'Ignored: the store has only one warehouse.' })) }),
      answers: { 200: [Configuration, 'The configuration.'] },
    },
    async () => ({ defaults: {}, overrides: {}, endpoints: ENDPOINTS }),
  )

  defineRoute(
    server,
    'GET /iceberg/v1/namespaces',
    {
      access: 'figures:read',
      operationId: 'listIcebergNamespaces',
      summary: 'The namespaces of the Iceberg REST catalogue',
      query: Type.Object({
        parent: Type.Optional(Type.String({ description: 'Only namespaces in this one: `storefront` has none. Empty for the top level.' })),
      }),
      answers: { 200: [Namespaces, 'The namespaces.'] },
      refuses: ['not_found'],
    },
    async (request) => {
      // An empty name stands for the top level.
      const { parent = '' } = request.query
      if (parent !== '') assertNamespace(parent)
      return { namespaces: parent === '' ? [[NAMESPACE]] : [] }
    },
  )

  defineRoute(
    server,
    'GET /iceberg/v1/namespaces/:namespace',
    {
      access: 'figures:read',
      operationId: 'getIcebergNamespace',
      summary: 'A namespace of the Iceberg REST catalogue',
      params: InNamespace,
      answers: { 200: [OneNamespace, 'The namespace.'] },
    },
    async (request) => {
      assertNamespace(request.params.namespace)
      return { namespace: [NAMESPACE], properties: {} }
    },
  )

  defineRoute(
    server,
    'GET /iceberg/v1/namespaces/:namespace/tables',
    {
      access: 'figures:read',
      operationId: 'listIcebergTables',
      summary: 'The tables of the Iceberg REST catalogue that have been written',
      params: InNamespace,
      answers: { 200: [Tables, 'The tables.'] },
    },
    async (request) => {
      assertNamespace(request.params.namespace)
      return { identifiers: (await catalogue.list()).map((name) => ({ namespace: [NAMESPACE], name })) }
    },
  )

  defineRoute(
    server,
    'GET /iceberg/v1/namespaces/:namespace/tables/:table',
    {
      access: 'figures:read',
      operationId: 'loadIcebergTable',
      summary: 'The newest metadata of a table, with which a reader finds its files',
      description:
        'The reader also needs access to the files of the table. Send the `ETag` as `If-None-Match`: the answer is 304 while there is no new version.',
      params: OfTable,
      query: Type.Object({
        snapshots: Type.Optional(Type.Enum(['all', 'refs'], { default: 'all', description: '`refs`: only the newest snapshot.' })),
      }),
      answers: { 200: [Table, 'The metadata.'], 304: 'The version with this entity tag is the newest one.' },
    },
    async (request, reply) => {
      assertNamespace(request.params.namespace)
      const table = await catalogue.load(request.params.table)
      if (table === null) throw notFound('table', 'NoSuchTableException')
      reply.header('cache-control', 'private, no-cache')
      return sendPolledText(request, reply, JSON.stringify(loadResult(table, request.query.snapshots ?? 'all')))
    },
  )
}

function loadResult({ location, metadata }: LoadedTable, snapshots: 'all' | 'refs') {
  const current = metadata.snapshots.filter(({ 'snapshot-id': id }) => id === metadata['current-snapshot-id'])
  return { 'metadata-location': location, metadata: snapshots === 'all' ? metadata : { ...metadata, snapshots: current }, config: {} }
}

function assertNamespace(name: string): void {
  if (name !== NAMESPACE) throw notFound('namespace', 'NoSuchNamespaceException')
}

function notFound(what: string, type: string): AppError {
  const message = `There is no such ${what}.`
  return new AppError('not_found', message, { members: { error: { message, type, code: 404 } } })
}
