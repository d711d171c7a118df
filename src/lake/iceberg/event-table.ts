import { randomUUID } from 'node:crypto'
import { OperatorError } from '../../errors.ts'
import { REMEDY } from '../find-damage.ts'
import { DATASET_NAMES, type DatasetName, ingestDateOf, prefixOf } from '../lake-names.ts'
import type { LakeFile, LakeStore } from '../lake-store.ts'
import { commitSnapshot, readBase, type TableBase } from './commit-snapshot.ts'
import { fieldIdOf } from './field-ids.ts'
import { CATALOGUE_EVENTS, type LakeTableDefinition, ORDER_EVENTS } from './lake-table.ts'
import type { DataFile, ManifestEntry } from './manifest.ts'
import { currentSnapshot, type Snapshot } from './table-metadata.ts'
import { TableStore } from './table-store.ts'

/** Snapshot summary property: the end of the lake. The snapshot has every event up to it. */
export const SEQUENCE = 'storefront.sequence'

/** The snapshot summary property that changes with each commit that changes earlier events, such as a repair. */
const PAST = 'storefront.past'

export function eventTableOf(dataset: DatasetName): LakeTableDefinition {
  return dataset === 'orders' ? ORDER_EVENTS : CATALOGUE_EVENTS
}

export interface LiveFile extends LakeFile {
  ingestDate: string
  /** The lowest and highest sequence in the file. */
  first: number
  last: number
  /** The times of the oldest and the newest event, in milliseconds since 1970. */
  oldest: number
  newest: number
  data: DataFile
}

export interface LakeSnapshot {
  table: TableStore
  dataset: DatasetName
  base: TableBase
  files: LiveFile[]
  sequence: number
  /** A later snapshot with the same past has every row of this one, and additional rows only after its end. */
  past: string
}

export class LakeDamaged extends OperatorError {
  override readonly name = 'LakeDamaged'
}

/** An earlier release has written the lake, and no process with the role `lake` has started since. */
export class LakeNotAdopted extends OperatorError {
  override readonly name = 'LakeNotAdopted'

  constructor() {
    super('an earlier release has written the lake; stop its processes and start one of this release with the role lake')
  }
}

/** A lake that was never written is empty. Throws LakeDamaged and LakeNotAdopted. */
export async function readSnapshot(
  store: LakeStore,
  dataset: DatasetName,
  table = new TableStore(store, eventTableOf(dataset).name),
): Promise<LakeSnapshot> {
  const base = await readBase(table)
  const { newest, isBehind, damaged } = base.state
  const damagedBy = (reason: string) => new LakeDamaged(`${reason}; ${REMEDY}`)
  if (isBehind) throw damagedBy(damaged.at(-1) ?? store.locate(table.folder))
  const sequence = base.metadata === null ? undefined : currentSnapshot(base.metadata).summary[SEQUENCE]
  if (sequence !== undefined) return toSnapshot(table, dataset, base, Number(sequence))
  if (newest !== null && base.metadata === null)
    throw damagedBy(`${store.locate(newest.name)}: a manifest of its snapshot is damaged or gone`)
  const files = await store.list(prefixOf(dataset))
  if (files.every(({ name }) => isOldName(name))) {
    if (newest !== null || files.length > 0) throw new LakeNotAdopted()
    return toSnapshot(table, dataset, base, 0)
  }
  // Another process may have adopted the lake and written to it meanwhile.
  if ((await table.read()).nextVersion > base.state.nextVersion) return readSnapshot(store, dataset, table)
  throw damagedBy(
    newest === null
      ? `${store.locate(table.folder)}: the metadata of the lake are gone`
      : `${store.locate(newest.name)}: a process of an earlier release has written it, which must be stopped`,
  )
}

export function isOldName(name: string): boolean {
  return /\/\d{16}-\d{16}(\.\d{1,6})?\.parquet$/.test(name)
}

export function toSnapshot(table: TableStore, dataset: DatasetName, base: TableBase, sequence: number): LakeSnapshot {
  const files = base.manifests.flatMap(({ entries }) => entries.map((entry) => toLiveFile(table, entry.data_file)))
  files.sort((a, b) => (a.ingestDate === b.ingestDate ? a.first - b.first : a.ingestDate < b.ingestDate ? -1 : 1))
  return { table, dataset, base, files, sequence, past: base.metadata === null ? '' : (currentSnapshot(base.metadata).summary[PAST] ?? '') }
}

export function toLiveFile(table: TableStore, data: DataFile): LiveFile {
  const name = table.nameAt(data.file_path) ?? data.file_path
  const [first, oldest] = ['sequence', 'event_time'].map((column) => boundOf(data.lower_bounds, column))
  const [last, newest] = ['sequence', 'event_time'].map((column) => boundOf(data.upper_bounds, column))
  return {
    ...{ name, sizeBytes: data.file_size_in_bytes, ingestDate: ingestDateOf(name), data },
    ...{ first: first ?? 0, last: last ?? 0 },
    ...{ oldest: Math.floor((oldest ?? 0) / MICROS), newest: Math.ceil((newest ?? 0) / MICROS) },
  }
}

const MICROS = 1_000

function boundOf(bounds: DataFile['lower_bounds'], column: string): number {
  const bytes = bounds.find(({ key }) => key === fieldIdOf(column))?.value
  return bytes === undefined ? 0 : Number(Buffer.from(bytes).readBigInt64LE())
}

export interface FilesChange {
  added: readonly DataFile[]
  removed?: readonly LiveFile[]
  /** The new end of the lake. The default is the end of the snapshot. */
  sequence?: number
  /** Whether to end all snapshots that contain removed files, because those files are damaged or missing. */
  endsSnapshots?: boolean
}

/** The only write to a dataset: files and end become visible together. False: another process has committed. */
export function commitFiles(
  { table, dataset, base, sequence: end, past }: LakeSnapshot,
  { added, removed = [], sequence = end, endsSnapshots = false }: FilesChange,
  now: Date,
): Promise<boolean> {
  const locations = new Set(removed.map(({ data }) => data.file_path))
  const entries = base.manifests.flatMap(({ entries }) => entries)
  const lostFrom = endsSnapshots ? firstWith(entries, locations) : Number.POSITIVE_INFINITY
  const rows = (files: readonly DataFile[]) => files.reduce((sum, { record_count }) => sum + record_count, 0)
  const operation = locations.size === 0 ? 'append' : rows(removed.map(({ data }) => data)) === rows(added) ? 'replace' : 'overwrite'
  const isPastKept = !endsSnapshots && (operation === 'append' ? sequence > end || added.length === 0 : operation === 'replace')
  return commitSnapshot(
    table,
    eventTableOf(dataset),
    base,
    {
      ...{ operation, added, removed: locations },
      summary: { [SEQUENCE]: String(sequence), [PAST]: isPastKept ? past : randomUUID() },
      isKept: (snapshot: Snapshot) => snapshot['sequence-number'] < lostFrom,
    },
    now,
  )
}

/** The sequence number of the first snapshot that has one of these files. */
function firstWith(entries: readonly ManifestEntry[], locations: ReadonlySet<string>): number {
  return Math.min(...entries.flatMap((entry) => (locations.has(entry.data_file.file_path) ? [entry.sequence_number] : [])))
}

/** Writes the metadata for the current place of the lake, which only other readers need. */
export async function settleMoved(store: LakeStore, now: Date): Promise<void> {
  for (const dataset of DATASET_NAMES) {
    const snapshot = await readSnapshot(store, dataset)
    // Another process that commits meanwhile does the same.
    if (snapshot.base.isMoved) await commitFiles(snapshot, { added: [] }, now)
  }
}
