import { OperatorError } from '../../errors.ts'
import { prefixOf } from '../lake-names.ts'
import type { LakeStore, ListedFile } from '../lake-store.ts'
import { untilCommitted, withPrevious } from './commit-snapshot.ts'
import { eventTableOf, LakeNotAdopted, SEQUENCE } from './event-table.ts'
import { examineTable } from './examine-table.ts'
import type { LakeTableDefinition } from './lake-table.ts'
import { currentSnapshot, keepSnapshots, type TableMetadata } from './table-metadata.ts'
import { type FileReference, TableStore } from './table-store.ts'

export interface ExpireReport {
  snapshots: number
  files: number
}

/** A commit takes less time from its first file to its metadata. Readers of an ended snapshot have this time, too. */
const GRACE_MS = 3_600_000

/** When an expiry first found each unused file of a table, in ms, by the table's name. */
export type UnusedFiles = Map<string, ReadonlyMap<string, number>>

/** Deletes files that are unused for the grace period. Changes nothing when a remaining snapshot cannot be read. */
export async function expireSnapshots(
  store: LakeStore,
  definition: LakeTableDefinition,
  before: Date,
  now: Date = new Date(),
  unused?: UnusedFiles,
): Promise<ExpireReport> {
  const table = new TableStore(store, definition.name)
  const known = unused?.get(definition.name)
  const limit = now.getTime() - GRACE_MS
  return untilCommitted(async () => {
    const listed = await listOwn(store, table, definition)
    const state = await table.read()
    const { newest } = state
    if (newest === null) return { snapshots: 0, files: 0 }
    if (state.isBehind) throw unreadable(table)
    const isOfEvents = definition === eventTableOf(definition.dataset)
    // Names decide which files of an earlier release count, and no snapshot has them.
    if (isOfEvents && currentSnapshot(newest.metadata).summary[SEQUENCE] === undefined) throw new LakeNotAdopted()
    const kept = keepSnapshots(newest.metadata, (snapshot) => snapshot['timestamp-ms'] >= before.getTime())
    const at = Math.max(now.getTime(), kept['last-updated-ms'])
    const metadata = { ...withPrevious(kept, { state }, table), 'last-updated-ms': at }
    const used = await findUsed(table, metadata)
    const old = listed.filter(({ name, storedAt }) => !used.has(name) && storedAt < limit)
    const since = new Map(old.map(({ name }) => [name, known?.get(name) ?? now.getTime()]))
    unused?.set(definition.name, since)
    const recent = unused === undefined && old.length > 0 ? await findUsedSince(table, newest.metadata, limit) : new Set<string>()
    const isPast = (name: string) => recent !== null && !recent.has(name)
    const deleted = old.filter(({ name }) => (unused === undefined ? isPast(name) : (since.get(name) ?? 0) <= limit))
    if (deleted.length === 0 && kept.snapshots.length === newest.metadata.snapshots.length) return { snapshots: 0, files: 0 }
    if (!(await table.commit(state.nextVersion, metadata))) return false
    for (const { name } of deleted) await store.delete(name)
    return { snapshots: newest.metadata.snapshots.length - kept.snapshots.length, files: deleted.length }
  })
}

async function listOwn(store: LakeStore, { folder }: TableStore, definition: LakeTableDefinition): Promise<ListedFile[]> {
  const own = await store.list(folder)
  return definition === eventTableOf(definition.dataset) ? [...own, ...(await store.list(prefixOf(definition.dataset)))] : own
}

function unreadable({ folder }: TableStore): OperatorError {
  return new OperatorError(`a snapshot of ${folder} cannot be read: run storefront lake repair, then this again`)
}

/** Gives a derived table a version above damaged metadata, too. The current snapshot stays. */
export async function endLostSnapshots(store: LakeStore, definition: LakeTableDefinition): Promise<number> {
  const table = new TableStore(store, definition.name)
  return untilCommitted(async () => {
    const { newest, nextVersion, isBehind, lost, faults } = await examineTable(store, definition)
    if (newest === null || faults.length === 0) return 0
    // An earlier version lacks events of the lake. `storefront lake repair` finds them.
    if (isBehind && definition === eventTableOf(definition.dataset)) return 0
    const kept = keepSnapshots(newest.metadata, (snapshot) => !lost.has(snapshot['snapshot-id']))
    const isCommitted = await table.commit(nextVersion, withPrevious(kept, { state: { newest } }, table))
    return isCommitted && newest.metadata.snapshots.length - kept.snapshots.length
  })
}

/** Files of every snapshot that was the newest one since then. Returns null when one of these snapshots has ended. */
async function findUsedSince(table: TableStore, metadata: TableMetadata, sinceMs: number): Promise<Set<string> | null> {
  const first = metadata.snapshots.findLastIndex((snapshot) => snapshot['timestamp-ms'] <= sinceMs)
  return first === -1 ? null : findUsed(table, { ...metadata, snapshots: metadata.snapshots.slice(first) })
}

async function findUsed(table: TableStore, metadata: TableMetadata): Promise<Set<string>> {
  const locations = new Set(metadata['metadata-log'].map(({ 'metadata-file': location }) => location))
  const known = new Map<string, FileReference[]>()
  for (const snapshot of metadata.snapshots) {
    const references = await table.readReferences(snapshot, known)
    if (references === null) throw unreadable(table)
    locations.add(snapshot['manifest-list'])
    for (const location of references.manifests) locations.add(location)
    for (const { location } of references.files) locations.add(location)
  }
  return new Set([...locations].map((location) => table.nameAt(location) ?? location))
}
