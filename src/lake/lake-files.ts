import { join } from 'node:path'
import type { DuckDBValue } from '@duckdb/node-api'
import { commaList, sql } from '../db/sql.ts'
import { OperatorError } from '../errors.ts'
import { epochOf, type Fence } from '../topic/topic.ts'
import { openLakeEvents } from './adopt-lake.ts'
import { untilCommitted } from './iceberg/commit-snapshot.ts'
import { commitFiles, eventTableOf, type LakeSnapshot, readSnapshot } from './iceberg/event-table.ts'
import type { DataFile } from './iceberg/manifest.ts'
import { TableStore } from './iceberg/table-store.ts'
import { ifDamaged, isFaultOfMachine, makeSpillPath, parquetRows, withDuckDB } from './lake-database.ts'
import { type DatasetName, newName } from './lake-names.ts'
import type { LakeStore } from './lake-store.ts'
import { readPresentFiles } from './list-files.ts'
import { writeParquet } from './parquet-writer.ts'
import { selectRows } from './query-duckdb.ts'

/** Another database, or a restored one, also writes to this lake: docs/decisions/lake-snapshots.md. */
export class LakeAhead extends OperatorError {
  override readonly name = 'LakeAhead'

  constructor(newest: number, published: number) {
    super(`the lake has sequence ${newest} of another database, and this one has published up to ${published}: stop the outdated store`)
  }
}

/** The lake has lost rows, because a backup has replaced it or another process has undone a commit. */
export class LakeBehind extends Error {
  override readonly name = 'LakeBehind'

  constructor(end: number, known: number) {
    super(`the lake ends at sequence ${end}, and had every event up to ${known}: what it lacks is delivered again`)
  }
}

export interface PendingRow {
  sequence: number
  /** A date in UTC, `YYYY-MM-DD`. */
  ingestDate: string
  eventId: string
  /** Milliseconds since 1970. */
  eventTime: number
  json: string
}

/**
 * One writer commits the next snapshot, and the others read what it has, so a writer without its subscription does no
 * harm. See docs/decisions/lake-snapshots.md#who-decides-what-follows.
 */
export class LakeFiles {
  readonly #store: LakeStore
  readonly #dataset: DatasetName
  readonly #table: TableStore
  readonly #now: () => Date
  readonly #onWritten: (rows: number) => void
  #end = 0

  constructor(store: LakeStore, dataset: DatasetName, now: () => Date, onWritten: (rows: number) => void = () => {}) {
    this.#store = store
    this.#dataset = dataset
    this.#table = new TableStore(store, eventTableOf(dataset).name)
    this.#now = now
    this.#onWritten = onWritten
  }

  async newestSequence(): Promise<number> {
    this.#end = (await openLakeEvents(this.#store, this.#dataset, this.#table, this.#now())).sequence
    return this.#end
  }

  /**
   * Writes one ingest date in order of sequence, without stored rows and events, and returns the new end. Throws
   * without a write when `fence` reports a takeover, and LakeBehind until `newestSequence` is called.
   */
  async store(pending: readonly PendingRow[], fence: Fence | null = null): Promise<number> {
    const end = pending.at(-1)?.sequence
    if (end === undefined) throw new RangeError('a lake file needs at least one row')
    return untilCommitted(async () => {
      const snapshot = await readSnapshot(this.#store, this.#dataset, this.#table)
      const after = snapshot.sequence
      // A process of the same database cannot have written a later epoch before these rows.
      if (epochOf(after) > epochOf(end)) throw new LakeAhead(after, end)
      if (after < this.#end) throw new LakeBehind(after, this.#end)
      this.#end = after
      if (after >= end) return after
      // A file of an earlier attempt may be deleted already, because no snapshot has it.
      const added = await this.#write(await this.#withoutRepeats(snapshot, pending))
      await fence?.check()
      if (!(await commitFiles(snapshot, { added, sequence: end }, this.#now()))) return false
      for (const { record_count } of added) this.#onWritten(record_count)
      this.#end = end
      return end
    })
  }

  async #write(rows: readonly PendingRow[]): Promise<DataFile[]> {
    const [first, last] = [rows[0], rows.at(-1)]
    if (first === undefined || last === undefined) return []
    const name = newName(this.#dataset, first.ingestDate, first.sequence, last.sequence)
    return this.#store.withWorkspace(async (folder) => {
      const file = { path: join(folder, 'file'), location: this.#table.locate(name) }
      const lines = rows.map((row) => row.json)
      const data = await writeParquet(file, lines, eventTableOf(this.#dataset))
      await this.#store.put(name, file.path)
      return [data]
    })
  }

  /** Skips events that the lake has: late ones, and those that a replay publishes again. */
  async #withoutRepeats({ files, sequence }: LakeSnapshot, pending: readonly PendingRow[]): Promise<PendingRow[]> {
    const rows = pending.filter((row) => row.sequence > sequence)
    const isOld = ({ eventTime }: PendingRow) => files.some(({ oldest, newest }) => oldest <= eventTime && eventTime <= newest)
    const seen = await this.#findStored(rows.filter(isOld))
    return rows.filter(({ eventId }) => !seen.has(eventId) && seen.add(eventId))
  }

  async #findStored(events: readonly PendingRow[]): Promise<Set<string>> {
    if (events.length === 0) return new Set()
    const ids = commaList(events.map(({ eventId }) => eventId))
    return readPresentFiles(
      this.#store,
      this.#dataset,
      (paths) => findIds(paths, ids),
      (files) => files.filter(({ oldest, newest }) => events.some(({ eventTime }) => oldest <= eventTime && eventTime <= newest)),
    )
  }
}

/** Skips damaged files, so that they do not stop the lake. `verify` reports them. */
async function findIds(files: readonly string[], ids: ReturnType<typeof commaList>): Promise<Set<string>> {
  if (files.length === 0) return new Set()
  return withDuckDB(makeSpillPath(), async (connection) => {
    const query = async (some: readonly string[]): Promise<DuckDBValue[][]> =>
      selectRows(connection, sql`select distinct event_id from ${parquetRows(some)} where event_id in (select unnest([${ids}]))`)
    const rows = await query(files).catch(async (error: unknown) => {
      // While events cannot be looked up, they must not count as new.
      if (isFaultOfMachine(error)) throw error
      const found: DuckDBValue[][] = []
      for (const file of files) found.push(...(await query([file]).catch(ifDamaged([]))))
      return found
    })
    return new Set(rows.map(([id]) => String(id)))
  })
}
