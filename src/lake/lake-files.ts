import { join } from 'node:path'
import type { DuckDBValue } from '@duckdb/node-api'
import { commaList, noSql, type Sql, sql } from '../db/sql.ts'
import { OperatorError } from '../errors.ts'
import { epochOf, type Fence } from '../topic/topic.ts'
import { checkChecksum } from './lake-checksum.ts'
import { ifDamaged, isFaultOfMachine, makeSpillPath, parquetRows, withDuckDB } from './lake-database.ts'
import type { LakeDataset } from './lake-dataset.ts'
import { findEndOf, findLakeEnd, hasMagic } from './lake-end.ts'
import { type DatasetName, nameOf, padSequence, parseName } from './lake-names.ts'
import { LakeFileGone, type LakeStore } from './lake-store.ts'
import { readLakeFiles } from './list-files.ts'
import { readParquetName, writeParquet } from './parquet-writer.ts'
import { selectRows } from './query-duckdb.ts'

// Claims of orders do not name their dataset, so that the previous release finds them.
const CLAIMS = { orders: '.pending/after-', catalogue: '.pending/catalogue-after-' }
const CLAIM = /^\.pending\/(?:catalogue-)?after-(\d{16})\.parquet$/
const DAY_MS = 86_400_000

/** Another database writes to this lake, or this one was restored and has not begun a new incarnation yet. See decision 0172. */
export class LakeAhead extends OperatorError {
  override readonly name = 'LakeAhead'

  constructor(newest: number, published: number) {
    super(`the lake has sequence ${newest} of another database, and this one has published up to ${published}: stop the outdated store`)
  }
}

type Dataset = Pick<LakeDataset<never>, 'name' | 'columns'>

/** A row that will be written to a file. */
export interface PendingRow {
  sequence: number
  /** UTC, `YYYY-MM-DD`. */
  ingestDate: string
  eventId: string
  /** Milliseconds since 1970. */
  eventTime: number
  json: string
}

/**
 * Writes the files of a dataset of the lake in order of sequence. A writer first stores its complete file as a claim, whose name contains
 * the end of the lake: only one claim can follow each end. Any process may then publish the claimed file. So a writer
 * that lost its subscription can only do what its successor does as well. See decision 0051.
 */
export class LakeFiles {
  readonly #store: LakeStore
  readonly #dataset: Dataset
  readonly #claims: string
  readonly #onWritten: (rows: number) => void
  readonly #onQuarantined: (path: string) => void
  /** The end of the lake, as far as this process knows. */
  #newest = 0
  /** Undefined until it is read; null for an empty lake. */
  #newestEventTime: number | null | undefined

  constructor(
    store: LakeStore,
    dataset: Dataset,
    onWritten: (rows: number) => void = () => {},
    onQuarantined: (path: string) => void = () => {},
  ) {
    this.#store = store
    this.#dataset = dataset
    this.#claims = CLAIMS[dataset.name]
    this.#onWritten = onWritten
    this.#onQuarantined = onQuarantined
  }

