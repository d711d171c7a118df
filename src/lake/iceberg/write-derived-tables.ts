import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { DuckDBConnection } from '@duckdb/node-api'
import { OperatorError } from '../../errors.ts'
import { findDamagedBytes, REMEDY } from '../find-damage.ts'
import { makeSpillPath, withDuckDB } from '../lake-database.ts'
import { DATASET_NAMES } from '../lake-names.ts'
import { LakeFileGone, type LakeStore } from '../lake-store.ts'
import { writeDataFile } from '../parquet-writer.ts'
import { ChangedRows, NeedsWhole } from './changed-rows.ts'
import { type Change, commitSnapshot, locationsOf, readBase, type TableBase, untilCommitted } from './commit-snapshot.ts'
import { type LakeSnapshot, readSnapshot } from './event-table.ts'
import { DERIVED_TABLES, type DerivedTable, schemaOf } from './lake-table.ts'
import type { DataFile, ManifestEntry } from './manifest.ts'
import { currentSpecOf } from './partition-spec.ts'
import { currentSnapshot, type Snapshot, withSchema } from './table-metadata.ts'
import { TableStore } from './table-store.ts'

/** Snapshot summary property: the last event that the rows contain. */
export const UP_TO = 'storefront.up-to-sequence'
/** Snapshot summary property: the lake's past, and the rules that made the rows. */
const MADE_FROM = 'storefront.made-from'
/** The snapshot summary property with the sequence number and the id of the event snapshot from which the rows come. */
const MADE_OF = 'storefront.made-of-snapshot'
export const EVENTS = 'storefront.events'
/** Increase it when a release makes other rows from the same events. Each table is then written whole. */
const RULES = 1

interface DerivedOptions {
  checksFiles?: boolean
  fileRows?: number
  now?: () => Date
  signal?: AbortSignal
}

/**
 * Rewrites the files that have changed orders or products, or a whole table after a repair. A damaged lake file throws
 * OperatorError, but only after the other dataset was written. Returns the number of written tables.
 */
export async function writeDerivedTables(store: LakeStore, options: DerivedOptions = {}): Promise<number> {
  const writer = new DerivedWriter(store, options)
  const failures: unknown[] = []
  let written = 0
  for (const dataset of DATASET_NAMES) {
    const tables = DERIVED_TABLES.filter((table) => table.dataset === dataset)
    try {
      if (!(await writer.isBehind(tables))) continue
      const write = async (connection: DuckDBConnection) => {
        for (const table of tables) if (await writer.write(table, connection)) written += 1
      }
      await withDuckDB(makeSpillPath(), write, {}, options.signal)
    } catch (error) {
      options.signal?.throwIfAborted()
      failures.push(error)
    }
  }
  if (failures.length > 0) throw failures[0]
  return written
}

interface Source {
  base: TableBase
  snapshot: LakeSnapshot
  /** The last event that the table has. 0: the table keeps nothing. */
  after: number
  events: number
  history: DataFile[]
  gone: readonly ManifestEntry[]
}

interface Changed {
  added: DataFile[]
  removed: DataFile[]
  events: number
}

class DerivedWriter {
  readonly #store: LakeStore
  readonly #options: DerivedOptions
  /** Checked files. A table made from a damaged file would lack rows without any sign. */
  readonly #valid = new Set<string>()

  constructor(store: LakeStore, options: DerivedOptions) {
    this.#store = store
    this.#options = options
  }

