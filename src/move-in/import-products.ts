import { readMajorUnits } from '../../client/src/currency.ts'
import { auditContextOfCommand } from '../activity/record-activity.ts'
import { importBesideOrders } from '../catalogue/import/import-catalogue.ts'
import type { ImportLine } from '../catalogue/import/imported-product.ts'
import { REGULAR_AMOUNT } from '../catalogue/offered-prices.ts'
import { IS_EDITED } from '../catalogue/products.ts'
import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { type MoveInOptions, type MoveInResult, noOutcomes } from './move-in.ts'
import { Tally, UNREADABLE } from './tally.ts'

const LOOK_SIZE = 1_000

/**
 * Imports products, and compares their number and the sums of their prices with the store. `lines` must yield each sku
 * once.
 */
export async function importProducts(
  pool: Pool,
  lines: AsyncIterable<ImportLine>,
  { isDryRun, onProblem, onProgress }: Omit<MoveInOptions, 'source' | 'now'>,
): Promise<MoveInResult & { updated: number; present: number }> {
  const result = { outcomes: noOutcomes(), source: new Tally(), store: new Tally(), updated: 0, present: 0 }
  const refuse = (line: number, reason: string) => {
    result.outcomes.refused++
    onProblem(line, reason)
  }
  /** The products of lines with a status. The others keep theirs. */
  const withStatus = new Set<string>()
  const counted = countSource(lines, result.source, withStatus)
  if (isDryRun) {
    let skus: string[] = []
    const look = async () => {
      const present = await countPresent(pool, skus)
      result.present += present
      result.outcomes.created += skus.length - present
      skus = []
    }
    for await (const read of counted) {
      if ('error' in read) refuse(read.line, read.error)
      else if (skus.push(read.product.sku) === LOOK_SIZE) await look()
    }
    await look()
    return result
  }
  const settings = { auditContext: auditContextOfCommand('catalogue import'), ...(onProgress && { onProgress }) }
  for await (const results of importBesideOrders(pool, counted, settings)) {
    for (const one of results) {
      if ('error' in one) refuse(one.line, one.error)
      else if (one.outcome === 'updated') result.updated++
      else result.outcomes[one.outcome]++
    }
    const skus = results.flatMap((one) => ('sku' in one ? one.sku : []))
    await countStored(
      pool,
      skus,
      skus.filter((sku) => withStatus.delete(sku)),
      result.store,
    )
  }
  return result
}

async function* countSource(lines: AsyncIterable<ImportLine>, source: Tally, withStatus: Set<string>): AsyncGenerator<ImportLine> {
  for await (const read of lines) {
    if ('product' in read) {
      const { sku, price, status, source_price: text } = read.product
      source.add(`${price.currency} products`, (text === undefined ? null : readMajorUnits(text, price.currency)) ?? BigInt(price.amount))
      if (status !== undefined) {
        withStatus.add(sku)
        source.add(`${status} products`)
      }
    } else source.add(UNREADABLE)
    yield read
  }
}

async function countPresent(pool: Pool, skus: readonly string[]): Promise<number> {
  const { rows } = await pool.query<{ present: number }>(
    sql`select count(*)::int as present from products where sku = any(${skus}::text[])`,
  )
  return rows[0]?.present ?? 0
}

async function countStored(pool: Pool, skus: readonly string[], withStatus: readonly string[], store: Tally): Promise<void> {
  const { rows } = await pool.query<{ currency: string; status: string | null; products: number; amount: string }>(sql`select
      price_currency as currency, case when sku = any(${withStatus}::text[]) then status end as status,
      count(*) as products, sum(${REGULAR_AMOUNT})::text as amount
    from products as product
    where sku = any(${skus}::text[]) and ${IS_EDITED}
    group by 1, 2`)
  for (const { currency, status, products, amount } of rows) {
    store.add(`${currency} products`, BigInt(amount), products)
    if (status !== null) store.add(`${status} products`, 0n, products)
  }
}
