import { plainArray } from '../db/list-parameters.ts'
import type { Queryable, Transaction } from '../db/pool.ts'
import { noSql, type Sql, sql } from '../db/sql.ts'

export interface StockLine {
  product_id: string
  quantity: number
}

/** A line that exceeds the available stock. */
export interface Shortage {
  product_id: string
  requested: number
  /** At most `MAX_SHOWN_AVAILABLE`. */
  available: number
}

/**
 * The highest level that a shortage shows, more than most customers want. Larger quantities are hidden, so visitors
 * cannot work out a shop's stock or its daily sales.
 */
export const MAX_SHOWN_AVAILABLE = 20

/**
 * The precision for judging a line. `exact` decides only whether an order is placed. Calls that can be repeated without
 * limit use `rounded`, because bisection would find the exact stock.
 */
export type StockPrecision = 'exact' | 'rounded'

/** Exact up to 20 units; more are rounded up to the next of 50, 100, 200, 500 … */
function atPrecision(units: number, precision: StockPrecision): number {
  if (precision === 'exact' || units <= MAX_SHOWN_AVAILABLE) return units
  const power = 10 ** Math.floor(Math.log10(units))
  return power * ([1, 2, 5].find((step) => step * power >= units) ?? 10)
}

/** The lowest level with the same rounded level: exact up to 20 units, more are rounded down to 20, 50, 100, 200 … */
export function atLeast(units: number): number {
  if (units <= MAX_SHOWN_AVAILABLE) return units
  const power = 10 ** Math.floor(Math.log10(units - 1))
  return power * ([5, 2, 1].find((step) => step * power < units) ?? 1)
}

/**
 * The lines that exceed `unitsOf` at this precision; null means unlimited. If a line is short at `exact`, all lines
 * that may be short are named, because an unnamed line would reveal its stock.
 */
export function linesToRefuse<T extends StockLine>(
  lines: readonly T[],
  precision: StockPrecision,
  unitsOf: (line: T, of: (stock: number) => number) => number | null,
): T[] {
  const above = (of: (stock: number) => number) => lines.filter((line) => line.quantity > (unitsOf(line, of) ?? Number.POSITIVE_INFINITY))
  const short = above((stock) => atPrecision(stock, precision))
  return precision === 'exact' && short.length > 0 ? above(atLeast) : short
}

/** The stock of some products in memory. `saveStock` writes the changes to the database. */
export class StockLevels {
  /** The levels by product id. Null means untracked. An unknown product has no entry. */
  readonly #before: ReadonlyMap<string, number | null>
  readonly #now: Map<string, number | null>

  constructor(levels: ReadonlyMap<string, number | null>) {
    this.#before = levels
    this.#now = new Map(levels)
  }

  /** The lines that exceed, or may exceed, the available stock. Each product must have only one line. */
  shortagesOf(lines: readonly StockLine[], precision: StockPrecision): Shortage[] {
    // A product without an entry was deleted between reading and locking.
    const availableOf = ({ product_id }: StockLine) => (this.#now.has(product_id) ? (this.#now.get(product_id) ?? null) : 0)
    const refused = linesToRefuse(lines, precision, (line, of) => {
      const available = availableOf(line)
      return available === null ? null : of(available)
    })
    return refused.map((line) => ({
      ...{ product_id: line.product_id, requested: line.quantity },
      available: Math.min(availableOf(line) ?? MAX_SHOWN_AVAILABLE, MAX_SHOWN_AVAILABLE),
    }))
  }

  /** The lines must be available. */
  take(lines: readonly StockLine[]): void {
    for (const line of lines) this.#move(line.product_id, -line.quantity)
  }

  putBack(lines: readonly StockLine[]): void {
    for (const line of lines) this.#move(line.product_id, line.quantity)
  }

  /** The products whose level has changed since it was read. */
  changes(): { productId: string; before: number; now: number }[] {
    const changes: { productId: string; before: number; now: number }[] = []
    for (const [productId, now] of this.#now) {
      const before = this.#before.get(productId) ?? null
      if (now !== null && before !== null && now !== before) changes.push({ productId, before, now })
    }
    return changes
  }

  #move(productId: string, quantity: number): void {
    const available = this.#now.get(productId)
    if (available !== null && available !== undefined) this.#now.set(productId, available + quantity)
  }
}

/**
 * Reads products' stock and locks it until the transaction ends. `select … for update` locks rows in product order. An
 * `update … from unnest(…)` would lock them in its plan's order, so two of them could deadlock.
 */
export function lockStock(tx: Transaction, productIds: readonly string[]): Promise<StockLevels> {
  return selectStock(tx, productIds, sql`order by product_id for update`)
}

/** Reads products' stock without a lock, so the levels may change at any time. */
export function readStock(db: Queryable, productIds: readonly string[]): Promise<StockLevels> {
  return selectStock(db, productIds, noSql)
}

async function selectStock(db: Queryable, productIds: readonly string[], locking: Sql): Promise<StockLevels> {
  const { rows } = await db.query<{ product_id: string; available: number | null }>(
    sql`select product_id, available from inventory where product_id = any(${productIds}) ${locking}`,
  )
  return new StockLevels(new Map(rows.map((row) => [row.product_id, row.available])))
}

/** Writes the changes since `lockStock`, in its transaction. */
export async function saveStock(tx: Transaction, stock: StockLevels): Promise<void> {
  const changes = stock.changes()
  if (changes.length === 0) return
  const productIds = plainArray(changes.map((change) => change.productId))
  const levels = sql`unnest(${productIds}::uuid[], ${plainArray(changes.map((change) => change.now))}::bigint[]) as level (product_id, available)`
  const flips = changes.filter((change) => (change.before === 0) !== (change.now === 0)).map((change) => change.productId)
  const save = sql`update inventory set available = level.available, version = inventory.version + 1
    from ${levels}
    where inventory.product_id = level.product_id`
  if (flips.length === 0) {
    await tx.query(save)
    return
  }
  // The catalogue shows whether there is any stock.
  const flip = sql`update products set in_stock = level.available > 0, updated_at = now()
    from ${levels}
    where products.id = any(${plainArray(flips)}::uuid[]) and products.id = level.product_id and products.in_stock <> (level.available > 0)`
  await tx.query(sql`with flipped as (${flip}) ${save}`)
}

/**
 * Returns the stock of some order lines, and takes the stock of others, which must be available. Several lines may name
 * the same product.
 */
export async function moveStock(
  tx: Transaction,
  { restocked, taken = [] }: { restocked: readonly StockLine[]; taken?: readonly StockLine[] },
): Promise<void> {
  const stock = await lockStock(tx, [...new Set([...restocked, ...taken].map((line) => line.product_id))])
  stock.putBack(restocked)
  stock.take(taken)
  await saveStock(tx, stock)
}