  async isBehind(tables: readonly DerivedTable[]): Promise<boolean> {
    for (const definition of tables)
      if ((await this.#findSource(new TableStore(this.#store, definition.name), definition, false)) !== null) return true
    return false
  }

  async write(definition: DerivedTable, connection: DuckDBConnection): Promise<boolean> {
    const table = new TableStore(this.#store, definition.name)
    let isWhole = false
    const result = await untilCommitted(async () => {
      const source = await this.#findSource(table, definition, isWhole)
      if (source === null) return 'unchanged'
      try {
        return (await this.#commit(connection, table, definition, source)) && 'written'
      } catch (error) {
        if (!(error instanceof NeedsWhole)) throw error
        isWhole = true
        return false
      }
    })
    return result === 'written'
  }

  async #findSource(table: TableStore, definition: DerivedTable, isWhole: boolean): Promise<Source | null> {
    const snapshot = await readSnapshot(this.#store, definition.dataset)
    const base = await readBase(table)
    // If a repair has removed the last file, an existing table is still emptied.
    if (snapshot.files.length === 0 && base.metadata === null) return null
    const isChecked = isWhole || this.#options.checksFiles === true
    const present = isChecked ? await table.findSound(locationsOf(base), new Map()) : null
    const entries = base.manifests.flatMap(({ entries }) => entries)
    const gone = entries.filter(({ data_file }) => present?.has(data_file.file_path) === false)
    const whole = { base, snapshot, after: 0, events: 0, history: [], gone }
    const known = findProgress(base, definition, snapshot)
    if (isWhole || gone.length > 0 || known === null) return whole
    if (known.upTo === snapshot.sequence) return null
    const earlier = DERIVED_TABLES.find(({ name }) => name === definition.history?.table)
    if (earlier === undefined) return { ...whole, after: known.upTo, events: known.events }
    const earlierBase = await readBase(new TableStore(this.#store, earlier.name))
    const earlierKnown = findProgress(earlierBase, earlier, snapshot)
    if (earlierKnown === null) return whole
    // Rows of events that the table has are made again.
    const { upTo, events } = earlierKnown.upTo < known.upTo ? earlierKnown : known
    return { ...whole, after: upTo, events, history: filesOf(earlierBase) }
  }

  async #commit(connection: DuckDBConnection, table: TableStore, definition: DerivedTable, source: Source): Promise<boolean> {
    const { base, snapshot, gone } = source
    const { added, removed, events } = await this.#write(connection, table, definition, source)
    const lostFrom = Math.min(...gone.map(({ sequence_number }) => sequence_number))
    const change: Change = {
      ...{ operation: 'overwrite', added, removed: new Set(removed.map(({ file_path }) => file_path)) },
      summary: {
        ...{ [UP_TO]: String(snapshot.sequence), [EVENTS]: String(source.events + events) },
        ...{ [MADE_FROM]: madeFrom(snapshot), [MADE_OF]: madeOf(snapshot) },
      },
      isKept: (snapshot: Snapshot) => snapshot['sequence-number'] < lostFrom,
    }
    const { now = () => new Date() } = this.#options
    return commitSnapshot(table, definition, base, change, now())
  }

  async #write(
    connection: DuckDBConnection,
    table: TableStore,
    definition: DerivedTable,
    { base, snapshot, after, history, events: earlierEvents }: Source,
  ): Promise<Changed> {
    const files = snapshot.files.filter(({ last }) => last > after)
    const changed: Changed = { added: [], removed: after === 0 ? filesOf(base) : [], events: 0 }
    // The later events are repeats, which the lake already has.
    if (files.length === 0) return changed
    const own = after === 0 ? [] : filesOf(base)
    const write = async (folder: string, events: string[]): Promise<Changed> => {
      const rows = new ChangedRows(connection, definition, this.#options.fileRows)
      changed.events = await rows.find(events, after)
      const all = snapshot.files.reduce((sum, { data }) => sum + data.record_count, 0)
      // The table was made from other events than the lake has.
      if (after > 0 && earlierEvents + changed.events !== all) throw new NeedsWhole(definition.name)
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
          // The lake's folder links the stored file, so its path must never be written again.
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

  async #withTableFiles<T>(table: TableStore, files: readonly DataFile[], work: (paths: string[]) => Promise<T>): Promise<T> {
    const named = files.map(({ file_path, file_size_in_bytes }) => ({
      name: table.nameAt(file_path) ?? file_path,
      sizeBytes: file_size_in_bytes,
    }))
    try {
      return await this.#store.withCopies(named, async (paths) => {
        for (const [index, { name }] of named.entries())
          if ((await this.#findDamage(name, paths[index] ?? '')) !== null) throw new NeedsWhole(name)
        return work(paths)
      })
    } catch (error) {
      if (error instanceof LakeFileGone) throw new NeedsWhole(error.message)
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

/** The last event of the table, and its number of events. Null if the table must be rewritten as a whole. */
function findProgress(base: TableBase, definition: DerivedTable, snapshot: LakeSnapshot): { upTo: number; events: number } | null {
  const { metadata, isMoved, manifests } = base
  if (metadata === null || isMoved) return null
  const { [UP_TO]: upTo, [EVENTS]: events, [MADE_FROM]: from, [MADE_OF]: source } = currentSnapshot(metadata).summary
  const spec = currentSpecOf(definition)
  const isCurrent =
    from === madeFrom(snapshot) &&
    isPastOf(snapshot, source) &&
    Number(upTo) <= snapshot.sequence &&
    // A new release may add columns, or split files by another rule.
    withSchema(metadata, schemaOf(definition)).schemaId === metadata['current-schema-id'] &&
    manifests.every(({ manifest }) => manifest.partition_spec_id === spec['spec-id'])
  return isCurrent ? { upTo: Number(upTo), events: Number(events) } : null
}

function madeFrom({ past }: LakeSnapshot): string {
  return `${RULES} ${past}`.trim()
}

function madeOf({ base }: LakeSnapshot): string {
  const { 'sequence-number': number = 0, 'snapshot-id': id = 0 } = base.metadata === null ? {} : currentSnapshot(base.metadata)
  return `${number} ${id}`
}

/** A lake that was restored from a backup lacks the last snapshots. */
function isPastOf({ base }: LakeSnapshot, source = ''): boolean {
  const snapshots = base.metadata?.snapshots ?? []
  const [number, id] = source.split(' ').map(Number)
  const oldest = Math.min(...snapshots.map((snapshot) => snapshot['sequence-number']))
  return snapshots.some((snapshot) => snapshot['snapshot-id'] === id) || (number !== undefined && number < oldest)
}

function filesOf({ manifests }: TableBase): DataFile[] {
  return manifests.flatMap(({ entries }) => entries.map(({ data_file }) => data_file))
}
