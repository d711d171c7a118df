import { type LakeFile, LakeFileGone, type LakeStore, repeatWhenGone } from '../lake-store.ts'
import type { LakeTableDefinition } from './lake-table.ts'
import { currentSnapshot } from './table-metadata.ts'
import { type FileReference, TableStore, type TableVersion } from './table-store.ts'

export interface TableExamination {
  /** Null for a table that was never written. */
  newest: TableVersion | null
  /** Of the newest snapshot, as far as they are there. */
  files: LakeFile[]
  /** What cannot be read: metadata, snapshots and their files, with the reason. */
  faults: string[]
}

const MAX_ATTEMPTS = 5

/** Whether every snapshot of a table can be read: its manifests, and that each file has the size of its entry. */
export async function examineTable(store: LakeStore, definition: LakeTableDefinition): Promise<TableExamination> {
  const table = new TableStore(store, definition.name)
  return repeatWhenGone(MAX_ATTEMPTS, async () => {
    const examination = await examine(store, table)
    if (examination.faults.length === 0) return examination
    // An expiry or a merge may have deleted what these metadata named.
    const { newest } = await table.read()
    if (newest?.version !== examination.newest?.version) throw new LakeFileGone(`${table.folder} has changed`)
    return examination
  })
}

async function examine(store: LakeStore, table: TableStore): Promise<TableExamination> {
  const { newest, damaged } = await table.read()
  const faults = damaged.map((place) => `${place}: it is no metadata of a table`)
  if (newest === null) return { newest, files: [], faults }
  const listed = [...(await store.list(`${table.folder}data/`)), ...(await store.list('orders/'))]
  const byName = new Map(listed.map((file) => [file.name, file]))
  const current = currentSnapshot(newest.metadata)
  const files: LakeFile[] = []
  const lost = new Set<string>()
  const known = new Map<string, FileReference[]>()
  for (const snapshot of newest.metadata.snapshots) {
    const references = await table.readReferences(snapshot, known)
    if (references === null) faults.push(`${snapshot['manifest-list']}: it, or a manifest in it, is damaged or gone`)
    for (const { location, sizeBytes } of references?.files ?? []) {
      const file = byName.get(table.nameAt(location) ?? '')
      if (file?.sizeBytes !== sizeBytes) lost.add(location)
      else if (snapshot === current) files.push(file)
    }
  }
  return { newest, files, faults: [...faults, ...[...lost].map((location) => `${location}: it is gone or has another size`)] }
}
