import type { StockLine } from '../../catalogue/stock.ts'
import type { Transaction } from '../../db/pool.ts'
import type { PurchaseLimit } from '../basket.ts'

/** How many units customers have bought of some products, with the accepted orders of the present batch. */
export class Purchases {
  readonly #limit: number
  readonly #bought: Map<string, number>

  constructor(limit: number, bought: Map<string, number>) {
    this.#limit = limit
    this.#bought = bought
  }

  /** The lines with which a customer would exceed the limit. */
  excessOf(userId: string, lines: readonly StockLine[]): PurchaseLimit[] {
    return lines.flatMap(({ product_id, quantity }) => {
      const bought = this.#bought.get(`${userId} ${product_id}`) ?? 0
      return bought + quantity > this.#limit ? [{ product_id, requested: quantity, bought, limit: this.#limit }] : []
    })
  }

  add(userId: string, lines: readonly StockLine[]): void {
    for (const { product_id, quantity } of lines) {
      const pair = `${userId} ${product_id}`
      this.#bought.set(pair, (this.#bought.get(pair) ?? 0) + quantity)
    }
  }
}

/** Counts what customers have bought of the products that they order now. Cancelled and returned orders and units do not count. */
export async function findPurchases(
  tx: Transaction,
  wanted: readonly { userId: string; basket: { lines: readonly StockLine[] } }[],
  limit: number,
): Promise<Purchases> {
  const pairs = wanted.flatMap(({ userId, basket }) => basket.lines.map((line) => ({ userId, productId: line.product_id })))
  const { rows } = await tx.query<{ user_id: string; product_id: string; bought: number }>(
    `select user_id, product_id, purchased_quantity(user_id, product_id) as bought
    from (select distinct user_id, product_id from unnest($1::uuid[], $2::uuid[]) as pair (user_id, product_id)) as wanted`,
    [pairs.map((pair) => pair.userId), pairs.map((pair) => pair.productId)],
  )
  return new Purchases(limit, new Map(rows.map((row) => [`${row.user_id} ${row.product_id}`, row.bought])))
}
