import { type CompactOptions, type CompactReport, compactLake } from '../compact-lake.ts'
import { commitEvents, hasOrderEvents } from './commit-order-events.ts'
import { writeDerivedTables } from './write-derived-tables.ts'

export interface CompactWithTablesOptions extends CompactOptions {
  /** Writes no tables in a lake that has none. */
  isForExisting?: boolean
}

/** Merges the lake's files and brings its tables up to date. The files are in the table before they are merged: so a merge changes none of its rows. */
export async function compactWithTables({ isForExisting = false, ...options }: CompactWithTablesOptions): Promise<CompactReport> {
  const { store } = options
  if (isForExisting && !(await hasOrderEvents(store))) return compactLake(options)
  await commitEvents(store)
  const report = await compactLake({ ...options, beforeDelete: async () => void (await commitEvents(store)) })
  await writeDerivedTables(store)
  return report
}
