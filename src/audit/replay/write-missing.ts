import { join } from 'node:path'
import { sql } from '../../db/sql.ts'
import { nameOf, parseName } from '../../lake/lake-names.ts'
import { listLake } from '../../lake/list-files.ts'
import { writeParquet } from '../../lake/parquet-writer.ts'
import { readBatches } from '../../topic/partition-messages.ts'
import type { Topic, TopicEvent, TopicMessage } from '../../topic/topic.ts'
import { LEVELS_ABOVE, type RewriteOptions } from './rewrite-files.ts'

const BATCH_SIZE = 1_000

type MissingOptions<E extends TopicEvent> = Pick<RewriteOptions<E>, 'store' | 'dataset' | 'topic' | 'tables' | 'repairs'>

/** Writes the events that the lake lacks, of the topic up to the sequence `upTo`, at the date of `ingestedAt`. Returns their number. */
export async function writeMissing<E extends TopicEvent>(options: MissingOptions<E>, upTo: number, ingestedAt: string): Promise<number> {
  const { topic, tables } = options
  let written = 0
  for (let after = 0; ; ) {
    const missing = await tables.select<{ sequence: number }>(sql`
      select min(sequence) as sequence
      from topic_events anti join lake_events using (event_id)
      where sequence > ${after} and sequence <= ${upTo}
      group by event_id
      order by 1
      limit ${BATCH_SIZE}`)
    const last = missing.at(-1)
    if (last === undefined) return written
    for (const run of await readRuns(topic, missing)) {
      await writeRun(options, run, ingestedAt)
      written += run.length
    }
    after = last.sequence
  }
}

/** The messages with these sequences, in runs of consecutive messages of the topic. */
async function readRuns<E extends TopicEvent>(topic: Topic<E>, missing: readonly { sequence: number }[]): Promise<TopicMessage<E>[][]> {
  const wanted = new Set(missing.map((row) => row.sequence))
  const runs: TopicMessage<E>[][] = []
  let isOpen = false
  const end = missing.at(-1)?.sequence ?? 0
  for await (const { messages, last } of readBatches(topic, (missing[0]?.sequence ?? 1) - 1)) {
    for (const message of messages) {
      const isWanted = wanted.has(message.sequence)
      if (isWanted && isOpen) runs.at(-1)?.push(message)
      else if (isWanted) runs.push([message])
      isOpen = isWanted
    }
    if (last >= end) break
  }
  return runs
}

/** A file supersedes the files within its range, so a run is split where a file of the same day ends; see `splitSuperseded`. */
async function writeRun<E extends TopicEvent>(
  { store, dataset, repairs }: MissingOptions<E>,
  run: readonly TopicMessage<E>[],
  ingestedAt: string,
): Promise<void> {
  const ingestDate = ingestedAt.slice(0, 10)
  const ranges = (await listLake(store, dataset.name))
    .map(({ name }) => parseName(name))
    .filter((range) => range?.ingestDate === ingestDate)
  const endsBefore = ({ sequence }: TopicMessage<E>) => ranges.filter((range) => (range?.last ?? 0) < sequence).length
  for (const messages of Map.groupBy(run, endsBefore).values()) {
    const [first = 0, last = 0] = [messages[0]?.sequence, messages.at(-1)?.sequence]
    const levels = ranges.flatMap((range) =>
      range != null && range.first <= last && range.last >= first ? [range.level + LEVELS_ABOVE] : [],
    )
    const name = nameOf({ dataset: dataset.name, ingestDate, first, last, level: Math.max(0, ...levels) })
    await store.withWorkspace(async (folder) => {
      const path = join(folder, 'file')
      const lines = messages.map((message) => JSON.stringify(dataset.toRow(message, ingestedAt)))
      await writeParquet(path, lines, name, dataset.columns)
      await repairs.put(name, path)
    })
  }
}
