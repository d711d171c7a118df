import { randomUUID } from 'node:crypto'
import { link, mkdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { toLakeRow } from '../lake/lake-row.ts'
import { writeParquet } from '../lake/parquet-writer.ts'
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
const ASIDE = '.corrupt'

/**
 * Writes what the lake lacks before its position: files that cannot be read are set aside, and their events, and those of files that
 * are gone, are taken from the topic again. Each event is in one file then. `url` is the database's: no sink is active meanwhile.
 */
export async function refillLake(url: string, directory: string, topic: Topic, now: () => Date): Promise<RefillReport> {
  return withSubscriberLock(url, 'lake', () => withLedger((ledger) => refill(ledger, directory, topic, now)))
}

async function refill(ledger: Ledger, directory: string, topic: Topic, now: () => Date): Promise<RefillReport> {
  const { corrupt, lastSequence } = await readLake(directory, ledger)
  const setAside = corrupt.map(({ path }) => `${path}${ASIDE}`)
  for (const { path } of corrupt) await rename(path, `${path}${ASIDE}`)
  if (corrupt.length > 0) {
    // Rows of a file with strays were readable, but their file is out of the way now.
    await ledger.run('truncate lake_events')
    await readLake(directory, ledger)
  }
  await readTopic(topic, ledger)
  return { setAside, written: await writeMissing(directory, topic, ledger, lastSequence, now().toISOString()) }
}

async function writeMissing(directory: string, topic: Topic, ledger: Ledger, upTo: number, ingestedAt: string): Promise<number> {
  let written = 0
  for (let after = 0; ; ) {
    const missing = await ledger.select<{ sequence: number }>(`
      select min(sequence) as sequence
      from topic_events anti join lake_events using (event_id)
      where sequence > ${after} and sequence <= ${upTo}
      group by event_id
      order by 1
      limit ${BATCH_SIZE}`)
    const last = missing.at(-1)
    if (last === undefined) return written
    for (const run of await readRuns(topic, missing)) {
      await writeFile(directory, run, ingestedAt)
      written += run.length
    }
    after = last.sequence
  }
}

/** The messages with these sequences, in runs without a gap in the topic: the range of a run holds nothing of another file. */
async function readRuns(topic: Topic, missing: readonly { sequence: number }[]): Promise<TopicMessage[][]> {
  const wanted = new Set(missing.map((row) => row.sequence))
  const runs: TopicMessage[][] = []
  let isOpen = false
  const end = missing.at(-1)?.sequence ?? 0
  for (let position = (missing[0]?.sequence ?? 1) - 1; position < end; ) {
    const messages = await topic.read(position, BATCH_SIZE)
    if (messages.length === 0) return runs
    for (const message of messages) {
      const isWanted = wanted.has(message.sequence)
      if (isWanted && isOpen) runs.at(-1)?.push(message)
      else if (isWanted) runs.push([message])
      isOpen = isWanted
    }
    position = messages.at(-1)?.sequence ?? end
  }
  return runs
}

async function writeFile(directory: string, messages: readonly TopicMessage[], ingestedAt: string): Promise<void> {
  const temporary = join(directory, '.tmp', `${randomUUID()}.writing`)
  const [first = 0, last = 0] = [messages[0]?.sequence, messages.at(-1)?.sequence]
  const name = `${String(first).padStart(16, '0')}-${String(last).padStart(16, '0')}.parquet`
  const path = join(directory, 'orders', `ingest_date=${ingestedAt.slice(0, 10)}`, name)
  await mkdir(dirname(temporary), { recursive: true })
  await mkdir(dirname(path), { recursive: true })
  try {
    const lines = messages.map((message) => JSON.stringify(toLakeRow(message, ingestedAt)))
    await writeParquet(temporary, lines)
    // Unlike a rename, a link never replaces a file.
    await link(temporary, path)
  } finally {
    await Promise.all(['', '.ndjson', '.spill'].map((end) => rm(`${temporary}${end}`, { recursive: true, force: true })))
  }
}
