import type avro from 'avsc'
import { decodeAvro, encodeAvro } from './avro-file.ts'
import { MONTH_FIELD_ID, type PartitionSpec } from './partition-spec.ts'
import type { Schema } from './table-metadata.ts'

const optional = (type: unknown) => ['null', type]
const field = (name: string, id: number, type: unknown) => ({ name, type, 'field-id': id })
const optionalField = (name: string, id: number, type: unknown) => ({ name, type: optional(type), default: null, 'field-id': id })

const mapOf = (key: number, value: number, type: string) => ({
  type: 'array',
  logicalType: 'map',
  items: { type: 'record', name: `k${key}_v${value}`, fields: [field('key', key, 'int'), field('value', value, type)] },
})

const dataFile = (partition: unknown[]) => ({
  type: 'record',
  name: 'r2',
  fields: [
    field('content', 134, 'int'),
    field('file_path', 100, 'string'),
    field('file_format', 101, 'string'),
    field('partition', 102, { type: 'record', name: 'r102', fields: partition }),
    field('record_count', 103, 'long'),
    field('file_size_in_bytes', 104, 'long'),
    optionalField('value_counts', 109, mapOf(119, 120, 'long')),
    optionalField('null_value_counts', 110, mapOf(121, 122, 'long')),
    optionalField('lower_bounds', 125, mapOf(126, 127, 'bytes')),
    optionalField('upper_bounds', 128, mapOf(129, 130, 'bytes')),
  ],
})

const entry = (partition: unknown[]) => ({
  type: 'record',
  name: 'manifest_entry',
  fields: [
    field('status', 0, 'int'),
    optionalField('snapshot_id', 1, 'long'),
    optionalField('sequence_number', 3, 'long'),
    optionalField('file_sequence_number', 4, 'long'),
    field('data_file', 2, dataFile(partition)),
  ],
})

const ENTRY = entry([]) as unknown as avro.Schema
const MONTHLY_ENTRY = entry([optionalField('month', MONTH_FIELD_ID, 'int')]) as unknown as avro.Schema

const MANIFEST = {
  type: 'record',
  name: 'manifest_file',
  fields: [
    field('manifest_path', 500, 'string'),
    field('manifest_length', 501, 'long'),
    field('partition_spec_id', 502, 'int'),
    field('content', 517, 'int'),
    field('sequence_number', 515, 'long'),
    field('min_sequence_number', 516, 'long'),
    field('added_snapshot_id', 503, 'long'),
    field('added_files_count', 504, 'int'),
    field('existing_files_count', 505, 'int'),
    field('deleted_files_count', 506, 'int'),
    field('added_rows_count', 512, 'long'),
    field('existing_rows_count', 513, 'long'),
    field('deleted_rows_count', 514, 'long'),
  ],
} as unknown as avro.Schema

type ByField<T> = { key: number; value: T }[]

export interface DataFile {
  content: 0
  file_path: string
  file_format: 'PARQUET'
  /** Months since 1970-01, in a table with months. */
  partition: { month?: number | null }
  record_count: number
  file_size_in_bytes: number
  value_counts: ByField<number>
  null_value_counts: ByField<number>
  lower_bounds: ByField<Buffer>
  upper_bounds: ByField<Buffer>
}

export const EXISTING = 0
export const ADDED = 1
export const DELETED = 2

export interface ManifestEntry {
  status: typeof EXISTING | typeof ADDED | typeof DELETED
  /** The id of the snapshot that added or deleted the file. */
  snapshot_id: number
  sequence_number: number
  file_sequence_number: number
  data_file: DataFile
}

export interface ManifestFile {
  manifest_path: string
  manifest_length: number
  partition_spec_id: number
  content: 0
  sequence_number: number
  min_sequence_number: number
  added_snapshot_id: number
  added_files_count: number
  existing_files_count: number
  deleted_files_count: number
  added_rows_count: number
  existing_rows_count: number
  deleted_rows_count: number
}

export function encodeManifest(entries: readonly ManifestEntry[], schema: Schema, spec: PartitionSpec): Promise<Buffer> {
  return encodeAvro(spec.fields.length > 0 ? MONTHLY_ENTRY : ENTRY, entries, {
    schema: JSON.stringify(schema),
    'schema-id': String(schema['schema-id']),
    'partition-spec': JSON.stringify(spec.fields),
    'partition-spec-id': String(spec['spec-id']),
    'format-version': '2',
    content: 'data',
  })
}

export function decodeManifest(bytes: Uint8Array): Promise<ManifestEntry[]> {
  return decodeAvro(MONTHLY_ENTRY, bytes)
}

export function encodeManifestList(
  manifests: readonly ManifestFile[],
  ids: { snapshotId: number; parentId: number | null; sequenceNumber: number },
): Promise<Buffer> {
  return encodeAvro(MANIFEST, manifests, {
    'snapshot-id': String(ids.snapshotId),
    'parent-snapshot-id': String(ids.parentId),
    'sequence-number': String(ids.sequenceNumber),
    'format-version': '2',
  })
}

export function decodeManifestList(bytes: Uint8Array): Promise<ManifestFile[]> {
  return decodeAvro(MANIFEST, bytes)
}

export function describeManifest(
  entries: readonly ManifestEntry[],
  file: { path: string; length: number; snapshotId: number; sequenceNumber: number; specId: number },
): ManifestFile {
  const withStatus = (status: number) => entries.filter((entry) => entry.status === status)
  const rowsOf = (some: readonly ManifestEntry[]) => some.reduce((sum, { data_file }) => sum + data_file.record_count, 0)
  const [existing, added, deleted] = [withStatus(EXISTING), withStatus(ADDED), withStatus(DELETED)]
  const live = [...existing, ...added]
  return {
    manifest_path: file.path,
    manifest_length: file.length,
    partition_spec_id: file.specId,
    content: 0,
    sequence_number: file.sequenceNumber,
    min_sequence_number: live.reduce((least, { sequence_number }) => Math.min(least, sequence_number), file.sequenceNumber),
    added_snapshot_id: file.snapshotId,
    added_files_count: added.length,
    existing_files_count: existing.length,
    deleted_files_count: deleted.length,
    added_rows_count: rowsOf(added),
    existing_rows_count: rowsOf(existing),
    deleted_rows_count: rowsOf(deleted),
  }
}
