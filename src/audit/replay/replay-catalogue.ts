import type { Logger } from 'pino'
import type { CatalogueEvent } from '../../catalogue/catalogue-event.ts'
import { publishProductEvents } from '../../change-stream/publish-product-events.ts'
import type { Pool } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { inTransaction } from '../../db/transaction.ts'
import type { Topic } from '../../topic/topic.ts'
import { lockProducts, lockStock } from '../lock-products.ts'
import { countOf, type OnStep } from '../on-step.ts'
import { CatalogueTables } from '../verify/catalogue-tables.ts'
import { readUnrecorded } from '../verify/unrecorded-products.ts'

export interface CatalogueReplayReport {
  /** Events that were recorded of products that SQL had changed, or that were there before their events. */
  recorded: number
  /** Events that the topic lacked and has now. */
  published: number
  /** Ids of events that the topic still lacks, the first hundred: none can be made of their rows, or the broker refuses them. */
  dropped: string[]
}

/**
 * Records the state of products that no event describes, and publishes each event that the topic lacks. Safe at any time, beside a running
 * stream: the topic drops what it has already.
 */
export async function replayCatalogue(options: {
  /** Address of the database. */
  url: string
  pool: Pool
  topic: Topic<CatalogueEvent>
  logger: Logger
  onStep?: OnStep
}): Promise<CatalogueReplayReport> {
  const { url, pool, topic, logger, onStep = () => {} } = options
  let recorded = 0
  for await (const { products, stock } of readUnrecorded(pool, onStep)) {
    if (products.length > 0) recorded += await recordProducts(pool, products)
    if (stock.length > 0) recorded += await recordStock(pool, stock)
  }
  const missing = await CatalogueTables.with(pool, topic, (tables) => tables.countMissing())
  if (missing === 0) return { recorded, published: 0, dropped: [] }
  await publishProductEvents({ url, db: pool, topic, logger, onProgress: (events) => onStep(`published up to ${countOf(events)} events`) })
  const dropped = await CatalogueTables.with(pool, topic, (tables) => tables.sample(sql`select id as example from missing`))
  return { recorded, published: missing - dropped.count, dropped: dropped.examples }
}

function recordProducts(pool: Pool, ids: readonly string[]): Promise<number> {
  return inTransaction(pool, async (tx) => {
    await lockProducts(tx, ids)
    const { rows } = await tx.query<{ recorded: number }>(sql`select record_product_events(${ids}::uuid[], null) as recorded`)
    return rows[0]?.recorded ?? 0
  })
}

function recordStock(pool: Pool, ids: readonly string[]): Promise<number> {
  return inTransaction(pool, async (tx) => {
    await lockStock(tx, ids)
    const { rows } = await tx.query<{ recorded: number }>(sql`select record_stock_events(${ids}::uuid[]) as recorded`)
    return rows[0]?.recorded ?? 0
  })
}
