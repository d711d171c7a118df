import { withPrevious } from './commit-snapshot.ts'
import { keepSnapshots, type TableMetadata } from './table-metadata.ts'
import type { FileReference, TableStore } from './table-store.ts'

export interface ExpireReport {
  snapshots: number
  /** Deleted files: data, manifests and earlier metadata that no snapshot has any more, also those that killed commits left. */
  files: number
}

const MAX_ATTEMPTS = 10

/**
 * Removes the snapshots older than `before`, all but the current one, and then every file of the table that no remaining snapshot has.
 * A file that a commit in flight has put cannot be among them: the files are listed first, and the commit that follows takes the version
 * that it would need, and fails when that version was there and is gone already. Throws when a remaining snapshot cannot be read.
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
    if (!(await table.commit(state.nextVersion, metadata))) continue
    const used = await findUsed(table, metadata)
    const unused = listed.filter((name) => !used.has(name))
    for (const name of unused) await table.delete(name)
    return { snapshots: newest.metadata.snapshots.length - kept.snapshots.length, files: unused.length }
  }
  throw new Error('other processes keep changing the table of the lake')
}

/** Names of the files that the metadata refer to, and of the metadata files that stay. */
async function findUsed(table: TableStore, metadata: TableMetadata): Promise<Set<string>> {
  const locations = new Set(metadata['metadata-log'].map(({ 'metadata-file': location }) => location))
  const known = new Map<string, FileReference[]>()
  for (const snapshot of metadata.snapshots) {
    const references = await table.readReferences(snapshot, known)
    if (references === null) throw new Error(`snapshot ${snapshot['snapshot-id']} of ${table.folder} cannot be read; no file was deleted`)
    locations.add(snapshot['manifest-list'])
    for (const location of references.manifests) locations.add(location)
    for (const { location } of references.files) locations.add(location)
  }
  return new Set([...locations].map((location) => table.nameAt(location) ?? location))
}
