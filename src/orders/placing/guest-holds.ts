import { atPrecision, MAX_SHOWN_AVAILABLE, type StockLine, type StockPrecision } from '../../catalogue/stock.ts'
import type { Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { PurchaseLimit } from '../basket.ts'
import type { OrderRequest } from './order-request.ts'

/** Pieces of a product that a network may always hold, however few there are: a share of few would be none. `place_orders` has it, too. */
const ALWAYS = 10

/** What pending orders of a network's guests hold of products, with the accepted orders of the present batch. */
export class GuestHolds {
  readonly #held: ReadonlyMap<string, { quantity: number; limit: number }>

  constructor(held: ReadonlyMap<string, { quantity: number; limit: number }>) {
    this.#held = held
  }

  /** The lines with which a network would hold more than its share, which shows as little of the stock as a shortage. */
  excessOf(holder: string | null, lines: readonly StockLine[], precision: StockPrecision): PurchaseLimit[] {
    if (holder === null) return []
    return lines.flatMap(({ product_id, quantity }) => {
      const held = this.#held.get(`${holder} ${product_id}`)
      if (held === undefined) return []
      const left = Math.max(0, held.limit - held.quantity)
      if (quantity <= atPrecision(left, precision)) return []
      return [{ product_id, requested: quantity, bought: held.quantity, limit: held.quantity + Math.min(left, MAX_SHOWN_AVAILABLE) }]
    })
  }

  add(holder: string | null, lines: readonly StockLine[]): void {
    for (const { product_id, quantity } of lines) {
      const held = this.#held.get(`${holder} ${product_id}`)
      if (held !== undefined) held.quantity += quantity
    }
  }
}

/** Reads what the networks of guests hold of the products that they order now. The stock must be locked. */
export async function findGuestHolds(tx: Transaction, requests: readonly OrderRequest[], percent: number): Promise<GuestHolds> {
  const pairs = requests.flatMap(({ stockHolder = null, basket }) =>
    stockHolder === null ? [] : basket.lines.map((line) => ({ holder: stockHolder, productId: line.product_id })),
  )
  if (pairs.length === 0) return new GuestHolds(new Map())
  const { rows } = await tx.query<{ holder: string; product_id: string; quantity: number; available: number }>(
    sql`select wanted.holder, wanted.product_id, coalesce(sum(held.quantity), 0)::bigint as quantity, inventory.available
      from (
        select distinct holder, product_id
        from unnest(${pairs.map(({ holder }) => holder)}::text[], ${pairs.map(({ productId }) => productId)}::uuid[]) as pair (holder, product_id)
      ) as wanted
      join inventory on inventory.product_id = wanted.product_id and inventory.available is not null
      left join guest_holds as held on held.product_id = wanted.product_id and held.holder = wanted.holder
      group by wanted.holder, wanted.product_id, inventory.available`,
  )
  const limitOf = (available: number, held: number) => Math.max(ALWAYS, Math.floor(((available + held) * percent) / 100))
  return new GuestHolds(
    new Map(
      rows.map(({ holder, product_id, quantity, available }) => [
        `${holder} ${product_id}`,
        { quantity, limit: limitOf(available, quantity) },
      ]),
    ),
  )
}
