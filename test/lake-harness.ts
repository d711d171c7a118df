import assert from 'node:assert/strict'
import { readdir, rm, utimes } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import { pino } from 'pino'
import { describeFile } from '../src/lake/iceberg/describe-file.ts'
import { commitFiles, type LiveFile, readSnapshot } from '../src/lake/iceberg/event-table.ts'
import { ORDER_EVENTS } from '../src/lake/iceberg/lake-table.ts'
import { makeSpillPath, withDuckDB } from '../src/lake/lake-database.ts'
import { ORDER_DATASET } from '../src/lake/lake-dataset.ts'
import { type LakeQueryResult, queryLake } from '../src/lake/lake-query.ts'
import { LakeSink, type LakeSinkOptions } from '../src/lake/lake-sink.ts'
import type { LakeStore } from '../src/lake/lake-store.ts'
import { listLake } from '../src/lake/list-files.ts'
import { LocalLakeStore } from '../src/lake/local-store.ts'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { makeMessages } from './order-event-factory.ts'
import { makeTestFolder } from './test-folder.ts'

const SINK_DEFAULTS = {
  dataset: ORDER_DATASET,
  flushSeconds: 3_600,
  flushRows: 1_000,
  logger: pino({ level: 'silent' }),
  now: () => new Date('2026-03-01T12:00:00.000Z'),
}

/** A signal that never aborts. */
export const NEVER = new AbortController().signal

/**
 * The path of a lake that does not exist yet, in a folder whose name has the special characters of SQL and of file
 * patterns.
 */
export function makeLakeDirectory(t: Cleanup): string {
  return join(makeTestFolder(t, "storefront lake's [test] {a,b} * "), 'lake')
}

/** A started sink that writes only when it is full or told to. Its clock shows 2026-03-01. */
export async function startSink(t: TestContext, directory: string, options: Partial<LakeSinkOptions> = {}): Promise<LakeSink> {
  const sink = new LakeSink({ store: new LocalLakeStore(directory), ...SINK_DEFAULTS, ...options })
  await sink.start()
  t.after(async () => {
    await sink.stop()
    // Stopping may have written once more, after the folder's own clean-up.
    await rm(dirname(directory), { recursive: true, force: true })
  })
  return sink
}

/** Names of the files of orders that count, from their folder. */
export async function listFiles(directory: string): Promise<string[]> {
  return (await listLake(new LocalLakeStore(directory))).map(({ name }) => name.replace('orders/', ''))
}

/** A name without its random part. */
export function withoutTag(name: string): string {
  return name.replace(/-[0-9a-f]{16}(?=\.parquet)/, '')
}

/** Makes half-written files look a day old, so that the sink deletes them as left over. */
export async function ageTemporaries(directory: string): Promise<void> {
  const yesterday = new Date(Date.now() - 86_500_000)
  for (const name of await listTemporaries(directory)) await utimes(join(directory, '.tmp', name), yesterday, yesterday)
}

export async function listTemporaries(directory: string): Promise<string[]> {
  return readdir(join(directory, '.tmp')).catch(() => [])
}

/** Runs SQL over a lake in a folder. */
export function queryFolder(directory: string, sql: string): Promise<LakeQueryResult> {
  return queryLake(new LocalLakeStore(directory), sql)
}

export function readSequences(directory: string): Promise<number[]> {
  return readStoredSequences(new LocalLakeStore(directory))
}

export async function readStoredSequences(store: LakeStore): Promise<number[]> {
  const { rows } = await queryLake(store, 'select sequence from order_events order by sequence')
  return rows.map(([sequence]) => Number(sequence))
}

export function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index)
}

/** A started sink on any store, as `startSink`. */
export async function startSinkOn(t: Cleanup, store: LakeStore, options: Partial<LakeSinkOptions> = {}): Promise<LakeSink> {
  const sink = new LakeSink({ store, ...SINK_DEFAULTS, ...options })
  await sink.start()
  onCleanup(t, () => sink.stop())
  return sink
}

/** Files with the given numbers of events, of consecutive sequences. Returns the event ids. */
export async function writeFiles(
  t: Cleanup,
  store: LakeStore,
  counts: readonly number[],
  { from = 1, now = SINK_DEFAULTS.now } = {},
): Promise<string[]> {
  const ids: string[] = []
  const sink = await startSinkOn(t, store, { now })
  for (const count of counts) {
    const messages = makeMessages(count, from + ids.length)
    ids.push(...messages.map(({ event }) => event.id))
    await sink.handle(messages, NEVER)
    await sink.flush()
  }
  await sink.stop()
  return ids
}

/** The ids of all events that a reader of the lake sees, in order of sequence. */
export async function readEvents(store: LakeStore): Promise<string[]> {
  const { rows } = await queryLake(store, 'select event_id from order_events order by sequence')
  return rows.map(([id]) => String(id))
}

/** Gives the lake a file of orders that is in its store already, as a writer does. */
export async function commitFile(store: LakeStore, name: string, removed: readonly LiveFile[] = []): Promise<void> {
  const snapshot = await readSnapshot(store, 'orders')
  const [file] = await store.list(name)
  const { sizeBytes = 0 } = file ?? {}
  const location = snapshot.table.locate(name)
  const data = await store.withCopies([{ name, sizeBytes }], ([path = '']) =>
    withDuckDB(makeSpillPath(), (connection) => describeFile(connection, ORDER_EVENTS, path, { location, sizeBytes })),
  )
  assert.ok(await commitFiles(snapshot, { added: [data], removed }, new Date()))
}
