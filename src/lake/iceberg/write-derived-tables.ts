import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { DuckDBConnection } from '@duckdb/node-api'
import { OperatorError } from '../../errors.ts'
import { findDamagedBytes, REMEDY } from '../find-damage.ts'
import { makeSpillPath, withDuckDB } from '../lake-database.ts'
import { LakeFileGone, type LakeStore } from '../lake-store.ts'
import { writeDataFile } from '../parquet-writer.ts'
import { ChangedRows } from './changed-rows.ts'
import { type Change, commitSnapshot, locationsOf, readBase, type TableBase, untilCommitted } from './commit-snapshot.ts'
import { type LakeSnapshot, readSnapshot } from './event-table.ts'
import { DERIVED_TABLES, type DerivedTable, schemaOf } from './lake-table.ts'
import type { DataFile, ManifestEntry } from './manifest.ts'
import { currentSpecOf } from './partition-spec.ts'
import { currentSnapshot, type Snapshot, withSchema } from './table-metadata.ts'
import { TableStore } from './table-store.ts'

/** Snapshot summary property: the last event that the rows contain. */
export const UP_TO = 'storefront.up-to-sequence'
/** Snapshot summary property: the past of the lake that they were made from, and the rules by which. */
const MADE_FROM = 'storefront.made-from'
/** Snapshot summary property: the number of events that they were made from. */
export const EVENTS = 'storefront.events'
/** It increases when a release makes other rows of the same events: each table is then written whole. */
const RULES = 1

interface DerivedOptions {
  /** Writes a table whole, too, of which a file is gone or damaged. */
  checksFiles?: boolean
  /** See `ChangedRows`. */
  fileRows?: number
  now?: () => Date
  /** Ends the work, which throws its reason. */
  signal?: AbortSignal
}

/**
 * Brings the tables of the newest state up to the end of the lake, each in one snapshot: reads the events after the last
 * one that a table has, and writes the files again in which the rows of their orders or products are. Writes a table
 * whole when the lake's past has changed, as by a repair. Throws OperatorError when a file of the lake is damaged.
 * Returns the number of tables that were written.
 */
export async function writeDerivedTables(store: LakeStore, options: DerivedOptions = {}): Promise<number> {
  const writer = new DerivedWriter(store, options)
  if (!(await writer.isBehind())) return 0
  // Creating a DuckDB takes longer than a small table.
  const write = async (connection: DuckDBConnection) => {
    let written = 0
    for (const definition of DERIVED_TABLES) if (await writer.write(definition, connection)) written += 1
    return written
  }
  return withDuckDB(makeSpillPath(), write, {}, options.signal)
}

/** What a commit starts from. */
interface Source {
  base: TableBase
  snapshot: LakeSnapshot
  /** The last event that the table has; 0: nothing of the table stays. */
  after: number
  /** The number of events up to it. */
  events: number
  /** The files whose rows stand for the events up to it: see `History`. */
  history: DataFile[]
  /** Files of the table that are gone or damaged. */
  gone: readonly ManifestEntry[]
}

/** What a commit changes. */
interface Changed {
  added: DataFile[]
  removed: DataFile[]
  /** The number of events that were read. */
  events: number
}

/** A file of a table of the newest state is gone or damaged. */
class TableDamaged extends Error {
  override readonly name = 'TableDamaged'
}

class DerivedWriter {
  readonly #store: LakeStore
  readonly #options: DerivedOptions
  /** Files that were checked. A table that is made of a damaged one would lack its rows, and look whole. */
  readonly #valid = new Set<string>()

  constructor(store: LakeStore, options: DerivedOptions) {
    this.#store = store
    this.#options = options
  }

