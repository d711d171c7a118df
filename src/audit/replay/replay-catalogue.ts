import type { CatalogueEvent } from '../../catalogue/catalogue-event.ts'
import type { Pool } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { inTransaction } from '../../db/transaction.ts'
import type { Topic } from '../../topic/topic.ts'
import { lockProducts, lockStock } from '../lock-products.ts'
import type { InFlightOptions } from '../verify/await-in-flight.ts'
import { cataloguePartition } from '../verify/compared-partition.ts'
import { readUnrecorded } from '../verify/unrecorded-products.ts'
import { type ReplayReport, replay } from './replay.ts'

export interface CatalogueReplayReport extends Pick<ReplayReport, 'published' | 'dropped'> {
  recorded: number
}

/** Records products that no event describes, and publishes missing events. Safe at any time. */
export async function replayCatalogue(options: InFlightOptions & { topic: Topic<CatalogueEvent> }): Promise<CatalogueReplayReport> {
  const { pool, onStep } = options
  let recorded = 0
  for await (const { products, stock } of readUnrecorded(pool, onStep)) {
    if (products.length > 0) recorded += await recordProducts(pool, products)
    if (stock.length > 0) recorded += await recordStock(pool, stock)
  }
  const { published, dropped, unknown } = await replay(cataloguePartition(options.topic), options)
  return { recorded, published, dropped: [...unknown, ...dropped] }
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
