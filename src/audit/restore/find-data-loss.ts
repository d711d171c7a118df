import type { Pool } from '../../db/pool.ts'
import { findLakeEnd } from '../../lake/lake-end.ts'
import { LakeAhead } from '../../lake/lake-files.ts'
import type { LakeStore } from '../../lake/lake-store.ts'
import { findUnknownEvents, type LostRange } from '../../topic/incarnations.ts'
import { readBatches } from '../../topic/partition-messages.ts'
import { epochOf, type Topic } from '../../topic/topic.ts'
import { type LakeEvent, visitLakeAfter } from './lake-tail.ts'

/** The database, and the stores that are not restored with it. */
export interface ComparedStores {
  pool: Pool
  topic: Topic
  /** Null for a process that has no lake. */
  lake: LakeStore | null
}

/** Topic or lake have events that the database does not have. */
export interface DataLoss {
  range: LostRange
  /** The greatest sequence of topic and lake. */
  end: number
  /** The greatest order number in the range, 0 for none. */
  orderNumber: number
  /** Some of the newest events that no order has. */
  examples: string[]
}

// Only the newest events are compared: a restore loses the newest ones first.
const TAIL = 1_000
const BATCH_SIZE = 1_000

/**
 * Compares the newest events of topic and lake with the orders. `known`: the sequence up to which this was done before. `isThorough`:
 * also when the topic has passed the end of the lake since. Without a restore, every published event belongs to a version of an order,
 * and the lake is never ahead of the topic. The lake is read first, the orders last, so events in flight cannot look lost.
 */
export async function findDataLoss(compared: ComparedStores, known: number, isThorough = true): Promise<DataLoss | null> {
  const { pool, topic, lake } = compared
  const lakeEnd = lake === null ? 0 : await findLakeEnd(lake)
  const topicEnd = await topic.newestSequence()
  const isBehind = lakeEnd > Math.max(known, await findNewestAssignedSequence(pool, topic))
  // Below the topic's end, the lake's events came from this topic, unless the broker's stream was lost.
  const isLakeNeeded = isThorough || lakeEnd > topicEnd || (topic.isOutside && epochOf(lakeEnd) < epochOf(topicEnd))
  const tail = lake !== null && lakeEnd > known && isLakeNeeded ? await readLakeTail(lake, known, lakeEnd) : []
  if (topic.isOutside) await visitTopic(topic, Math.max(known, topicEnd - TAIL), async (events) => void tail.push(...events))
  const unknown = await keepUnknown(pool, tail)
  if (!isBehind && unknown.length === 0) return null
  const [first] = unknown.toSorted((a, b) => a.sequence - b.sequence)
  // Nothing is lost before the restored position of a subscriber, or before the end of a topic that was restored, too.
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

/** The events of the range that no order has, by event id: those that were published before the restore and lost by it. */
export async function listLostEvents(compared: ComparedStores, range: LostRange): Promise<Map<string, LakeEvent>> {
  const lost = new Map<string, LakeEvent>()
  const keep = async (events: LakeEvent[]) => {
    for (const event of await keepUnknown(compared.pool, events)) if (event.sequence <= range.upTo) lost.set(event.eventId, event)
  }
  await visitAfter(compared, range.after, keep)
  return lost
}

async function readLakeTail(lake: LakeStore, after: number, upTo: number): Promise<LakeEvent[]> {
  let tail: LakeEvent[] = []
  await visitLakeAfter(lake, after, upTo, async (events) => {
    tail = events.toSorted((a, b) => a.sequence - b.sequence).slice(-TAIL)
  })
  return tail
}

/** Calls `visit` with the events of lake and topic after a sequence. */
async function visitAfter({ topic, lake }: ComparedStores, after: number, visit: (events: LakeEvent[]) => Promise<void>): Promise<void> {
  if (lake !== null) await visitLakeAfter(lake, after, null, visit)
  if (topic.isOutside) await visitTopic(topic, after, visit)
}

async function visitTopic(topic: Topic, after: number, visit: (events: LakeEvent[]) => Promise<void>): Promise<void> {
  for await (const { messages } of readBatches(topic, after)) {
    await visit(messages.map(({ sequence, event }) => ({ eventId: event.id, sequence, orderNumber: toNumber(event.data.order.number) })))
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

/** The greatest sequence that the topic has assigned, also to messages that were deleted since. */
export async function findNewestAssignedSequence(pool: Pool, topic: Topic): Promise<number> {
  if (topic.isOutside) return topic.newestSequence()
  const { rows } = await pool.query<{ sequence: number }>('select newest_topic_sequence() as sequence')
  return rows[0]?.sequence ?? 0
}

/**
 * Why nothing may be repaired in a lake that ends at `lakeEnd`, which was read before; null unless it is of a later epoch than the topic.
 * Within one epoch a stray name can be ahead, which a repair handles.
 */
export async function findLakeAhead({ pool, topic }: Omit<ComparedStores, 'lake'>, lakeEnd: number): Promise<LakeAhead | null> {
  const published = await findNewestAssignedSequence(pool, topic)
  return epochOf(lakeEnd) > epochOf(published) ? new LakeAhead(lakeEnd, published) : null
}

async function findNewestPosition(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ position: number }>('select coalesce(max(sequence), 0) as position from topic_subscribers')
  return rows[0]?.position ?? 0
}

async function findNewestOrderNumber(compared: ComparedStores, after: number): Promise<number> {
  let newest = 0
  await visitAfter(compared, after, async (events) => {
    for (const { orderNumber } of events) newest = Math.max(newest, orderNumber)
  })
  return newest
}

/** 0 for text that is no order number: other programs can write to the topic. */
function toNumber(orderNumber: string): number {
  return /^\d{1,15}$/.test(orderNumber) ? Number(orderNumber) : 0
}
