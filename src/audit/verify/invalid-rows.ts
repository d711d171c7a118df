import type { Pool } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'

/** At least one row of a table that breaks a rule. `examples`: ids with the reason. */
export interface InvalidRowsFound {
  place: 'orders' | 'order counts' | 'products' | 'stock'
  count: number
  examples: string[]
}

/** Rows that break a rule which the database enforces for every new row: they were written before the rule, or while it was disabled. */
export async function findInvalidRows(pool: Pool, maxExamples: number): Promise<InvalidRowsFound[]> {
  const checks = [await findCounts(pool, maxExamples), await findProducts(pool, maxExamples), await findStock(pool, maxExamples)]
  return checks.flatMap((rows) => rows.found())
}

export class InvalidRows {
  readonly #place: InvalidRowsFound['place']
  readonly #maxExamples: number
  readonly #examples: string[] = []
  #count = 0

  constructor(place: InvalidRowsFound['place'], maxExamples: number) {
    this.#place = place
    this.#maxExamples = maxExamples
  }

  add(id: string, reason: string): void {
    this.#count += 1
    if (this.#examples.length < this.#maxExamples) this.#examples.push(`${id}: ${reason}`)
  }

  found(): InvalidRowsFound[] {
    return this.#count === 0 ? [] : [{ place: this.#place, count: this.#count, examples: this.#examples }]
  }
}

/** Columns of a row of `orders`, for `findOrderFault`. */
export const ORDER_CHECKS = sql`
  order_lines_are_sound(items, total_amount, currency) as are_lines_sound,
  order_history_is_whole(status_history, version, status) as is_history_whole`

export interface OrderChecks {
  are_lines_sound: boolean
  is_history_whole: boolean
}

/** Which rules an order breaks, null for none. Pure. */
export function findOrderFault({ are_lines_sound, is_history_whole }: OrderChecks): string | null {
  const reasons = [
    ...(are_lines_sound ? [] : ['the lines lack a product, a quantity or a price, or do not add up to the total']),
    ...(is_history_whole ? [] : ['the status history does not lead from pending to the status, one entry a version']),
  ]
  return reasons.length === 0 ? null : reasons.join('; ')
}

/** Counts of pending orders that differ from the orders. Triggers maintain them, so a wrong count was written while these were disabled. */
async function findCounts(pool: Pool, maxExamples: number): Promise<InvalidRows> {
  const { rows } = await pool.query<{ user_id: string; kept: number; counted: number }>(
    `select user_id, coalesce(kept.pending, 0) as kept, coalesce(counted.pending, 0) as counted
    from pending_order_counts as kept
    full join (
      select user_id, count(*)::integer as pending from orders where status = 'pending' group by user_id
    ) as counted using (user_id)
    where coalesce(kept.pending, 0) <> coalesce(counted.pending, 0)
    order by user_id`,
  )
  const invalid = new InvalidRows('order counts', maxExamples)
  for (const { user_id, kept, counted } of rows) invalid.add(user_id, `${kept} orders are counted as pending, ${counted} are`)
  return invalid
}

async function findProducts(pool: Pool, maxExamples: number): Promise<InvalidRows> {
  const { rows } = await pool.query<{ id: string; sku: string }>(
    `select id, sku
    from products
    where price_amount not between 0 and 9007199254740991 or price_currency !~ '^[A-Z]{3}$'
    order by id`,
  )
  const invalid = new InvalidRows('products', maxExamples)
  for (const { id, sku } of rows) invalid.add(id, `the price of ${sku} is no amount from 0 in a currency of three capitals`)
  return invalid
}

async function findStock(pool: Pool, maxExamples: number): Promise<InvalidRows> {
  const { rows } = await pool.query<{ product_id: string; available: number }>(
    'select product_id, available from inventory where available < 0 order by product_id',
  )
  const invalid = new InvalidRows('stock', maxExamples)
  for (const { product_id, available } of rows) invalid.add(product_id, `${available} are available`)
  for (const { product_id, version } of await findBrokenHistories(pool))
    invalid.add(product_id, `its adjustment of version ${version} does not fit the one before it, or its stock`)
  return invalid
}

/** Adjustments that do not begin where the previous one ended, or do not end at the stock of their version. */
async function findBrokenHistories(pool: Pool): Promise<{ product_id: string; version: string }[]> {
  const { rows } = await pool.query<{ product_id: string; version: string }>(
    `select adjustment.product_id, adjustment.version::text
    from (
      select product_id, version, available_before, available_after,
        lag(version) over history as version_before, lag(available_after) over history as after_before
      from stock_adjustments
      window history as (partition by product_id order by version)
    ) as adjustment
    join inventory using (product_id)
    where (version_before = adjustment.version - 1 and after_before is distinct from available_before)
      or adjustment.version > inventory.version
      or (adjustment.version = inventory.version and available_after is distinct from available)
    order by 1, adjustment.version`,
  )
  return rows
}
