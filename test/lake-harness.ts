import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import { pino } from 'pino'
import { type LakeQueryResult, queryLake } from '../src/pipeline/lake/lake-query.ts'
import { LakeSink, type LakeSinkOptions } from '../src/pipeline/lake/lake-sink.ts'
import { LocalLakeStore } from '../src/pipeline/lake/local-store.ts'

/** A signal that never aborts. */
export const NEVER = new AbortController().signal

/** The path of a lake that is not there yet, in a folder whose name is full of what SQL and patterns take for their own. */
export async function makeLakeDirectory(t: TestContext): Promise<string> {
  const parent = await mkdtemp(join(tmpdir(), "storefront lake's [test] {a,b} * "))
  t.after(() => rm(parent, { recursive: true, force: true }))
  return join(parent, 'lake')
}

/** A started sink that by itself writes only when it is full, on 2026-03-01. */
export async function startSink(t: TestContext, directory: string, options: Partial<LakeSinkOptions> = {}): Promise<LakeSink> {
  const sink = new LakeSink({
    store: new LocalLakeStore(directory),
    flushSeconds: 3_600,
    flushRows: 1_000,
    logger: pino({ level: 'silent' }),
    now: () => new Date('2026-03-01T12:00:00.000Z'),
    ...options,
  })
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

export async function listTemporaries(directory: string): Promise<string[]> {
  return readdir(join(directory, '.tmp')).catch(() => [])
}

/** Runs SQL over a lake in a folder. */
export function queryFolder(directory: string, sql: string): Promise<LakeQueryResult> {
  return queryLake(new LocalLakeStore(directory), sql)
}

export async function readSequences(directory: string): Promise<number[]> {
  const { rows } = await queryFolder(directory, 'select sequence from order_events order by sequence')
  return rows.map(([sequence]) => Number(sequence))
}

export function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index)
}
