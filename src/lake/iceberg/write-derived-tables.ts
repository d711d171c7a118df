import { hash, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { DuckDBConnection } from '@duckdb/node-api'
import { OperatorError } from '../../errors.ts'
import { findDamagedBytes, REMEDY } from '../find-damage.ts'
import { withDuckDB } from '../lake-database.ts'
import type { LakeFile, LakeStore } from '../lake-store.ts'
import { createViews } from '../lake-views.ts'
import { readLakeFiles } from '../list-files.ts'
import { writeDataFile } from '../parquet-writer.ts'
import { type Change, commitSnapshot, locationsOf, readBase, untilCommitted } from './commit-snapshot.ts'
import { DERIVED_TABLES, type DerivedTable } from './lake-table.ts'
import type { DataFile } from './manifest.ts'
import { currentSnapshot, type Snapshot } from './table-metadata.ts'
import { TableStore } from './table-store.ts'

/** Snapshot summary property: the last event that the rows contain. */
export const UP_TO = 'storefront.up-to-sequence'
/** Snapshot summary property: the files that it was made from. */
const MADE_FROM = 'storefront.made-from'
/** Snapshot summary property: the number of events in these files. */
export const EVENTS = 'storefront.events'

/**
 * Writes `orders`, `order_lines`, `products`, `prices` and `stock_events` again from the lake's files, each as one snapshot. Does nothing when
 * the files are the same as before. `checksFiles`: writes a table again, too, whose own file is gone or damaged. Throws OperatorError when a file of the
 * lake is damaged.
 */
export async function writeDerivedTables(store: LakeStore, options: DerivedOptions = {}): Promise<number> {
  let written = 0
  const valid = new ValidFiles(store)
  for (const definition of DERIVED_TABLES) if (await writeDerived(store, definition, options, valid)) written += 1
  return written
}

interface DerivedOptions {
  checksFiles?: boolean
  /** Ends the work, which throws its reason. */
  signal?: AbortSignal
}

async function writeDerived(
  store: LakeStore,
  definition: DerivedTable,
  { checksFiles = false, signal }: DerivedOptions,
  valid: ValidFiles,
): Promise<boolean> {
  const table = new TableStore(store, definition.name)
  const read = new Map<string, boolean>()
  const result = await untilCommitted(async () => {
    const base = await readBase(table)
    const entries = base.manifests.flatMap(({ entries }) => entries)
    const present = checksFiles ? await table.findSound(locationsOf(base), read) : null
    const gone = entries.filter(({ data_file }) => present?.has(data_file.file_path) === false)
    const before = base.metadata === null || base.isMoved || gone.length > 0 ? {} : currentSnapshot(base.metadata).summary
    const made = await readLakeFiles(store, definition.dataset, async (files, paths) => {
      const madeFrom = hash('sha256', JSON.stringify(files.map(({ name }) => name)))
      if (files.length === 0 || before[MADE_FROM] === madeFrom) return null
      for (const [index, file] of files.entries()) {
        signal?.throwIfAborted()
        await valid.assert(file, paths[index] ?? '')
      }
      const upTo = files.reduce((end, { last }) => Math.max(end, last), 0)
      const events = files.reduce((sum, { data }) => sum + data.record_count, 0)
      return { file: await write(store, table, definition, paths, signal), upTo, events, madeFrom }
    })
    if (made === null) return 'unchanged'
    const lostFrom = Math.min(...gone.map(({ sequence_number }) => sequence_number))
    const removed = new Set(entries.map(({ data_file }) => data_file.file_path))
    const summary = { [UP_TO]: String(made.upTo), [EVENTS]: String(made.events), [MADE_FROM]: made.madeFrom }
    const isKept = (snapshot: Snapshot) => snapshot['sequence-number'] < lostFrom
    const change: Change = { operation: 'overwrite', added: [made.file], removed, summary, isKept }
    return (await commitSnapshot(table, definition, base, change, new Date())) && 'written'
  })
  return result === 'written'
}

/** Files of the lake that were checked, each once for all tables. A table that is made of a damaged file would lack its rows, and look whole. */
class ValidFiles {
  readonly #store: LakeStore
  readonly #checked = new Set<string>()

  constructor(store: LakeStore) {
    this.#store = store
  }

  async assert({ name }: LakeFile, path: string): Promise<void> {
    if (this.#checked.has(name)) return
    const damage = await findDamagedBytes(path)
    if (damage !== null) throw new OperatorError(`${this.#store.locate(name)}: ${damage}; ${REMEDY}`)
    this.#checked.add(name)
  }
}

function write(
  store: LakeStore,
  table: TableStore,
  definition: DerivedTable,
  paths: readonly string[],
  signal?: AbortSignal,
): Promise<DataFile> {
  return store.withWorkspace(async (folder) => {
    const name = `${table.folder}data/${randomUUID()}.parquet`
    const file = { path: join(folder, 'file'), location: table.locate(name) }
    const work = async (connection: DuckDBConnection) => {
      await createViews(connection, definition.dataset, paths)
      return writeDataFile(connection, file, definition.select, definition)
    }
    const data = await withDuckDB(`${file.path}.spill`, work, {}, signal)
    await store.put(name, file.path)
    return data
  })
}
