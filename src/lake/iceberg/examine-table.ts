import { type LakeFile, LakeFileGone, type LakeStore, repeatWhenGone } from '../lake-store.ts'
import { isHere } from './commit-snapshot.ts'
import { eventTableOf } from './event-table.ts'
import type { LakeTableDefinition } from './lake-table.ts'
import { currentSnapshot } from './table-metadata.ts'
import { type FileReference, TableStore, type TableVersion } from './table-store.ts'

export interface TableExamination {
  newest: TableVersion | null
  nextVersion: number
  isBehind: boolean
  files: LakeFile[]
  faults: string[]
  lost: Set<number>
  /** The place that the metadata name, if it is not the current one. Nothing else is examined then. */
  movedFrom: string | null
}

const MAX_ATTEMPTS = 5

export async function examineTable(store: LakeStore, definition: LakeTableDefinition): Promise<TableExamination> {
  const table = new TableStore(store, definition.name)
  return repeatWhenGone(MAX_ATTEMPTS, async () => {
    const examination = await examine(store, table, definition)
    if (examination.faults.length === 0) return examination
    // An expiry or a merge may have deleted what these metadata named.
    const { newest } = await table.read()
    if (newest?.version !== examination.newest?.version) throw new LakeFileGone(`${table.folder} has changed`)
    return examination
  })
}

async function examine(store: LakeStore, table: TableStore, definition: LakeTableDefinition): Promise<TableExamination> {
  const { dataset } = definition
  const state = await table.read()
  const { newest, nextVersion, isBehind } = state
  const examination: TableExamination = {
    newest,
    nextVersion,
    isBehind,
    files: [],
    faults: [...state.damaged],
    lost: new Set(),
    movedFrom: null,
  }
  if (newest === null) return examination
  if (!isHere(table, newest.metadata)) return { ...examination, movedFrom: newest.metadata.location }
  const listed = [...(await store.list(`${table.folder}data/`)), ...(await store.list(`${dataset}/`))]
  const byName = new Map(listed.map((file) => [file.name, file]))
  const current = currentSnapshot(newest.metadata)
  const { files, faults, lost } = examination
  const gone = new Set<string>()
  const known = new Map<string, FileReference[]>()
  // A repair ends the event snapshots that have lost rows, and `readLake` reads the others.
  const isOfEvents = definition === eventTableOf(dataset)
  const live = new Set(isOfEvents ? (await table.readReferences(current, known))?.files.map(({ location }) => location) : [])
  for (const snapshot of newest.metadata.snapshots) {
    const references = await table.readReferences(snapshot, known)
    if (references === null) faults.push(`${snapshot['manifest-list']}: it, or a manifest in it, is damaged or gone`)
    if (references === null) lost.add(snapshot['snapshot-id'])
    for (const { location, sizeBytes } of references?.files ?? []) {
      const file = byName.get(table.nameAt(location) ?? '')
      if (file?.sizeBytes !== sizeBytes && !live.has(location)) {
        gone.add(location)
        lost.add(snapshot['snapshot-id'])
      } else if (snapshot === current && file !== undefined) files.push(file)
    }
  }
  faults.push(...[...gone].map((location) => `${location}: it is gone or has another size`))
  return examination
}
