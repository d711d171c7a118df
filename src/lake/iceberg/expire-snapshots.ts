import { OperatorError } from '../../errors.ts'
import type { LakeStore } from '../lake-store.ts'
import { withPrevious } from './commit-snapshot.ts'
import { examineTable } from './examine-table.ts'
import type { LakeTableDefinition } from './lake-table.ts'
import { keepSnapshots, type TableMetadata } from './table-metadata.ts'
import { type FileReference, TableStore } from './table-store.ts'

export interface ExpireReport {
  snapshots: number
  /** Deleted files: data, manifests and earlier metadata that no snapshot has any more, also those that killed commits left. */
  files: number
}

const MAX_ATTEMPTS = 10

/**
 * Removes the snapshots older than `before`, all but the current one, and then every file of the table that no remaining snapshot has.
 * A file that a commit in flight has put cannot be among them: the files are listed first, and the commit that follows takes the version
 * that it would need, and fails when that version was there and is gone already. Changes nothing when a remaining snapshot cannot be read.
 */
export async function expireSnapshots(table: TableStore, before: Date, now: Date = new Date()): Promise<ExpireReport> {
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
    const listed = await table.list()
    const state = await table.read()
    const { newest } = state
    if (newest === null) return { snapshots: 0, files: 0 }
    const kept = keepSnapshots(newest.metadata, (snapshot) => snapshot['timestamp-ms'] >= before.getTime())
    const at = Math.max(now.getTime(), kept['last-updated-ms'])
    const metadata = { ...withPrevious(kept, { state }, table), 'last-updated-ms': at }
    const used = await findUsed(table, metadata)
    if (!(await table.commit(state.nextVersion, metadata))) continue
    const unused = listed.filter((name) => !used.has(name))
    for (const name of unused) await table.delete(name)
    return { snapshots: newest.metadata.snapshots.length - kept.snapshots.length, files: unused.length }
  }
  throw new Error('other processes keep changing the table of the lake')
}

/**
 * Ends the earlier snapshots that cannot be read, and gives the table a version above damaged metadata. The current snapshot stays: the
 * commit before this one has written it again.
 */
export async function endLostSnapshots(store: LakeStore, definition: LakeTableDefinition): Promise<number> {
  const table = new TableStore(store, definition.name)
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
    const { newest, nextVersion, lost, faults } = await examineTable(store, definition)
    if (newest === null || faults.length === 0) return 0
    const kept = keepSnapshots(newest.metadata, (snapshot) => !lost.has(snapshot['snapshot-id']))
    if (await table.commit(nextVersion, withPrevious(kept, { state: { newest } }, table)))
      return newest.metadata.snapshots.length - kept.snapshots.length
  }
  throw new Error('other processes keep changing the table of the lake')
}

/** Names of the files that the metadata refer to, and of the metadata files that stay. */
async function findUsed(table: TableStore, metadata: TableMetadata): Promise<Set<string>> {
  const locations = new Set(metadata['metadata-log'].map(({ 'metadata-file': location }) => location))
  const known = new Map<string, FileReference[]>()
  for (const snapshot of metadata.snapshots) {
    const references = await table.readReferences(snapshot, known)
    if (references === null)
      throw new OperatorError(`a snapshot of ${table.folder} cannot be read: run storefront lake tables, then this again`)
    locations.add(snapshot['manifest-list'])
    for (const location of references.manifests) locations.add(location)
    for (const { location } of references.files) locations.add(location)
  }
  return new Set([...locations].map((location) => table.nameAt(location) ?? location))
}
