import { type LakeTableDefinition, nameMappingOf, schemaOf } from './lake-table.ts'
import {
  ADDED,
  type DataFile,
  DELETED,
  describeManifest,
  EXISTING,
  encodeManifest,
  encodeManifestList,
  type ManifestEntry,
  type ManifestFile,
} from './manifest.ts'
import { currentSpecOf, partitionSpecsOf } from './partition-spec.ts'
import {
  currentSnapshot,
  emptyMetadata,
  MAX_PREVIOUS_METADATA,
  newSnapshotId,
  type Snapshot,
  type TableMetadata,
  withSchema,
  withSnapshot,
} from './table-metadata.ts'
import type { LiveManifest, TableState, TableStore } from './table-store.ts'

/** When a table has this number of small manifests, they are merged. */
const MAX_MANIFESTS = 50
/** A commit that removes a file writes the manifest of the file again. */
const MANIFEST_ENTRIES = 100

export interface TableBase {
  state: TableState
  metadata: TableMetadata | null
  manifests: LiveManifest[]
  /** Whether the metadata name another place. Then the next commit writes everything for this place. */
  isMoved: boolean
}

export interface Change {
  operation: 'append' | 'replace' | 'overwrite'
  added: readonly DataFile[]
  removed: ReadonlySet<string>
  summary?: Record<string, string>
  isKept?: (snapshot: Snapshot) => boolean
}

/** A table with damaged metadata has no files here. */
export async function readBase(table: TableStore): Promise<TableBase> {
  const state = await table.read()
  const metadata = state.newest?.metadata ?? null
  const manifests = metadata === null ? null : await table.readManifests(metadata)
  if (metadata === null || manifests === null) return { state, metadata: null, manifests: [], isMoved: false }
  const isMoved = !isHere(table, metadata)
  return { state, metadata, manifests: isMoved ? manifests.map((manifest) => relocated(table, metadata, manifest)) : manifests, isMoved }
}

function relocated(table: TableStore, { location }: TableMetadata, { manifest, entries }: LiveManifest): LiveManifest {
  const here = ({ data_file, ...entry }: ManifestEntry): ManifestEntry => {
    const name = table.nameAt(data_file.file_path, location)
    return { ...entry, data_file: { ...data_file, file_path: name === null ? data_file.file_path : table.locate(name) } }
  }
  return { manifest, entries: entries.map(here) }
}

export function locationsOf({ manifests }: TableBase): string[] {
  return manifests.flatMap(({ entries }) => entries.map(({ data_file }) => data_file.file_path))
}

export function isHere(table: TableStore, { location }: TableMetadata): boolean {
  return location === table.home
}

const MAX_ATTEMPTS = 10

/** Repeats a commit, from `readBase` on, until it succeeds. Throws after ten losses to other processes. */
export async function untilCommitted<T>(attempt: () => Promise<T | false>): Promise<T> {
  for (let number = 1; number <= MAX_ATTEMPTS; number++) {
    const result = await attempt()
    if (result !== false) return result
  }
  throw new Error('other processes keep changing the lake')
}

/**
 * Commits a snapshot. Returns false if another process has committed meanwhile; the caller must then start again with
 * `readBase`.
 */