  /** The end of the lake, 0 for none. First publishes a file that another process has claimed. */
  async newestSequence(): Promise<number> {
    // Another process may have been the active one meanwhile.
    this.#newestEventTime = undefined
    this.#newest = await findLakeEnd(this.#store, this.#dataset.name)
    for (const { name } of await this.#store.list(this.#claims)) {
      const after = sequenceOf(name)
      if (after < this.#newest) await this.#store.delete(name)
      else if (after === this.#newest) await this.#finish(name)
    }
    return this.#newest
  }

  /**
   * Writes one file of rows of one ingest date, in order of sequence. Returns the new end of the lake. When another
   * process has written the first rows meanwhile, nothing is written and the end is that of its file. Omits events that
   * the lake already has, which a replay publishes under a new sequence. Throws, and writes nothing, when `fence`
   * reports that another process has taken over.
   */
  async store(pending: readonly PendingRow[], fence: Fence | null = null): Promise<number> {
    const end = pending.at(-1)
    if (end === undefined) throw new RangeError('a lake file needs at least one row')
    this.#assertSameEpoch(end.sequence)
    const rows = await this.#withoutRepeats(pending)
    const [first, last] = [rows[0], rows.at(-1)]
    if (first === undefined || last === undefined) return end.sequence
    const name = nameOf({ dataset: this.#dataset.name, ingestDate: first.ingestDate, first: first.sequence, last: last.sequence })
    const isStored = await this.#store.withWorkspace(async (folder) => {
      const path = join(folder, 'file')
      const lines = rows.map((row) => row.json)
      await writeParquet(path, lines, name, this.#dataset.columns)
      await fence?.check()
      return this.#append(name, path)
    })
    if (!isStored) {
      this.#assertSameEpoch(end.sequence)
      return this.#newest
    }
    this.#onWritten(rows.length)
    this.#newestEventTime = rows.reduce((newest, row) => Math.max(newest, row.eventTime), this.#newestEventTime ?? 0)
    return end.sequence
  }

  /** Throws LakeAhead when the lake has files of a later epoch, which no process of the same database can have written before these rows. */
  #assertSameEpoch(sequence: number): void {
    if (epochOf(this.#newest) > epochOf(sequence)) throw new LakeAhead(this.#newest, sequence)
  }

  /** False when another process has claimed this end of the lake. */
  async #append(name: string, path: string): Promise<boolean> {
    const claim = `${this.#claims}${padSequence(this.#newest)}.parquet`
    if ((await this.#store.put(claim, path)) === 'taken') {
      await this.#finish(claim)
      return false
    }
    return this.#publish(claim, name, path)
  }

  /** Publishes the file of a claim of any process. Sets a damaged one aside: the topic delivers its events again. */
  async #finish(claim: string): Promise<void> {
    const [file] = (await this.#store.list(claim)).filter(({ name }) => name === claim)
    if (file !== undefined) {
      const publish = async ([path = '']: string[]) => {
        const name = await this.#readUndamagedName(path, sequenceOf(claim))
        if (name !== null) await this.#publish(claim, name, path)
        return name === null
      }
      const isDamaged = await this.#store.withCopies([file], publish, { isFresh: true }).catch((error) => {
        // Another process has finished it.
        if (!(error instanceof LakeFileGone)) throw error
        return false
      })
      if (isDamaged) this.#onQuarantined(await this.#store.quarantine(claim))
    }
    this.#newest = Math.max(this.#newest, await findLakeEnd(this.#store, this.#dataset.name, { known: this.#newest }))
  }

  /** Publishes the claim's bytes, at `path`, unless the lake has newer files: then the claim is late and deleted. */
  async #publish(claim: string, name: string, path: string): Promise<boolean> {
    const { last = 0, ingestDate = '' } = parseName(name) ?? {}
    const newest = await this.#findEnd(ingestDate)
    const isFree = newest <= sequenceOf(claim)
    if (isFree && (await this.#store.put(name, path)) === 'taken') await this.#replaceJunk(name, path)
    await this.#store.delete(claim)
    this.#newest = Math.max(this.#newest, newest, isFree ? last : 0)
    return isFree
  }

  /** Takes the place of a file with the same name that cannot be read, such as one that a bad disk has damaged. */
  async #replaceJunk(name: string, path: string): Promise<void> {
    const [taken] = (await this.#store.list(name)).filter((file) => file.name === name)
    if (taken !== undefined && (await findEndOf(this.#store, [taken])) > 0) return
    if (taken !== undefined) this.#onQuarantined(await this.#store.quarantine(name))
    await this.#store.put(name, path)
  }

  /** The end of the files from a day before this date on: a writer's clock may be behind. */
  async #findEnd(ingestDate: string): Promise<number> {
    const after = `${this.#dataset.name}/ingest_date=${new Date(Date.parse(ingestDate) - DAY_MS).toISOString().slice(0, 10)}`
    return findLakeEnd(this.#store, this.#dataset.name, { after, known: this.#newest })
  }

  /** The name in a claim's metadata; null when the file is damaged, of another dataset or does not follow `after`. */
  async #readUndamagedName(path: string, after: number): Promise<string | null> {
    if ((await checkChecksum(path)) === 'wrong' || !(await hasMagic(path))) return null
    const name = await readParquetName(path)
    const parsed = parseName(name ?? '')
    return parsed?.dataset !== this.#dataset.name || parsed.first <= after ? null : name
  }

  /**
   * Drops repeated events. The lake can have those that are late or delivered again, but none that is newer than all of
   * its events.
   */
  async #withoutRepeats(pending: readonly PendingRow[]): Promise<PendingRow[]> {
    this.#newestEventTime ??= await findNewestEventTime(this.#store, this.#dataset.name)
    const newest = this.#newestEventTime ?? Number.NEGATIVE_INFINITY
    const possibleDuplicates = pending.filter((row) => row.eventTime <= newest)
    const seen = possibleDuplicates.length === 0 ? new Set<string>() : await findStored(this.#store, this.#dataset.name, possibleDuplicates)
    return pending.filter(({ eventId }) => !seen.has(eventId) && seen.add(eventId))
  }
}

/** The end of the lake that a claim follows; not a number for other files. */
function sequenceOf(claim: string): number {
  return Number(CLAIM.exec(claim)?.[1] ?? Number.NaN)
}

/** The largest expected difference between the clocks of the store's processes and that of the lake's files. */
const CLOCK_SKEW_MS = 15 * 60_000

/**
 * An upper bound of the event times in a dataset of the lake, in milliseconds since 1970; null for an empty lake. A file contains no
 * event that is newer than itself, so only the files of the last minutes are read.
 */
async function findNewestEventTime(store: LakeStore, dataset: DatasetName): Promise<number | null> {
  let newest: number | null = null
  const times = await readLakeFiles(
    store,
    dataset,
    (_, paths) => selectFrom(paths, sql`select epoch_ms(max(event_time))`, noSql),
    (files) => {
      const newestFile = files.reduce((time, { storedAt }) => Math.max(time, storedAt), 0)
      newest = files.length === 0 ? null : newestFile
      return files.filter(({ storedAt }) => storedAt >= newestFile - CLOCK_SKEW_MS)
    },
  )
  return times.reduce<number | null>((latest, time) => (time === null ? latest : Math.max(latest ?? 0, Number(time))), newest)
}

/** The ids of these events that a lake dataset has. Files older than the oldest of them are not read. */
async function findStored(
  store: LakeStore,
  dataset: DatasetName,
  events: readonly { eventId: string; eventTime: number }[],
): Promise<Set<string>> {
  const oldest = events.reduce((time, event) => Math.min(time, event.eventTime), Number.POSITIVE_INFINITY)
  const wanted = sql`where event_id in (select unnest([${commaList(events.map(({ eventId }) => eventId))}]))`
  const found = await readLakeFiles(
    store,
    dataset,
    (_, paths) => selectFrom(paths, sql`select distinct event_id`, wanted),
    (files) => files.filter(({ storedAt }) => storedAt >= oldest - CLOCK_SKEW_MS),
  )
  return new Set(found.map(String))
}

/** The first column of a query on the files. Skips damaged ones, so that they do not stop the lake: verify reports them. */
async function selectFrom(files: readonly string[], select: Sql, where: Sql): Promise<DuckDBValue[]> {
  if (files.length === 0) return []
  return withDuckDB(makeSpillPath(), async (connection) => {
    const query = async (some: readonly string[]) =>
      (await selectRows(connection, sql`${select} from ${parquetRows(some)} ${where}`)).map(([value = null]) => value)
    return query(files).catch(async (error: unknown) => {
      // Events that cannot be looked up now must not count as new ones.
      if (isFaultOfMachine(error)) throw error
      const values: DuckDBValue[] = []
      for (const file of files) values.push(...(await query([file]).catch(ifDamaged([]))))
      return values
    })
  })
}
