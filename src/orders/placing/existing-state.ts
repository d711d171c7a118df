import { applyDueChanges } from '../../catalogue/apply-due-changes.ts'
import type { PriceList, Prices, SellableProduct } from '../../catalogue/products.ts'
import { lockStock, type Shortage, type StockLine } from '../../catalogue/stock.ts'
import type { Pool, Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { inTransaction } from '../../db/transaction.ts'
import type { Stock } from '../basket.ts'
import { findGuestHolds, findPendingOrders, findPurchases, type GuestHolds, type PendingOrders, type Purchases } from './customer-limits.ts'
import { findStoredResponses, lockKeyOfIdempotencyKey, type StoredResponse } from './idempotency.ts'
import type { LockedRows } from './locked-rows.ts'
import { customersOf, lockKeyOfReference, lockKeysOf, type OrderLimits, type OrderRequest, productIdsOf, rowsOf } from './order-request.ts'
import { type EarlierOrder, findEarlierOrders, isOfKey, type Repeat } from './repeats.ts'

/** The state for a decision. `storeOrders` detects when another process changes it before the batch is stored. */
export interface ExistingState {
  isInProgress: (request: OrderRequest) => boolean
  isBlocked: (request: OrderRequest) => boolean
  /** Responses to earlier requests, by `lockKeyOfIdempotencyKey`. */
  responses: ReadonlyMap<string, StoredResponse>
  /** Order ids, by `lockKeyOfReference`. */
  references: ReadonlyMap<string, string>
  /** Earlier orders, by repeat name. */
  repeats: ReadonlyMap<string, EarlierOrder>
  /** Purchases so far. It is null without a limit. */
  purchases: Purchases | null
  pending: PendingOrders | null
  guestHolds: GuestHolds | null
  prices: Prices
  stock: Stock
}

export interface StateSource extends OrderLimits {
  pool: Pool
  prices: PriceList
  lockedRows: LockedRows
}

/** Assumes that every request is new and that products shown as in stock suffice. Reads only unknown prices. */
export async function assumeState({ pool, prices }: StateSource, requests: readonly OrderRequest[]): Promise<ExistingState> {
  const known = await prices.read(pool, productIdsOf(requests))
  return {
    isInProgress: () => false,
    isBlocked: () => false,
    responses: new Map(),
    references: new Map(),
    repeats: new Map(),
    purchases: null,
    pending: null,
    guestHolds: null,
    prices: known,
    stock: new AssumedStock(known.products),
  }
}

/** Waits for locked stock up to `lockTimeoutMs`, then fails with SQLSTATE 55P03. */
export function readState(source: StateSource, requests: readonly OrderRequest[], lockTimeoutMs: number): Promise<ExistingState> {
  const { maxQuantityPerProductAndUser, maxPendingOrdersPerUser, maxGuestStockPercent = null, prices, lockedRows } = source
  return inTransaction(
    source.pool,
    async (tx) => {
      const held = await findHeldLocks(
        tx,
        requests.flatMap((request) => lockKeysOf(request)),
      )
      const blocked = new Set(requests.filter((request) => lockedRows.hasAny(rowsOf([request]))))
      const found = {
        isInProgress: (request: OrderRequest) => held.size > 0 && lockKeysOf(request).some((key) => held.has(key)),
        isBlocked: (request: OrderRequest) => blocked.has(request),
        responses: await findStoredResponses(
          tx,
          requests.flatMap(({ idempotencyKey }) => idempotencyKey ?? []),
        ),
        references: await findOrdersByReference(tx, requests),
        repeats: await findEarlierOrders(
          tx,
          requests.flatMap(({ repeats }) => repeats),
        ),
        pending: maxPendingOrdersPerUser === null ? null : await findPendingOrders(tx, customersOf(requests), maxPendingOrdersPerUser),
      }
      const productIds = productIdsOf(requests.filter((request) => needsStock(request, found)))
      const stock = await lockStock(tx, productIds)
      // This runs after the lock, so orders placed meanwhile count. An import that changed the stock may also have
      // changed the price.
      await applyDueChanges(tx, productIds)
      const purchases = maxQuantityPerProductAndUser === null ? null : await findPurchases(tx, requests, maxQuantityPerProductAndUser)
      const guestHolds = maxGuestStockPercent === null ? null : await findGuestHolds(tx, requests, maxGuestStockPercent)
      return { ...found, stock, purchases, guestHolds, prices: await prices.refresh(tx, productIds) }
    },
    { lockTimeoutMs },
  )
}

function needsStock(
  request: OrderRequest,
  { isInProgress, isBlocked, responses, repeats }: Omit<ExistingState, 'prices' | 'stock' | 'purchases' | 'guestHolds'>,
): boolean {
  const { idempotencyKey } = request
  const isKnown = (repeat: Repeat) => isOfKey(repeat) && (repeats.get(repeat.name)?.ageSeconds ?? Number.POSITIVE_INFINITY) < repeat.seconds
  const isRetry = idempotencyKey !== null && (responses.has(lockKeyOfIdempotencyKey(idempotencyKey)) || request.repeats.some(isKnown))
  return !isRetry && !isInProgress(request) && !isBlocked(request)
}

async function findHeldLocks(tx: Transaction, keys: readonly string[]): Promise<Set<string>> {
  const { rows } = await tx.query<{ key: string }>(
    sql`select key from unnest(${keys}::text[]) as key where not pg_try_advisory_xact_lock(hashtextextended(key, 0))`,
  )
  return new Set(rows.map(({ key }) => key))
}

async function findOrdersByReference(tx: Transaction, requests: readonly OrderRequest[]): Promise<Map<string, string>> {
  const wanted = requests.filter((request) => request.clientReference !== null)
  const { rows } = await tx.query<{ id: string; user_id: string; client_reference: string }>(
    sql`select orders.id, user_id, client_reference
      from unnest(${wanted.map(({ userId }) => userId)}::uuid[], ${wanted.map(({ clientReference }) => clientReference)}::text[])
        as wanted (user_id, client_reference)
      join orders using (user_id, client_reference)`,
  )
  return new Map(rows.map((row) => [lockKeyOfReference(row.user_id, row.client_reference), row.id]))
}

/** Assumes enough stock of every product that the catalogue shows as in stock. */
class AssumedStock implements Stock {
  readonly #products: ReadonlyMap<string, SellableProduct>

  constructor(products: ReadonlyMap<string, SellableProduct>) {
    this.#products = products
  }

  shortagesOf(lines: readonly StockLine[]): Shortage[] {
    return lines.flatMap(({ product_id, quantity }) =>
      this.#products.get(product_id)?.inStock === true ? [] : [{ product_id, requested: quantity, available: 0 }],
    )
  }

  take(): void {}
}
