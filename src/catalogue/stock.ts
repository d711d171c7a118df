import type { Transaction } from '../db/pool.ts'
import { notFound } from '../errors.ts'

export interface StockLine {
  product_id: string
  quantity: number
}

/** A line that there is not enough stock for. */
export interface Shortage {
  product_id: string
  requested: number
  available: number
}

/**
 * Takes the stock of an order's lines, one line a product, all of it or, when any line is short, none. Returns every short line.
 * Rows are locked in product order, so two orders that name the same products in any order cannot deadlock.
 */
export async function takeStock(tx: Transaction, lines: readonly StockLine[]): Promise<Shortage[]> {
  const available = await lockStock(tx, lines)
  const shortages = lines.flatMap((line): Shortage[] => {
    // No row at all: the product went away between being read and being locked.
    const left = available.has(line.product_id) ? available.get(line.product_id) : 0
    if (left === null || left === undefined || left >= line.quantity) return []
    return [{ product_id: line.product_id, requested: line.quantity, available: left }]
  })
  if (shortages.length > 0) return shortages
  await moveStock(tx, lines, -1)
  const soldOut = lines.filter((line) => available.get(line.product_id) === line.quantity)
  await setInStock(tx, soldOut, false)
  return []
}

/** Gives the stock of an order's lines back. */
export async function returnStock(tx: Transaction, lines: readonly StockLine[]): Promise<void> {
  const available = await lockStock(tx, lines)
  await moveStock(tx, lines, 1)
  const backInStock = lines.filter((line) => available.get(line.product_id) === 0)
  await setInStock(tx, backInStock, true)
}

/** Sets the stock of one product, null for not tracked, whatever it was. Throws `not_found`. */
export async function setStock(tx: Transaction, productId: string, stock: number | null): Promise<void> {
  // The stock row first, then the product, as everywhere.
  const { rowCount } = await tx.query(
    `update inventory set available = $2
    where product_id = $1 and exists (select from products where id = $1 and archived_at is null)`,
    [productId, stock],
  )
  if (rowCount === 0) throw notFound('product')
  await setInStock(tx, [{ product_id: productId, quantity: 0 }], stock !== 0)
}

/** Stock by product, null where it is not tracked; no entry where there is no such product. */
async function lockStock(tx: Transaction, lines: readonly StockLine[]): Promise<Map<string, number | null>> {
  const { rows } = await tx.query<{ product_id: string; available: number | null }>(
    'select product_id, available from inventory where product_id = any($1) order by product_id for update',
    [lines.map((line) => line.product_id)],
  )
  return new Map(rows.map((row) => [row.product_id, row.available]))
}

async function moveStock(tx: Transaction, lines: readonly StockLine[], sign: 1 | -1): Promise<void> {
  await tx.query(
    `update inventory set available = inventory.available + line.quantity
    from unnest($1::uuid[], $2::bigint[]) as line (product_id, quantity)
    where inventory.product_id = line.product_id and inventory.available is not null`,
    [lines.map((line) => line.product_id), lines.map((line) => sign * line.quantity)],
  )
}

/** The one place where stock touches the catalogue: it reached zero, or left it. */
async function setInStock(tx: Transaction, lines: readonly StockLine[], inStock: boolean): Promise<void> {
  if (lines.length === 0) return
  await tx.query('update products set in_stock = $2, updated_at = now() where id = any($1) and in_stock <> $2', [
    lines.map((line) => line.product_id),
    inStock,
  ])
}
