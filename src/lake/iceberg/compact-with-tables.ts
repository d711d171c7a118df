import { type CompactOptions, type CompactReport, compactLake } from '../compact-lake.ts'
import { REMEDY } from '../find-damage.ts'
import { commitEvents, hasEventTables } from './commit-events.ts'
import { writeDerivedTables } from './write-derived-tables.ts'

export interface CompactWithTablesOptions extends CompactOptions {
  /** Writes no tables in a lake that has none. */
  isForExisting?: boolean
}

/**
 * Merges the lake's files and brings its tables up to date. The files are in the table before they are merged: so a merge changes none of its
 * rows. A file that is gone, and that the tables lose by this, is a failure.
 */
export async function compactWithTables({ isForExisting = false, ...options }: CompactWithTablesOptions): Promise<CompactReport> {
  const { store } = options
  if (isForExisting && !(await hasEventTables(store))) return compactLake(options)
  const gone: string[] = []
  const commit = async () => void (await commitEvents(store, { onLost: (name) => gone.push(`${store.locate(name)} is gone; ${REMEDY}`) }))
  await commit()
  const report = await compactLake({ ...options, beforeDelete: commit })
  report.failures.push(...gone)
  try {
    await writeDerivedTables(store)
  } catch (error) {
    report.failures.push(`tables: ${(error as Error).message.split('\n')[0]}`)
  }
  return report
}
