import { join } from 'node:path'
import { sql } from '../../db/sql.ts'
import { withLakeLock } from '../lake/lake-lock.ts'
import { nameOf, parseName } from '../lake/lake-names.ts'
import { toLakeRow } from '../lake/lake-row.ts'
import type { LakeStore } from '../lake/lake-store.ts'
import { listLake } from '../lake/list-files.ts'
import { writeParquet } from '../lake/parquet-writer.ts'
import { sortMessages } from '../sort-messages.ts'
import type { Topic, TopicMessage } from '../topic.ts'
import { type Ledger, withLedger } from '../verify/ledger.ts'
import { readLake } from '../verify/read-lake.ts'
import { readTopic } from '../verify/read-topic.ts'
import { withSubscriberLock } from './subscriber-lock.ts'

export interface RefillReport {
  /** Files that could not be read, as they are called now. */
  setAside: string[]
  written: number
}

const BATCH_SIZE = 1_000
/** Above a merge that may be under way after all. */
const LEVELS_ABOVE = 2

/**
 * Writes what the lake lacks before its position: files that cannot be read are set aside, and their events, and those of files that
 * are gone, are taken from the topic again. Each event is in one file then. `url` is the database's: no sink is active meanwhile, and
 * nothing is merged.
 */
export async function refillLake(url: string, store: LakeStore, topic: Topic, now: () => Date): Promise<RefillReport> {
  return withLakeLock(url, () => withSubscriberLock(url, 'lake', () => withLedger((ledger) => refill(ledger, store, topic, now))))
}

async function refill(ledger: Ledger, store: LakeStore, topic: Topic, now: () => Date): Promise<RefillReport> {
  const { corrupt, lastSequence } = await readLake(store, ledger)
  const setAside: string[] = []
  for (const { name } of corrupt) setAside.push(await store.setAside(name))
  if (corrupt.length > 0) {
    // Rows of a file with strays were readable, but their file is out of the way now.
    await readLake(store, ledger)
  }
  await readTopic(topic, ledger)
  return { setAside, written: await writeMissing(store, topic, ledger, lastSequence, now().toISOString()) }
}

async function writeMissing(store: LakeStore, topic: Topic, ledger: Ledger, upTo: number, ingestedAt: string): Promise<number> {
  let written = 0
  for (let after = 0; ; ) {
    const missing = await ledger.select<{ sequence: number }>(sql`
      select min(sequence) as sequence
      from topic_events anti join lake_events using (event_id)
      where sequence > ${after} and sequence <= ${upTo}
      group by event_id
      order by 1
      limit ${BATCH_SIZE}`)
    const last = missing.at(-1)
    if (last === undefined) return written
    for (const run of await readRuns(topic, missing)) {
      await writeRun(store, run, ingestedAt)
      written += run.length
    }
    after = last.sequence
  }
}

/** The messages with these sequences, in runs without a gap in the topic. */
async function readRuns(topic: Topic, missing: readonly { sequence: number }[]): Promise<TopicMessage[][]> {
  const wanted = new Set(missing.map((row) => row.sequence))
  const runs: TopicMessage[][] = []
  let isOpen = false
  const end = missing.at(-1)?.sequence ?? 0
  for (let position = (missing[0]?.sequence ?? 1) - 1; position < end; ) {
    const stored = await topic.read(position, BATCH_SIZE)
    if (stored.length === 0) return runs
    for (const message of sortMessages(stored).messages) {
      const isWanted = wanted.has(message.sequence)
      if (isWanted && isOpen) runs.at(-1)?.push(message)
      else if (isWanted) runs.push([message])
      isOpen = isWanted
    }
    position = stored.at(-1)?.sequence ?? end
  }
  return runs
}

/** A file whose range spans another one would supersede it, so a run ends where one of the day's files does; see `splitSuperseded`. */
async function writeRun(store: LakeStore, run: readonly TopicMessage[], ingestedAt: string): Promise<void> {
  const ingestDate = ingestedAt.slice(0, 10)
  const ranges = (await listLake(store)).map(({ name }) => parseName(name)).filter((range) => range?.ingestDate === ingestDate)
  const endsBefore = ({ sequence }: TopicMessage) => ranges.filter((range) => (range?.last ?? 0) < sequence).length
  for (const messages of Map.groupBy(run, endsBefore).values()) {
    const [first = 0, last = 0] = [messages[0]?.sequence, messages.at(-1)?.sequence]
    const levels = ranges.flatMap((range) =>
      range != null && range.first <= last && range.last >= first ? [range.level + LEVELS_ABOVE] : [],
    )
    await writeFile(store, nameOf({ ingestDate, first, last, level: Math.max(0, ...levels) }), messages, ingestedAt)
  }
}

async function writeFile(store: LakeStore, name: string, messages: readonly TopicMessage[], ingestedAt: string): Promise<void> {
  await store.withWorkspace(async (folder) => {
    const path = join(folder, 'file')
    const lines = messages.map((message) => JSON.stringify(toLakeRow(message, ingestedAt)))
    await writeParquet(path, lines, name)
    if ((await store.put(name, path)) === 'taken') throw new Error(`there is another ${store.locate(name)} already`)
  })
}
