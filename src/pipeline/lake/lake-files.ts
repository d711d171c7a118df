import { randomUUID } from 'node:crypto'
import { mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Fence } from '../topic.ts'
import { findNewestEventTime, findStored } from './find-stored.ts'
import { writeParquet } from './parquet-writer.ts'

const DATA_FOLDER = 'orders'
const TEMPORARY_FOLDER = '.tmp'
const PARTITION = /^ingest_date=\d{4}-\d{2}-\d{2}$/
const DATA_FILE = /^\d{16}-(\d{16})\.parquet$/

/** A row on its way into a file. */
export interface PendingRow {
  sequence: number
  /** UTC, `YYYY-MM-DD`. */
  ingestDate: string
  eventId: string
  /** Milliseconds since 1970. */
  eventTime: number
  json: string
}

/** The files of a lake: `orders/ingest_date=YYYY-MM-DD/<first sequence>-<last sequence>.parquet`. */
export class LakeFiles {
  readonly #directory: string
  readonly #temporaryDirectory: string
  /** Of any event that was stored; undefined until it is asked for, null in an empty lake. */
  #newestEventTime: number | null | undefined

  constructor(directory: string) {
    this.#directory = directory
    this.#temporaryDirectory = join(directory, TEMPORARY_FOLDER)
  }

  /** Removes what a killed process left half-written. */
  async removeTemporaries(): Promise<void> {
    await rm(this.#temporaryDirectory, { recursive: true, force: true })
  }

  /** The greatest sequence in any file, 0 for none. */
  async newestSequence(): Promise<number> {
    let newest = 0
    // Another process may have been the active one meanwhile.
    this.#newestEventTime = undefined
    for (const partition of await listPartitions(this.#directory)) newest = Math.max(newest, await newestSequenceIn(partition))
    return newest
  }

  /**
   * Makes one file of rows of one ingest date, in order of sequence; it appears whole or not at all. Returns the greatest
   * sequence stored: when someone else has stored the first rows meanwhile, nothing is written and it is theirs. Events that the lake
   * has already, which a replay publishes under a new sequence, are left out. Throws, and writes nothing, when `fence` says that another
   * process has taken over.
   */
  async store(pending: readonly PendingRow[], fence: Fence | null = null): Promise<number> {
    const end = pending.at(-1)
    if (end === undefined) throw new RangeError('a lake file needs at least one row')
    const rows = await this.#withoutRepeats(pending)
    const [first, last] = [rows[0], rows.at(-1)]
    if (first === undefined || last === undefined) return end.sequence
    const partition = join(this.#directory, DATA_FOLDER, `ingest_date=${first.ingestDate}`)
    await makeDirectory(this.#temporaryDirectory)
    const temporary = join(this.#temporaryDirectory, `${randomUUID()}.writing`)
    try {
      await writeParquet(
        temporary,
        rows.map((row) => row.json),
      )
      await makeDirectory(partition)
      // A process that lost its subscription may still be flushing. Looking last leaves only the moment before the rename.
      await fence?.check()
      const newest = await newestSequenceIn(partition)
      if (newest >= first.sequence) return newest
      await rename(temporary, join(partition, `${pad(first.sequence)}-${pad(last.sequence)}.parquet`))
      await syncDirectory(partition)
      this.#newestEventTime = rows.reduce((newest, row) => Math.max(newest, row.eventTime), this.#newestEventTime ?? 0)
      return end.sequence
    } finally {
      await Promise.all(['', '.ndjson', '.spill'].map((end) => rm(`${temporary}${end}`, { recursive: true, force: true })))
    }
  }

  /** An event that is newer than all in the lake cannot be in it: looking is for those that come late, or again. */
  async #withoutRepeats(pending: readonly PendingRow[]): Promise<PendingRow[]> {
    this.#newestEventTime ??= await findNewestEventTime(await listDataFiles(this.#directory))
    const newest = this.#newestEventTime ?? Number.NEGATIVE_INFINITY
    const suspects = pending.filter((row) => row.eventTime <= newest).map((row) => row.eventId)
    const seen = suspects.length === 0 ? new Set<string>() : await findStored(await listDataFiles(this.#directory), suspects)
    return pending.filter(({ eventId }) => !seen.has(eventId) && seen.add(eventId))
  }
}

/** Paths of all complete files. Never a temporary. */
export async function listDataFiles(directory: string): Promise<string[]> {
  const files: string[] = []
  for (const partition of await listPartitions(directory)) {
    for (const name of await listNames(partition)) {
      if (DATA_FILE.test(name)) files.push(join(partition, name))
    }
  }
  return files
}

async function listPartitions(directory: string): Promise<string[]> {
  const data = join(directory, DATA_FOLDER)
  const names = await listNames(data)
  return names.filter((name) => PARTITION.test(name)).map((name) => join(data, name))
}

async function newestSequenceIn(partition: string): Promise<number> {
  let newest = 0
  for (const name of await listNames(partition)) newest = Math.max(newest, Number(DATA_FILE.exec(name)?.[1] ?? 0))
  return newest
}

async function listNames(directory: string): Promise<string[]> {
  try {
    return (await readdir(directory)).sort()
  } catch (error) {
    if (isMissing(error)) return []
    throw error
  }
}

/** Makes a folder and those above it; each new one is synced into its parent, or a power cut could take it back. */
async function makeDirectory(path: string): Promise<void> {
  try {
    await mkdir(path)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return
    if (!isMissing(error)) throw error
    await makeDirectory(dirname(path))
    return makeDirectory(path)
  }
  await syncDirectory(dirname(path))
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r')
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT'
}

function pad(sequence: number): string {
  return String(sequence).padStart(16, '0')
}
