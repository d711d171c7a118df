import type { Pool } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { LakeAhead } from '../../lake/lake-files.ts'
import type { DatasetName } from '../../lake/lake-names.ts'
import type { LakeStore } from '../../lake/lake-store.ts'
import { findLakeEnd } from '../../lake/list-files.ts'
import type { OrderEvent } from '../../orders/events.ts'
import { findUnknownCatalogueEvents, findUnknownEvents, type LostRange } from '../../topic/incarnations.ts'
import { readBatches } from '../../topic/partition-messages.ts'
import { epochOf, type Topic, type TopicEvent } from '../../topic/topic.ts'
import { type LakeEvent, visitLakeAfter } from './lake-tail.ts'

/** A restore leaves the topic's partition and its lake dataset unchanged. */
export interface ComparedStores<E extends TopicEvent = OrderEvent> {
  pool: Pool
  topic: Topic<E>
  lake: LakeStore | null
}

export interface DataLoss {
  range: LostRange
  end: number
  orderNumber: number
  examples: string[]
}

// A restore loses the newest events first, so this number of them is compared.
const TAIL = 1_000
const BATCH_SIZE = 1_000

/**
 * Compares topic and lake with the database. `known` is the sequence that was compared before. With `isThorough`, the
 * lake is compared even if the topic has passed its end. The lake is read first and the orders last, so events in
 * flight cannot look lost.
 */
export async function findDataLoss<E extends TopicEvent>(
  compared: ComparedStores<E>,
  known: number,
  isThorough = true,
): Promise<DataLoss | null> {
  const { pool, topic, lake } = compared
  const lakeEnd = lake === null ? 0 : await findLakeEnd(lake, topic.partition.name)
  const topicEnd = await topic.newestSequence()
  const isBehind = lakeEnd > Math.max(known, await findNewestAssignedSequence(pool, topic))
  // Events of the lake below the topic's end came from this topic, so the lake is not needed. The exception is a broker
  // whose stream was lost.
  const isLakeNeeded = isThorough || lakeEnd > topicEnd || (topic.isOutside && epochOf(lakeEnd) < epochOf(topicEnd))
  const tail = lake !== null && lakeEnd > known && isLakeNeeded ? await readLakeTail(lake, topic.partition.name, known, lakeEnd) : []
  if (topic.isOutside) await visitTopic(topic, Math.max(known, topicEnd - TAIL), async (events) => void tail.push(...events))
  const unknown = await keepUnknown(compared, tail)
  if (!isBehind && unknown.length === 0) return null
  const [first] = unknown.toSorted((a, b) => a.sequence - b.sequence)
  // No event is lost before the restored position of a subscriber, or before the end of a restored topic.
  const seen = topic.isOutside ? await findNewestPosition(pool, topic.partition.name) : topicEnd
  const after = Math.max(known, Math.min(seen, (first?.sequence ?? Number.POSITIVE_INFINITY) - 1))
  const end = Math.max(lakeEnd, topicEnd)
  return {
    range: { after, upTo: Math.max(after, topic.isOutside ? end : lakeEnd) },
    end,
    orderNumber: await findNewestOrderNumber(compared, after),
    examples: unknown.slice(-10).map(({ eventId }) => eventId),
  }
}

/** Events that were published before the restore and lost by it, by id. */
export async function listLostEvents<E extends TopicEvent>(compared: ComparedStores<E>, range: LostRange): Promise<Map<string, LakeEvent>> {
  const lost = new Map<string, LakeEvent>()
  const keep = async (events: LakeEvent[]) => {
    for (const event of await keepUnknown(compared, events)) if (event.sequence <= range.upTo) lost.set(event.eventId, event)
  }
  await visitAfter(compared, range.after, keep)
  return lost
}

async function readLakeTail(lake: LakeStore, dataset: DatasetName, after: number, upTo: number): Promise<LakeEvent[]> {
  let tail: LakeEvent[] = []
  await visitLakeAfter(lake, dataset, after, upTo, async (events) => {
    tail = events.toSorted((a, b) => a.sequence - b.sequence).slice(-TAIL)
  })
  return tail
}

async function visitAfter<E extends TopicEvent>(
  { topic, lake }: ComparedStores<E>,
  after: number,
  visit: (events: LakeEvent[]) => Promise<void>,
): Promise<void> {
  if (lake !== null) await visitLakeAfter(lake, topic.partition.name, after, null, visit)
  if (topic.isOutside) await visitTopic(topic, after, visit)
}

async function visitTopic<E extends TopicEvent>(
  topic: Topic<E>,
  after: number,
  visit: (events: LakeEvent[]) => Promise<void>,
): Promise<void> {
  for await (const { messages } of readBatches(topic, after)) {
    await visit(messages.map(({ sequence, event }) => ({ eventId: event.id, sequence, orderNumber: orderNumberOf(event) })))
  }
}

async function keepUnknown<E extends TopicEvent>({ pool, topic }: ComparedStores<E>, events: readonly LakeEvent[]): Promise<LakeEvent[]> {
  const find = topic.partition.name === 'orders' ? findUnknownEvents : findUnknownCatalogueEvents
  const kept: LakeEvent[] = []
  for (let from = 0; from < events.length; from += BATCH_SIZE) {
    const batch = events.slice(from, from + BATCH_SIZE)
    const unknown = await find(
      pool,
      batch.map(({ eventId }) => eventId),
    )
    kept.push(...batch.filter(({ eventId }) => unknown.has(eventId)))
  }
  return kept
}

export async function findNewestAssignedSequence<E extends TopicEvent>(pool: Pool, topic: Topic<E>): Promise<number> {
  if (topic.isOutside) return topic.newestSequence()
  const newest = topic.partition.name === 'orders' ? sql`newest_topic_sequence()` : sql`newest_catalogue_sequence()`
  const { rows } = await pool.query<{ sequence: number }>(sql`select ${newest} as sequence`)
  return rows[0]?.sequence ?? 0
}

/** Why nothing may be repaired, or null. Within one epoch an orphan's name can be ahead, which a repair handles. */
export async function findLakeAhead<E extends TopicEvent>(
  { pool, topic }: Omit<ComparedStores<E>, 'lake'>,
  lakeEnd: number,
): Promise<LakeAhead | null> {
  const published = await findNewestAssignedSequence(pool, topic)
  return epochOf(lakeEnd) > epochOf(published) ? new LakeAhead(lakeEnd, published) : null
}

async function findNewestPosition(pool: Pool, partition: DatasetName): Promise<number> {
  const { rows } = await pool.query<{ position: number }>(
    sql`select coalesce(max(sequence), 0) as position from topic_subscribers where partition = ${partition}`,
  )
  return rows[0]?.position ?? 0
}

async function findNewestOrderNumber<E extends TopicEvent>(compared: ComparedStores<E>, after: number): Promise<number> {
  let newest = 0
  if (compared.topic.partition.name !== 'orders') return newest
  await visitAfter(compared, after, async (events) => {
    for (const { orderNumber } of events) newest = Math.max(newest, orderNumber)
  })
  return newest
}

/** 0 for no order number: other programs can write to the topic, and the catalogue has none. */
function orderNumberOf(event: TopicEvent): number {
  const { order } = (event as Partial<OrderEvent>).data ?? {}
  return /^\d{1,15}$/.test(order?.number ?? '') ? Number(order?.number) : 0
}
