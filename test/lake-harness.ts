import { mkdtemp, readdir, rm, utimes } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import { pino } from 'pino'
import { ORDER_DATASET } from '../src/lake/lake-dataset.ts'
import { nameOf } from '../src/lake/lake-names.ts'
import { type LakeQueryResult, queryLake } from '../src/lake/lake-query.ts'
import { toLakeRow } from '../src/lake/lake-row.ts'
import { LakeSink, type LakeSinkOptions } from '../src/lake/lake-sink.ts'
import type { LakeStore } from '../src/lake/lake-store.ts'
import { LocalLakeStore } from '../src/lake/local-store.ts'
import { writeParquet } from '../src/lake/parquet-writer.ts'
import type { TopicMessage } from '../src/topic/topic.ts'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { makeMessages } from './order-event-factory.ts'

const SINK_DEFAULTS = {
  dataset: ORDER_DATASET,
  flushSeconds: 3_600,
  flushRows: 1_000,
  logger: pino({ level: 'silent' }),
  now: () => new Date('2026-03-01T12:00:00.000Z'),
}

/** A signal that never aborts. */
export const NEVER = new AbortController().signal

/** The path of a lake that does not exist yet, in a folder whose name has the special characters of SQL and of file patterns. */
export async function makeLakeDirectory(t: TestContext): Promise<string> {
  const parent = await mkdtemp(join(tmpdir(), "storefront lake's [test] {a,b} * "))
  t.after(() => rm(parent, { recursive: true, force: true }))
  return join(parent, 'lake')
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

export async function listFiles(directory: string): Promise<string[]> {
  const names = await readdir(join(directory, 'orders'), { recursive: true }).catch(() => [])
  return names.filter((name) => name.endsWith('.parquet')).sort()
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

/** Files with the given numbers of events, of consecutive sequences; `isBehind`: as a replay puts them between others. Returns the event ids. */
export async function writeFiles(
  t: Cleanup,
  store: LakeStore,
  counts: readonly number[],
  { from = 1, now = SINK_DEFAULTS.now, isBehind = false } = {},
): Promise<string[]> {
  const ids: string[] = []
  const sink = isBehind ? null : await startSinkOn(t, store, { now })
  for (const count of counts) {
    const messages = makeMessages(count, from + ids.length)
    ids.push(...messages.map(({ event }) => event.id))
    if (sink === null) await putMessages(store, messages, now().toISOString())
    else await sink.handle(messages, NEVER).then(() => sink.flush())
  }
  await sink?.stop()
  return ids
}

async function putMessages(store: LakeStore, messages: readonly TopicMessage[], ingestedAt: string): Promise<void> {
  const [first = 0, last = 0] = [messages[0]?.sequence, messages.at(-1)?.sequence]
  const name = nameOf({ ingestDate: ingestedAt.slice(0, 10), first, last })
  await store.withWorkspace(async (folder) => {
    const lines = messages.map((message) => JSON.stringify(toLakeRow(message, ingestedAt)))
    await writeParquet(join(folder, 'file'), lines, name)
    await store.put(name, join(folder, 'file'))
  })
}

/** The ids of all events that a reader of the lake sees, in order of sequence. */
export async function readEvents(store: LakeStore): Promise<string[]> {
  const { rows } = await queryLake(store, 'select event_id from order_events order by sequence')
  return rows.map(([id]) => String(id))
}
