import { counted } from '../counted.ts'
import { sql } from '../db/sql.ts'
import { findDamage } from './find-damage.ts'
import { ifDamaged, parquetRows } from './lake-database.ts'
import { type DatasetName, groupSuperseded, parseName } from './lake-names.ts'
import { type LakeFile, type LakeStore, repeatWhenGone } from './lake-store.ts'
import { listLake } from './list-files.ts'
import { queryDuckDB } from './query-duckdb.ts'

const MAX_ATTEMPTS = 5

export interface DeleteReport {
  deleted: number
  faults: SupersedingFault[]
}

/** A file that supersedes others by its name alone. They are not deleted. */
export interface SupersedingFault {
  name: string
  /** The path or address of the faulty file, and what is wrong with it. */
  reason: string
  superseded: string[]
}

/**
 * Deletes the superseded files of a day of a dataset. The names only suggest them: the superseding file is read first, and must be
 * undamaged, written under its own name, and contain every event of the file that is deleted. `beforeDelete` is called
 * when there are such files; nothing is deleted when it throws.
 */
export async function deleteSuperseded(
  store: LakeStore,
  dataset: DatasetName,
  day: string,
  beforeDelete = async () => {},
): Promise<DeleteReport> {
  // Another process may delete too.
  return repeatWhenGone(MAX_ATTEMPTS, () => deleteListed(store, dataset, day, beforeDelete))
}

async function deleteListed(store: LakeStore, dataset: DatasetName, day: string, beforeDelete: () => Promise<void>): Promise<DeleteReport> {
  const files = (await listLake(store, dataset, `${dataset}/ingest_date=${day}/`)).filter(({ name }) => parseName(name)?.ingestDate === day)
  const covered = new Set<string>()
  const faults: SupersedingFault[] = []
  for (const [file, superseded] of groupSuperseded(files)) {
    const names = superseded.map(({ name }) => name)
    const reason = await findFault(store, file, superseded)
    if (reason !== null) faults.push({ name: file.name, reason, superseded: names })
    else for (const name of names) covered.add(name)
  }
  if (covered.size > 0) await beforeDelete()
  for (const name of covered) await store.delete(name)
  // Two overlapping files may both supersede a third one. It is enough that one of them has its events.
  const isOpen = ({ superseded }: SupersedingFault) => superseded.some((name) => !covered.has(name))
  return { deleted: covered.size, faults: faults.filter(isOpen) }
}

/** Why the superseded files must not be deleted; null when they may be. */
async function findFault(store: LakeStore, file: LakeFile, superseded: LakeFile[]): Promise<string | null> {
  const at = store.locate(file.name)
  return store.withCopies(
    [file],
    async ([path = '']) => {
      const damage = await findDamage(path, file.name)
      if (damage !== null) return `${at}: ${damage}`
      return store.withCopies(superseded, async (paths) => {
        if ((await countMissing(path, paths).catch(ifDamaged(null))) === 0) return null
        for (const [index, { name }] of superseded.entries()) {
          const missing = await countMissing(path, [paths[index] ?? '']).catch(ifDamaged(null))
          if (missing === null) return `${store.locate(name)}: it cannot be read`
          if (missing > 0) return `${at}: it lacks ${counted(missing, 'event')} of ${store.locate(name)}, which it supersedes`
        }
        return `${at}: it cannot be compared with the files that it supersedes`
      })
    },
    { isFresh: true },
  )
}

async function countMissing(path: string, superseded: readonly string[]): Promise<number> {
  const rows = await queryDuckDB(sql`
    select count(*)
    from (select event_id from ${parquetRows(superseded)} except select event_id from ${parquetRows([path])})`)
  return Number(rows[0]?.[0])
}
