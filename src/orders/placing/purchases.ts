import type { StockLine } from '../../catalogue/stock.ts'
import type { Transaction } from '../../db/pool.ts'
import type { PurchaseLimit } from '../basket.ts'

/** What customers have bought so far of the products in question, this transaction's own orders included. */
export class Purchases {
  readonly #limit: number
  readonly #bought: Map<string, number>

  constructor(limit: number, bought: Map<string, number>) {
    this.#limit = limit
    this.#bought = bought
  }

  /** The lines with which a customer would have bought more than one may. */
  excessOf(userId: string, lines: readonly StockLine[]): PurchaseLimit[] {
    return lines.flatMap(({ product_id, quantity }) => {
      const bought = this.#bought.get(`${userId} ${product_id}`) ?? 0
      return bought + quantity > this.#limit ? [{ product_id, requested: quantity, bought, limit: this.#limit }] : []
    })
  }

  add(userId: string, lines: readonly StockLine[]): void {
    for (const { product_id, quantity } of lines) {
      const name = `${userId} ${product_id}`
      this.#bought.set(name, (this.#bought.get(name) ?? 0) + quantity)
    }
  }
}

/** The name of the lock under which a customer's purchases are counted: orders placed at the same time count each other. */
export function nameOfBuyer(userId: string): string {
  return `purchases ${userId}`
}

/** Counts what the customers have bought of what they want. Orders that were cancelled or returned do not count. */
export async function readPurchases(
  tx: Transaction,
  wanted: readonly { userId: string; basket: { lines: readonly StockLine[] } }[],
  limit: number,
): Promise<Purchases> {
  const pairs = wanted.flatMap(({ userId, basket }) => basket.lines.map((line) => ({ userId, productId: line.product_id })))
  const { rows } = await tx.query<{ user_id: string; product_id: string; bought: number }>(
    `select wanted.user_id, wanted.product_id, sum((item ->> 'quantity')::bigint)::bigint as bought
    from (select distinct user_id, product_id from unnest($1::uuid[], $2::uuid[]) as pair (user_id, product_id)) as wanted
    join orders on orders.user_id = wanted.user_id
      and orders.status not in ('cancelled', 'returned')
      and orders.product_ids @> array[wanted.product_id]
    cross join json_array_elements(orders.items) as item
    where (item ->> 'product_id')::uuid = wanted.product_id
    group by wanted.user_id, wanted.product_id`,
    [pairs.map((pair) => pair.userId), pairs.map((pair) => pair.productId)],
  )
  return new Purchases(limit, new Map(rows.map((row) => [`${row.user_id} ${row.product_id}`, row.bought])))
}
