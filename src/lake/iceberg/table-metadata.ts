import { hash, randomInt, randomUUID } from 'node:crypto'
import { type Static, Type } from 'typebox'
import { Compile } from 'typebox/schema'
import { LAST_FIELD_ID } from './field-ids.ts'
import { MONTH_FIELD_ID, type PartitionSpec } from './partition-spec.ts'

// See https://iceberg.apache.org/spec/#table-metadata-and-snapshots.

const Integer = Type.Integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER })

const Schema = Type.Object({
  type: Type.Literal('struct'),
  'schema-id': Integer,
  fields: Type.Array(Type.Object({ id: Integer, name: Type.String(), required: Type.Boolean(), type: Type.Unknown() })),
})
export type Schema = Static<typeof Schema>

const Snapshot = Type.Object({
  'snapshot-id': Integer,
  'parent-snapshot-id': Type.Optional(Integer),
  'sequence-number': Integer,
  'timestamp-ms': Integer,
  'manifest-list': Type.String(),
  summary: Type.Record(Type.String(), Type.String()),
  'schema-id': Integer,
})
export type Snapshot = Static<typeof Snapshot>

const TableMetadata = Type.Object({
  'format-version': Type.Literal(2),
  'table-uuid': Type.String(),
  location: Type.String(),
  'last-sequence-number': Integer,
  'last-updated-ms': Integer,
  'last-column-id': Integer,
  schemas: Type.Array(Schema, { minItems: 1 }),
  'current-schema-id': Integer,
  'partition-specs': Type.Array(Type.Unknown()),
  'default-spec-id': Integer,
  'last-partition-id': Integer,
  'sort-orders': Type.Array(Type.Unknown()),
  'default-sort-order-id': Integer,
  properties: Type.Record(Type.String(), Type.String()),
  'current-snapshot-id': Integer,
  snapshots: Type.Array(Snapshot, { minItems: 1 }),
  'snapshot-log': Type.Array(Type.Object({ 'snapshot-id': Integer, 'timestamp-ms': Integer })),
  'metadata-log': Type.Array(Type.Object({ 'metadata-file': Type.String(), 'timestamp-ms': Integer })),
  refs: Type.Record(Type.String(), Type.Object({ 'snapshot-id': Integer, type: Type.String() })),
})
export type TableMetadata = Static<typeof TableMetadata>

const metadataCheck = Compile(TableMetadata)
/**
 * The most snapshots of a table. Each metadata file contains all snapshots, and each event file adds a metadata file.
 */
const MAX_SNAPSHOTS = 100
/** Earlier metadata files stay for readers that have one of them open. */
export const MAX_PREVIOUS_METADATA = 100

// A property of the table: the SHA-256 of the file's text with zeros in its place.
const DIGEST = 'storefront.sha256'
const ZEROS = '0'.repeat(64)
const DIGEST_IN_TEXT = new RegExp(`"${DIGEST.replace('.', '\\.')}":"([0-9a-f]{64})"`)

export function formatMetadata(metadata: TableMetadata): string {
  const text = JSON.stringify({ ...metadata, properties: { ...metadata.properties, [DIGEST]: ZEROS } })
  return text.replace(DIGEST_IN_TEXT, `"${DIGEST}":"${hash('sha256', text)}"`)
}

/** Whether the text was not changed. True also for a text of an earlier release, which has no digest. */
function isIntact(text: string): boolean {
  const digest = DIGEST_IN_TEXT.exec(text)?.[1]
  return digest === undefined || hash('sha256', text.replace(DIGEST_IN_TEXT, `"${DIGEST}":"${ZEROS}"`)) === digest
}

export function parseMetadata(text: string): TableMetadata | null {
  if (!isIntact(text)) return null
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return null
  }
  if (!metadataCheck.Check(value)) return null
  return value.snapshots.some((snapshot) => snapshot['snapshot-id'] === value['current-snapshot-id']) ? value : null
}

export function currentSnapshot({ snapshots, 'current-snapshot-id': current }: TableMetadata): Snapshot {
  const snapshot = snapshots.find(({ 'snapshot-id': id }) => id === current)
  if (snapshot === undefined) throw new RangeError(`the table has no snapshot ${current}`)
  return snapshot
}

/** Readers in JavaScript keep 53 bits of an id. */
export function newSnapshotId(): number {
  return randomInt(1, 2 ** 48 - 1)
}

