import { setTimeout as delay } from 'node:timers/promises'
import { type CatalogueEvent, catalogueEventId, type ProductEventRecord } from '../../catalogue/catalogue-event.ts'
import { PgoutputReader } from '../../change-stream/pgoutput.ts'
import { CATALOGUE_PUBLICATION, findLostReason } from '../../change-stream/replication-slot.ts'
import type { Pool, Queryable } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { Topic } from '../../topic/topic.ts'
import type { OnStep } from '../on-step.ts'
import { PATIENCE_MS, peekIntoSlot } from './await-in-flight.ts'
import { CatalogueTables, EVENT_ID } from './catalogue-tables.ts'
import { type Finding, findingOf, MAX_EXAMPLES, type Sample } from './finding.ts'
import { readUnrecorded } from './unrecorded-products.ts'

const POLL_MS = 500

export interface CatalogueOptions {
  pool: Pool
  /** Address of the same database for the role that may replicate. */
  streamUrl: string
  topic: Topic<CatalogueEvent>
  slotName: string
  /** How long to wait for events in flight to the topic. */
  patienceMs?: number | undefined
  onStep?: OnStep
}

export interface CatalogueReport {
  /** Rows of `product_events`. */
  events: number
  /** Messages of the topic. */
  published: number
  /** Events that the change stream has yet to deliver. */
  waiting: number
  /** Products that are still to be recorded: those that were there before their events, and those of a category that was renamed. */
  toRecord: number
  /** Whether the recording makes progress, and each event that the topic lacks is known to be either missing or in flight. */
  isSettled: boolean
}

/** Compares the events of the catalogue with its partition of the topic, and with the products and their stock. */
export async function compareCatalogue(options: CatalogueOptions): Promise<CatalogueReport & { findings: Finding[] }> {
  const { pool, topic, patienceMs = PATIENCE_MS, onStep = () => {} } = options
  onStep('comparing the events of the catalogue')
  return CatalogueTables.with(pool, topic, async (tables) => {
    const { waiting, isSettled } = await awaitMissing(tables, options)
    const dead = await tables.sample(
      sql`select event_id || ': ' || reason as example from catalogue_dead_letters join missing on missing.id = catalogue_dead_letters.event_id`,
    )
    const lost = await tables.sample(
      sql`select id as example from missing where not exists (select from catalogue_dead_letters where event_id = missing.id)`,
    )
    const inTopic = await findInTopic(tables)
    const { altered, toRecord } = await findAltered(pool, onStep)
    return {
      events: await tables.count(sql`select count(*) as count from product_events`),
      published: await tables.count(sql`select count(*) as count from published`),
      waiting,
      toRecord,
      isSettled: isSettled && (toRecord === 0 || (await isRecording(pool, patienceMs))),
      findings: [
        ...(isSettled ? findingOf('catalogue', 'missing', lost) : []),
        ...findingOf('catalogue', 'dead-lettered', dead),
        ...inTopic,
        ...findingOf('products', 'altered', altered),
      ],
    }
  })
}

/** Leaves in `missing` what the topic lacks and no slot delivers, after a wait for those in flight. */
async function awaitMissing(
  tables: CatalogueTables,
  { pool, streamUrl, slotName, patienceMs = PATIENCE_MS }: CatalogueOptions,
): Promise<{ waiting: number; isSettled: boolean }> {
  // Read after the events: a slot that has passed it has delivered all of them.
  const { rows } = await pool.query<{ lsn: string }>('select pg_current_wal_insert_lsn() as lsn')
  const deadline = performance.now() + patienceMs
  for (let missing = await tables.countMissing(); ; ) {
    if (missing === 0) return { waiting: 0, isSettled: true }
    const slot = await readSlot(pool, slotName, rows[0]?.lsn ?? '0/0')
    await tables.update()
    missing = await tables.countMissing()
    if (slot.isPast) return { waiting: 0, isSettled: true }
    if (slot.isRefilling) {
      // The stream publishes all that its slot has missed, when it runs again.
      await tables.run(sql`truncate missing`)
      return { waiting: missing, isSettled: true }
    }
    if (!slot.isActive && (await readHeld(tables, streamUrl, slotName))) {
      await tables.run(sql`delete from missing using held where held.id = missing.id`)
      return { waiting: missing - (await tables.countMissing()), isSettled: true }
    }
    if (performance.now() > deadline) return { waiting: missing, isSettled: false }
    await delay(POLL_MS)
  }
}

