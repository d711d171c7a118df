import type { Pool } from '../../db/pool.ts'

const PAGE_SIZE = 1_000
const BEFORE_ALL = '00000000-0000-0000-0000-000000000000'

/** Rows of one table, at least one, that break a rule. `examples`: ids with the reason. */
export interface InvalidRowsFound {
  place: 'orders' | 'order counts' | 'products' | 'stock'
  count: number
  examples: string[]
}

/** Rows that break a rule to which the database holds every new row: they are from before the rule, or were written around it. */
export async function findInvalidRows(pool: Pool, maxExamples: number): Promise<InvalidRowsFound[]> {
  const orders = new InvalidRows('orders', maxExamples)
  for (let after: string | undefined = BEFORE_ALL; after !== undefined; ) after = await readOrders(pool, after, orders)
  return [orders, await findCounts(pool, maxExamples), await findProducts(pool, maxExamples), await findStock(pool, maxExamples)].flatMap(
    (rows) => rows.found(),
  )
}

class InvalidRows {
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

/** The id of the last order of the page, undefined when there was none. */
async function readOrders(pool: Pool, after: string, invalid: InvalidRows): Promise<string | undefined> {
  const { rows } = await pool.query<{ id: string; are_lines_sound: boolean; is_history_whole: boolean }>(
    `select id, order_lines_are_sound(items, total_amount, currency) as are_lines_sound,
      order_history_is_whole(status_history, version, status) as is_history_whole
    from orders
    where id > $1
    order by id
    limit $2`,
    [after, PAGE_SIZE],
  )
  for (const { id, are_lines_sound, is_history_whole } of rows) {
    const reasons = [
      ...(are_lines_sound ? [] : ['the lines lack a product, a quantity or a price, or do not add up to the total']),
      ...(is_history_whole ? [] : ['the status history does not lead from pending to the status, one entry a version']),
    ]
    if (reasons.length > 0) invalid.add(id, reasons.join('; '))
  }
  return rows.at(-1)?.id
}

/** Counts of pending orders that are not what the orders say. Triggers keep them: one that is wrong was written around these. */
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

/** Adjustments that begin elsewhere than the one of the version before them ended, or end elsewhere than the stock of their version is. */
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