interface NextSnapshot {
  snapshot: Omit<Snapshot, 'schema-id'>
  fields: Schema['fields']
  specs: readonly PartitionSpec[]
  properties: Record<string, string>
  isKept: (snapshot: Snapshot) => boolean
}

/**
 * The first metadata of a table. `earlier` are metadata that cannot be continued; the table keeps their identity and
 * numbers.
 */
export function emptyMetadata(location: string, earlier?: TableMetadata): Omit<TableMetadata, 'current-snapshot-id'> {
  return {
    'format-version': 2,
    'table-uuid': earlier?.['table-uuid'] ?? randomUUID(),
    location,
    'last-sequence-number': earlier?.['last-sequence-number'] ?? 0,
    'last-updated-ms': earlier?.['last-updated-ms'] ?? 0,
    'last-column-id': LAST_FIELD_ID,
    schemas: [],
    'current-schema-id': 0,
    'partition-specs': [{ 'spec-id': 0, fields: [] }],
    'default-spec-id': 0,
    'last-partition-id': 999,
    'sort-orders': [{ 'order-id': 0, fields: [] }],
    'default-sort-order-id': 0,
    properties: {},
    snapshots: [],
    'snapshot-log': [],
    'metadata-log': [],
    refs: {},
  }
}

export function withSnapshot(
  base: Omit<TableMetadata, 'current-snapshot-id'>,
  { snapshot, fields, specs, properties, isKept }: NextSnapshot,
): TableMetadata {
  const { schemas, schemaId } = withSchema(base, fields)
  const at = snapshot['timestamp-ms']
  const id = snapshot['snapshot-id']
  const next = {
    ...base,
    'last-sequence-number': snapshot['sequence-number'],
    'last-updated-ms': at,
    'last-column-id': Math.max(base['last-column-id'], LAST_FIELD_ID),
    schemas,
    'current-schema-id': schemaId,
    'partition-specs': [...specs],
    'default-spec-id': specs.at(-1)?.['spec-id'] ?? 0,
    'last-partition-id': Math.max(base['last-partition-id'], specs.length > 1 ? MONTH_FIELD_ID : 0),
    properties: { ...base.properties, ...properties },
    'current-snapshot-id': id,
    snapshots: [...base.snapshots, { ...snapshot, 'schema-id': schemaId }],
    'snapshot-log': [...base['snapshot-log'], { 'snapshot-id': id, 'timestamp-ms': at }],
    refs: { main: { 'snapshot-id': id, type: 'branch' } },
  }
  return keepSnapshots(next, isKept)
}

export function keepSnapshots(base: TableMetadata, isKept: (snapshot: Snapshot) => boolean): TableMetadata {
  const current = base['current-snapshot-id']
  const kept = base.snapshots.filter((snapshot) => snapshot['snapshot-id'] === current || isKept(snapshot)).slice(-MAX_SNAPSHOTS)
  const ids = new Set(kept.map(({ 'snapshot-id': id }) => id))
  const used = new Set([base['current-schema-id'], ...kept.map(({ 'schema-id': id }) => id)])
  return {
    ...base,
    schemas: base.schemas.filter(({ 'schema-id': id }) => used.has(id)),
    snapshots: kept.map((snapshot) => withoutLostParent(snapshot, ids)),
    'snapshot-log': base['snapshot-log'].filter(({ 'snapshot-id': id }) => ids.has(id)),
  }
}

function withoutLostParent({ 'parent-snapshot-id': parent, ...snapshot }: Snapshot, ids: ReadonlySet<number>): Snapshot {
  return parent === undefined || !ids.has(parent) ? snapshot : { 'parent-snapshot-id': parent, ...snapshot }
}

/** A new column gives the schema a new id, and earlier snapshots keep theirs. */
export function withSchema(
  { schemas, 'current-schema-id': current }: Pick<TableMetadata, 'schemas' | 'current-schema-id'>,
  fields: Schema['fields'],
) {
  const same = schemas.find((schema) => schema['schema-id'] === current && JSON.stringify(schema.fields) === JSON.stringify(fields))
  if (same !== undefined) return { schemas, schemaId: current }
  const schemaId = schemas.reduce((greatest, { 'schema-id': id }) => Math.max(greatest, id), -1) + 1
  return { schemas: [...schemas, { type: 'struct' as const, 'schema-id': schemaId, fields }], schemaId }
}