async function readSlot(db: Queryable, slotName: string, lsn: string) {
  const isRefilling = (await findLostReason(db, slotName)) !== null
  const { rows } = await db.query<{ isActive: boolean; isPast: boolean }>(
    sql`select active as "isActive", confirmed_flush_lsn >= ${lsn}::pg_lsn as "isPast"
    from pg_replication_slots
    where slot_name = ${slotName}`,
  )
  return { isRefilling, isActive: rows[0]?.isActive === true, isPast: rows[0]?.isPast === true }
}

/** Puts the ids in a slot that nobody reads into `held`. False when somebody does. */
function readHeld(tables: CatalogueTables, streamUrl: string, slotName: string): Promise<boolean> {
  type Key = Pick<ProductEventRecord, 'product_id' | 'stream' | 'version'>
  const reader = new PgoutputReader<Key>({ table: 'product_events', columns: ['product_id', 'stream', 'version'], previousColumns: [] })
  return peekIntoSlot(streamUrl, { slotName, publication: CATALOGUE_PUBLICATION }, reader, (records) =>
    tables.addHeld(records.map(catalogueEventId)),
  )
}

/** What is wrong with the topic by itself: doubled, out of order, and no events at all. */
async function findInTopic(tables: CatalogueTables): Promise<Finding[]> {
  const doubled = await tables.sample(sql`select id as example from published group by id having count(*) > 1`)
  const unordered = await tables.sample(
    sql`select id as example
    from (
      select id, sequence,
        -- What a replay has published comes late by its nature.
        max(sequence) filter (where is_in_turn)
          over (partition by product_id, stream order by version rows between unbounded preceding and 1 preceding) as before
      from (
        select event.product_id, event.stream, event.version, published.id, published.sequence, published.is_in_turn
        from product_events as event
        join published on published.id = ${EVENT_ID}
      ) as known
    ) as ordered
    where sequence < before`,
  )
  return [
    ...findingOf('catalogue', 'doubled', doubled),
    ...findingOf('catalogue', 'unordered', unordered),
    ...findingOf('catalogue', 'corrupt', await tables.sampleCorrupt()),
  ]
}

/** Products that no event describes as they are, and the number of those that are still being recorded. */
async function findAltered(pool: Pool, onStep: OnStep): Promise<{ altered: Sample; toRecord: number }> {
  const ofProducts: Sample = { count: 0, examples: [] }
  const ofStock: Sample = { count: 0, examples: [] }
  let toRecord = 0
  for await (const { products, renaming, stock, recordedUpTo } of readUnrecorded(pool, onStep)) {
    const isDue = (id: string) => id <= recordedUpTo
    toRecord += new Set([...renaming, ...[...products, ...stock].filter((id) => !isDue(id))]).size
    add(ofProducts, products.filter(isDue))
    add(
      ofStock,
      stock.filter(isDue).map((id) => `${id}: its stock`),
    )
  }
  const examples = [...ofProducts.examples, ...ofStock.examples].slice(0, MAX_EXAMPLES)
  return { altered: { count: ofProducts.count + ofStock.count, examples }, toRecord }
}

function add(sample: Sample, all: readonly string[]): void {
  sample.count += all.length
  sample.examples.push(...all.slice(0, MAX_EXAMPLES - sample.examples.length))
}

/** Whether some process records the products without events, or has: a process with the role `stream`. */
async function isRecording(db: Queryable, patienceMs: number): Promise<boolean> {
  const read = async () => (await db.query<{ last_id: string }>('select last_id from product_event_backfill limit 1')).rows[0]?.last_id
  const first = await read()
  if (first === undefined) return true
  for (const deadline = performance.now() + patienceMs; performance.now() < deadline; ) {
    await delay(POLL_MS)
    if ((await read()) !== first) return true
  }
  return false
}