  /** Whether a table lacks something. */
  async isBehind(): Promise<boolean> {
    for (const definition of DERIVED_TABLES)
      if ((await this.#findSource(new TableStore(this.#store, definition.name), definition, false)) !== null) return true
    return false
  }

  /** Whether there was something to write. */
  async write(definition: DerivedTable, connection: DuckDBConnection): Promise<boolean> {
    const table = new TableStore(this.#store, definition.name)
    let isWhole = false
    const result = await untilCommitted(async () => {
      const source = await this.#findSource(table, definition, isWhole)
      if (source === null) return 'unchanged'
      try {
        return (await this.#commit(connection, table, definition, source)) && 'written'
      } catch (error) {
        if (!(error instanceof TableDamaged)) throw error
        isWhole = true
        return false
      }
    })
    return result === 'written'
  }

  /** Returns null when the table has every event. */
  async #findSource(table: TableStore, definition: DerivedTable, isWhole: boolean): Promise<Source | null> {
    const snapshot = await readSnapshot(this.#store, definition.dataset)
    if (snapshot.files.length === 0) return null
    const base = await readBase(table)
    const isChecked = isWhole || this.#options.checksFiles === true
    const present = isChecked ? await table.findSound(locationsOf(base), new Map()) : null
    const entries = base.manifests.flatMap(({ entries }) => entries)
    const gone = entries.filter(({ data_file }) => present?.has(data_file.file_path) === false)
    const whole = { base, snapshot, after: 0, events: 0, history: [], gone }
    const known = findProgress(base, definition, snapshot)
    if (isWhole || gone.length > 0 || known === null) return whole
    if (known.upTo === snapshot.sequence) return null
    const history = await this.#readHistory(definition, snapshot, known.upTo)
    return history === null ? whole : { ...whole, after: known.upTo, events: known.events, history }
  }

  /** Returns null when the table of the earlier events ends before `upTo`. */
  async #readHistory({ history }: DerivedTable, snapshot: LakeSnapshot, upTo: number): Promise<DataFile[] | null> {
    const earlier = DERIVED_TABLES.find(({ name }) => name === history?.table)
    if (earlier === undefined) return []
    const base = await readBase(new TableStore(this.#store, earlier.name))
    const known = findProgress(base, earlier, snapshot)
    return known === null || known.upTo < upTo ? null : filesOf(base)
  }

  async #commit(connection: DuckDBConnection, table: TableStore, definition: DerivedTable, source: Source): Promise<boolean> {
    const { base, snapshot, gone } = source
    const { added, removed, events } = await this.#write(connection, table, definition, source)
    const lostFrom = Math.min(...gone.map(({ sequence_number }) => sequence_number))
    const change: Change = {
      ...{ operation: 'overwrite', added, removed: new Set(removed.map(({ file_path }) => file_path)) },
      summary: {
        ...{ [UP_TO]: String(snapshot.sequence), [EVENTS]: String(source.events + events) },
        [MADE_FROM]: madeFrom(snapshot),
      },
      isKept: (snapshot: Snapshot) => snapshot['sequence-number'] < lostFrom,
    }
    const { now = () => new Date() } = this.#options
    return commitSnapshot(table, definition, base, change, now())
  }

  /** Writes the files of a commit. */
  async #write(
    connection: DuckDBConnection,
    table: TableStore,
    definition: DerivedTable,
    { base, snapshot, after, history }: Source,
  ): Promise<Changed> {
    const files = snapshot.files.filter(({ last }) => last > after)
    // The events since then are repeats, which the lake has already.
    if (files.length === 0) return { added: [], removed: [], events: 0 }
    const own = after === 0 ? [] : filesOf(base)
    const write = async (folder: string, events: string[]): Promise<Changed> => {
      const rows = new ChangedRows(connection, definition, this.#options.fileRows)
      const changed: Changed = { added: [], removed: after === 0 ? filesOf(base) : [], events: await rows.find(events, after) }
      const isAnywhere = definition.history?.isAnywhere === true
      const near = isAnywhere ? [] : await rows.place(history)
      const earlier = isAnywhere ? history : near.flatMap(({ file }) => (file === null ? [] : history.slice(file, file + 1)))
      const groups = await rows.place(own)
      await this.#withTableFiles(table, earlier, (paths) => rows.make(events, after, paths))
      for (const group of groups) {
        const replaced = group.file === null ? [] : own.slice(group.file, group.file + 1)
        changed.removed.push(...replaced)
        for (const select of await this.#withTableFiles(table, replaced, ([path = null]) => rows.collect(group, path))) {
          this.#options.signal?.throwIfAborted()
          // A folder of the lake links the stored file: no other one may be written to its path.
          const [path, name] = [join(folder, randomUUID()), `${table.folder}data/${randomUUID()}.parquet`]
          const data = await writeDataFile(connection, { path, location: table.locate(name) }, select, definition)
          await this.#store.put(name, path)
          changed.added.push({ ...data, partition: { month: group.month } })
        }
      }
      return changed
    }
    return this.#store.withWorkspace((folder) =>
      this.#store.withCopies(files, async (events) => {
        for (const [index, { name }] of files.entries()) {
          this.#options.signal?.throwIfAborted()
          const damage = await this.#findDamage(name, events[index] ?? '')
          if (damage !== null) throw new OperatorError(`${this.#store.locate(name)}: ${damage}; ${REMEDY}`)
        }
        return write(folder, events)
      }),
    )
  }

  /** Runs `work` with local paths of files of tables of the newest state. Throws TableDamaged. */
  async #withTableFiles<T>(table: TableStore, files: readonly DataFile[], work: (paths: string[]) => Promise<T>): Promise<T> {
    const named = files.map(({ file_path, file_size_in_bytes }) => ({
      name: table.nameAt(file_path) ?? file_path,
      sizeBytes: file_size_in_bytes,
    }))
    try {
      return await this.#store.withCopies(named, async (paths) => {
        for (const [index, { name }] of named.entries())
          if ((await this.#findDamage(name, paths[index] ?? '')) !== null) throw new TableDamaged(name)
        return work(paths)
      })
    } catch (error) {
      if (error instanceof LakeFileGone) throw new TableDamaged(error.message)
      throw error
    }
  }

  async #findDamage(name: string, path: string): Promise<string | null> {
    if (this.#valid.has(name)) return null
    const damage = await findDamagedBytes(path)
    if (damage === null) this.#valid.add(name)
    return damage
  }
}

/** What a table has of this lake; null when it has to be written whole. */
function findProgress(base: TableBase, definition: DerivedTable, snapshot: LakeSnapshot): { upTo: number; events: number } | null {
  const { metadata, isMoved, manifests } = base
  if (metadata === null || isMoved) return null
  const { [UP_TO]: upTo, [EVENTS]: events, [MADE_FROM]: from } = currentSnapshot(metadata).summary
  const spec = currentSpecOf(definition)
  const isCurrent =
    from === madeFrom(snapshot) &&
    Number(upTo) <= snapshot.sequence &&
    // A release may add columns, or split files in another way.
    withSchema(metadata, schemaOf(definition)).schemaId === metadata['current-schema-id'] &&
    manifests.every(({ manifest }) => manifest.partition_spec_id === spec['spec-id'])
  return isCurrent ? { upTo: Number(upTo), events: Number(events) } : null
}

function madeFrom({ past }: LakeSnapshot): string {
  return `${RULES} ${past}`.trim()
}

function filesOf({ manifests }: TableBase): DataFile[] {
  return manifests.flatMap(({ entries }) => entries.map(({ data_file }) => data_file))
}
