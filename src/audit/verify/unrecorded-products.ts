import { setTimeout as delay } from 'node:timers/promises'
import type { Pool, Queryable } from '../../db/pool.ts'
import { literal, sql } from '../../db/sql.ts'
import { countOf, type OnStep } from '../on-step.ts'
import { PATIENCE_MS } from './await-in-flight.ts'
import { MAX_EXAMPLES, type Sample } from './finding.ts'

const BATCH_SIZE = 1_000
const POLL_MS = 500

export interface Unrecorded {
  products: string[]
  /** Products of a renamed category. They get the name and an event one after the other. */
  renaming: string[]
  stock: string[]
  /** Products with a greater id are older than their events, and are being recorded. */
  recordedUpTo: string
}

/** SQL has changed these products, or a release that records no events. */
export async function* readUnrecorded(db: Queryable, onStep: OnStep = () => {}): AsyncGenerator<Unrecorded> {
  let after = '00000000-0000-0000-0000-000000000000'
  for (let seen = 0; ; ) {
    const { rows } = await db.query<{
      ids: string[] | null
      products: string[] | null
      renaming: string[]
      stock: string[] | null
      recorded_up_to: string
    }>(
      sql`with batch as (
        select array_agg(id) as ids
        from (select id from products where id > ${after} order by id limit ${literal(BATCH_SIZE)}) as next
      )
      select batch.ids,
        coalesce((select last_id from product_event_backfill limit 1), 'ffffffff-ffff-ffff-ffff-ffffffffffff') as recorded_up_to,
        array(
          select member.product_id
          from categories as category
          join product_categories as member on member.category_id = category.id
          where category.renamed_at is not null and member.product_id = any(batch.ids)
        ) as renaming, (
          select array_agg(snapshot.product_id)
          from product_snapshots(batch.ids) as snapshot
          left join lateral (
            select data -> 'product' as product
            from product_events
            where product_id = snapshot.product_id and stream = 'product'
            order by version desc
            limit 1
          ) as newest on true
          where case when json_typeof(newest.product) = 'object'
            then newest.product::text <> snapshot.product::text and product_state(newest.product) <> product_state(snapshot.product)
            else true end
        ) as products, (
          select array_agg(inventory.product_id)
          from inventory
          left join lateral (
            select type
            from product_events
            where product_id = inventory.product_id and stream = 'stock'
            order by version desc
            limit 1
          ) as newest on true
          where inventory.product_id = any(batch.ids)
            and (inventory.available is not distinct from 0) <> (newest.type is not distinct from 'stock.depleted')
        ) as stock
      from batch`,
    )
    const [{ ids = null, products = null, renaming = [], stock = null, recorded_up_to: recordedUpTo = '' } = {}] = rows
    if (ids === null) return
    const isRenaming = new Set(renaming)
    const altered = products ?? []
    yield {
      products: altered.filter((id) => !isRenaming.has(id)),
      renaming: altered.filter((id) => isRenaming.has(id)),
      stock: stock ?? [],
      recordedUpTo,
    }
    after = ids.reduce((last, id) => (id > last ? id : last), after)
    seen += ids.length
    onStep(`compared ${countOf(seen)} products with their events`)
  }
}

/** `toRecord` is the number of products that are still being recorded. */
export async function findAlteredProducts(pool: Pool, onStep: OnStep): Promise<{ altered: Sample; toRecord: number }> {
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

/** A process with the role `stream` records the products without events, or has done so. */
export async function isRecording(db: Queryable, patienceMs = PATIENCE_MS): Promise<boolean> {
  const read = async () => (await db.query<{ last_id: string }>('select last_id from product_event_backfill limit 1')).rows[0]?.last_id
  const first = await read()
  if (first === undefined) return true
  for (const deadline = performance.now() + patienceMs; performance.now() < deadline; ) {
    await delay(POLL_MS)
    if ((await read()) !== first) return true
  }
  return false
}
