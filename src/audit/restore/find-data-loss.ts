import type { Pool } from '../../db/pool.ts'
import { findLakeEnd } from '../../lake/lake-end.ts'
import type { LakeStore } from '../../lake/lake-store.ts'
import { findUnknownEvents, type LostRange } from '../../topic/incarnations.ts'
import { partitionMessages } from '../../topic/partition-messages.ts'
import { epochOf, type Topic } from '../../topic/topic.ts'
import { type LakeEvent, visitLakeBehind } from './lake-tail.ts'

/** What is compared: the database with what outlives a restore of it. */
export interface ComparedStores {
  pool: Pool
  topic: Topic
  /** Null for a process that has no lake. */
  lake: LakeStore | null
}

/** That topic or lake have seen more than the database has. */
export interface DataLoss {
  range: LostRange
  /** The greatest sequence of either. */
  end: number
  /** The greatest number of an order in that time, 0 for none. */
  orderNumber: number
  /** Events that no order has, among the newest; not all. */
  examples: string[]
}

// The newest events of the lost time are those behind which a restored database has nothing.
const TAIL = 1_000
const BATCH_SIZE = 1_000

/**
 * Compares the newest of topic and lake with the orders. `known`: up to here it was done before. `isThorough`: also when the database has
 * passed the lake since. Unless it was restored, every event that is published belongs to a version of an order, and the lake is never
 * ahead of the topic. Read are the lake, the topic, the orders, so what is on its way meanwhile cannot look lost.
 */
export async function findDataLoss(compared: ComparedStores, known: number, isThorough = true): Promise<DataLoss | null> {
  const { pool, topic, lake } = compared
  const lakeEnd = lake === null ? 0 : await findLakeEnd(lake)
  const topicEnd = await topic.newestSequence()
  const isBehind = lakeEnd > Math.max(known, topic.isOutside ? topicEnd : await findNewestSequenceGiven(pool))
  // What the lake has below the topic's end it has from this very topic, but for a stream of the broker that was lost.
  const isLakeNeeded = isThorough || lakeEnd > topicEnd || (topic.isOutside && epochOf(lakeEnd) < epochOf(topicEnd))
  const tail = lake !== null && lakeEnd > known && isLakeNeeded ? await readLakeTail(lake, known, lakeEnd) : []
  if (topic.isOutside) tail.push(...(await readTopicBehind(topic, Math.max(known, topicEnd - TAIL))))
  const unknown = await keepUnknown(pool, tail)
  if (!isBehind && unknown.length === 0) return null
  const [first] = unknown.toSorted((a, b) => a.sequence - b.sequence)
  // Before the restored position of a subscriber, or the end of a topic that was restored too, nothing can be lost.
  const seen = topic.isOutside ? await findNewestPosition(pool) : topicEnd
  const after = Math.max(known, Math.min(seen, (first?.sequence ?? Number.POSITIVE_INFINITY) - 1))
  const end = Math.max(lakeEnd, topicEnd)
  return {
    range: { after, upTo: Math.max(after, topic.isOutside ? end : lakeEnd) },
    end,
    orderNumber: await findNewestOrderNumber(compared, after),
    examples: unknown.slice(-10).map(({ eventId }) => eventId),
  }
}

/** Event ids of the range that no order has, with their sequences: what the lost time had published. */
export async function listLostEvents({ pool, topic, lake }: ComparedStores, range: LostRange): Promise<Map<string, LakeEvent>> {
  const lost = new Map<string, LakeEvent>()
  const keep = async (events: LakeEvent[]) => {
    for (const event of await keepUnknown(pool, events)) if (event.sequence <= range.upTo) lost.set(event.eventId, event)
  }
  if (lake !== null) await visitLakeBehind(lake, range.after, null, keep)
  if (topic.isOutside) await visitTopic(topic, range.after, keep)
  return lost
}

async function readLakeTail(lake: LakeStore, after: number, upTo: number): Promise<LakeEvent[]> {
  let tail: LakeEvent[] = []
  await visitLakeBehind(lake, after, upTo, async (events) => {
    tail = events.toSorted((a, b) => a.sequence - b.sequence).slice(-TAIL)
  })
  return tail
}

async function readTopicBehind(topic: Topic, after: number): Promise<LakeEvent[]> {
  const events: LakeEvent[] = []
  await visitTopic(topic, after, async (batch) => void events.push(...batch))
  return events
}

async function visitTopic(topic: Topic, after: number, visit: (events: LakeEvent[]) => Promise<void>): Promise<void> {
  for (let position = after; ; ) {
    const stored = await topic.read(position, BATCH_SIZE)
    const last = stored.at(-1)
    if (last === undefined) return
    await visit(
      partitionMessages(stored).messages.map(({ sequence, event }) => ({
        eventId: event.id,
        sequence,
        orderNumber: toNumber(event.data.order.number),
      })),
    )
    position = last.sequence
  }
}

async function keepUnknown(pool: Pool, events: readonly LakeEvent[]): Promise<LakeEvent[]> {
  const kept: LakeEvent[] = []
  for (let from = 0; from < events.length; from += BATCH_SIZE) {
    const batch = events.slice(from, from + BATCH_SIZE)
    const unknown = await findUnknownEvents(
      pool,
      batch.map(({ eventId }) => eventId),
    )
    kept.push(...batch.filter(({ eventId }) => unknown.has(eventId)))
  }
  return kept
}

/** Of the topic's own table; messages may have been deleted since. */
async function findNewestSequenceGiven(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ sequence: number }>('select newest_topic_sequence() as sequence')
  return rows[0]?.sequence ?? 0
}

async function findNewestPosition(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ position: number }>('select coalesce(max(sequence), 0) as position from topic_subscribers')
  return rows[0]?.position ?? 0
}

async function findNewestOrderNumber({ topic, lake }: ComparedStores, after: number): Promise<number> {
  let newest = 0
  const look = async (events: LakeEvent[]) => {
    for (const { orderNumber } of events) newest = Math.max(newest, orderNumber)
  }
  if (lake !== null) await visitLakeBehind(lake, after, null, look)
  if (topic.isOutside) await visitTopic(topic, after, look)
  return newest
}

/** Of text that anybody may have put on the topic. */
function toNumber(orderNumber: string): number {
  return /^\d{1,15}$/.test(orderNumber) ? Number(orderNumber) : 0
}
