import { atLeast, linesToRefuse, MAX_SHOWN_AVAILABLE, type StockLine, type StockPrecision } from '../../catalogue/stock.ts'
import type { Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { AppError } from '../../errors.ts'
import type { PurchaseLimit } from '../basket.ts'
import type { OrderRequest } from './order-request.ts'

/** A network's guests may always hold this number of units. `place_orders` has the same number. */
const ALWAYS = 10

/** Units that a network's guests hold, and the sum of that number and the available stock. */
interface Held {
  quantity: number
  stock: number
}

/** The counts include accepted orders of this batch. */
export class GuestHolds {
  readonly #held: ReadonlyMap<string, Held>
  readonly #percent: number

  constructor(held: ReadonlyMap<string, Held>, percent: number) {
    this.#held = held
    this.#percent = percent
  }

  /** Lines that exceed, or may exceed, the share. They reveal no more of the stock than a shortage does. */
  excessOf(holder: string | null, lines: readonly StockLine[], precision: StockPrecision): PurchaseLimit[] {
    const heldOf = ({ product_id }: StockLine) => this.#held.get(`${holder} ${product_id}`)
    const leftOf = ({ quantity, stock }: Held, of: (stock: number) => number) =>
      Math.max(0, Math.max(ALWAYS, Math.floor((of(stock) * this.#percent) / 100)) - quantity)
    const refused = linesToRefuse(lines, precision, (line, of) => {
      const held = heldOf(line)
      return held === undefined ? null : leftOf(held, of)
    })
    return refused.flatMap((line) => {
      const held = heldOf(line)
      if (held === undefined) return []
      const { product_id, quantity: requested } = line
      return [{ product_id, requested, bought: held.quantity, limit: held.quantity + Math.min(leftOf(held, atLeast), MAX_SHOWN_AVAILABLE) }]
    })
  }

  add(holder: string | null, lines: readonly StockLine[]): void {
    for (const { product_id, quantity } of lines) {
      const held = this.#held.get(`${holder} ${product_id}`)
      if (held !== undefined) held.quantity += quantity
    }
  }
}

/** The caller must have locked the stock. */
export async function findGuestHolds(tx: Transaction, requests: readonly OrderRequest[], percent: number): Promise<GuestHolds> {
  const pairs = requests.flatMap(({ stockHolder = null, basket }) =>
    stockHolder === null ? [] : basket.lines.map((line) => ({ holder: stockHolder, productId: line.product_id })),
  )
  if (pairs.length === 0) return new GuestHolds(new Map(), percent)
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
  return new GuestHolds(
    new Map(
      rows.map(({ holder, product_id, quantity, available }) => [`${holder} ${product_id}`, { quantity, stock: available + quantity }]),
    ),
    percent,
  )
}

/** The counts include accepted orders of this batch. */
export class PendingOrders {
  readonly #limit: number
  readonly #counts: Map<string, number>

  constructor(limit: number, counts: Map<string, number>) {
    this.#limit = limit
    this.#counts = counts
  }

  assertOneMore(userId: string): void {
    const pending = this.#counts.get(userId) ?? 0
    if (pending >= this.#limit) {
      throw new AppError('too_many_pending_orders', `You have ${pending} pending orders; the limit is ${this.#limit}.`, {
        members: { pending, limit: this.#limit },
      })
    }
  }

  add(userId: string): void {
    this.#counts.set(userId, (this.#counts.get(userId) ?? 0) + 1)
  }
}

export async function findPendingOrders(tx: Transaction, userIds: readonly string[], limit: number): Promise<PendingOrders> {
  const { rows } = await tx.query<{ user_id: string; pending: number }>(
    sql`select user_id, pending from pending_order_counts where user_id = any(${userIds}::uuid[])`,
  )
  return new PendingOrders(limit, new Map(rows.map((row) => [row.user_id, row.pending])))
}

/** The counts include accepted orders of this batch. */
export class Purchases {
  readonly #limit: number
  readonly #bought: Map<string, number>

  constructor(limit: number, bought: Map<string, number>) {
    this.#limit = limit
    this.#bought = bought
  }

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

/** Cancelled and returned orders and units do not count. */
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