export async function commitSnapshot(
  table: TableStore,
  definition: LakeTableDefinition,
  base: TableBase,
  change: Change,
  now: Date,
): Promise<boolean> {
  const continued = base.isMoved ? null : base.metadata
  const before = continued ?? emptyMetadata(table.home, base.state.newest?.metadata)
  const parent = continued === null ? null : currentSnapshot(continued)
  const snapshotId = newSnapshotId()
  const sequenceNumber = before['last-sequence-number'] + 1
  const fields = schemaOf(definition)
  const addedEntries = change.added.map((data_file): ManifestEntry => {
    return { status: ADDED, snapshot_id: snapshotId, sequence_number: sequenceNumber, file_sequence_number: sequenceNumber, data_file }
  })
  const isSmall = ({ entries }: LiveManifest) => entries.length < MANIFEST_ENTRIES / 2
  const isCrowded = base.manifests.filter(isSmall).length >= MAX_MANIFESTS
  const isRewritten = (each: LiveManifest) =>
    base.isMoved || (isCrowded && isSmall(each)) || each.entries.some(({ data_file }) => change.removed.has(data_file.file_path))
  const spec = currentSpecOf(definition)
  // Entries of another spec would need their own manifest. A change of the spec removes all of them.
  const isOfSpec = ({ manifest }: LiveManifest) => manifest.partition_spec_id === spec['spec-id']
  const carried = base.manifests.filter((each) => isRewritten(each) && isOfSpec(each))
  const monthOf = ({ data_file }: ManifestEntry) => data_file.partition.month ?? 0
  const entries = [...carryOver(carried, change.removed, snapshotId), ...addedEntries].sort((a, b) => monthOf(a) - monthOf(b))
  const manifests: ManifestFile[] = base.manifests.filter((each) => !isRewritten(each)).map(({ manifest }) => manifest)
  for (let start = 0; start < entries.length; start += MANIFEST_ENTRIES) {
    const part = entries.slice(start, start + MANIFEST_ENTRIES)
    const bytes = await encodeManifest(part, { type: 'struct', 'schema-id': withSchema(before, fields).schemaId, fields }, spec)
    const written = { path: await table.putAvro('manifest', bytes), length: bytes.length, specId: spec['spec-id'] }
    manifests.push(describeManifest(part, { ...written, snapshotId, sequenceNumber }))
  }
  const parentId = parent?.['snapshot-id'] ?? null
  const snapshot = {
    'snapshot-id': snapshotId,
    ...(parentId === null ? {} : { 'parent-snapshot-id': parentId }),
    'sequence-number': sequenceNumber,
    'timestamp-ms': Math.max(now.getTime(), before['last-updated-ms']),
    'manifest-list': await table.putAvro('snap', await encodeManifestList(manifests, { snapshotId, parentId, sequenceNumber })),
    summary: summarize(base.manifests, change),
  }
  const metadata = withSnapshot(withPrevious(before, base, table), {
    snapshot,
    fields,
    specs: partitionSpecsOf(definition),
    properties: { 'schema.name-mapping.default': nameMappingOf(definition), comment: definition.description },
    isKept: change.isKept ?? (() => true),
  })
  return table.commit(base.state.nextVersion, metadata)
}

export function withPrevious<T extends Pick<TableMetadata, 'metadata-log' | 'last-updated-ms'>>(
  metadata: T,
  { state }: { state: Pick<TableState, 'newest'> },
  table: TableStore,
): T {
  if (state.newest === null || state.newest.metadata.location !== table.home) return metadata
  const previous = { 'metadata-file': table.locate(state.newest.name), 'timestamp-ms': state.newest.metadata['last-updated-ms'] }
  return { ...metadata, 'metadata-log': [...metadata['metadata-log'], previous].slice(-MAX_PREVIOUS_METADATA) }
}

function carryOver(manifests: readonly LiveManifest[], removed: ReadonlySet<string>, snapshotId: number): ManifestEntry[] {
  return manifests.flatMap(({ entries }) =>
    entries.map((entry): ManifestEntry => {
      const isRemoved = removed.has(entry.data_file.file_path)
      return { ...entry, status: isRemoved ? DELETED : EXISTING, ...(isRemoved ? { snapshot_id: snapshotId } : {}) }
    }),
  )
}

function summarize(manifests: readonly LiveManifest[], { operation, added, removed, summary }: Change): Snapshot['summary'] {
  const before = manifests.flatMap(({ entries }) => entries.map(({ data_file }) => data_file))
  const gone = before.filter(({ file_path }) => removed.has(file_path))
  const now = [...before.filter(({ file_path }) => !removed.has(file_path)), ...added]
  const sum = (files: readonly DataFile[], of: (file: DataFile) => number) => String(files.reduce((total, file) => total + of(file), 0))
  const rows = (file: DataFile) => file.record_count
  return {
    operation,
    'added-data-files': String(added.length),
    'deleted-data-files': String(gone.length),
    'added-records': sum(added, rows),
    'deleted-records': sum(gone, rows),
    'total-data-files': String(now.length),
    'total-delete-files': '0',
    'total-records': sum(now, rows),
    'total-files-size': sum(now, (file) => file.file_size_in_bytes),
    'total-position-deletes': '0',
    'total-equality-deletes': '0',
    ...summary,
  }
}
