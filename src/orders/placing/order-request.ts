import type { Money } from '../../money.ts'
import type { Basket } from '../basket.ts'
import type { GivenMembers } from '../order-columns.ts'
import { type IdempotencyKey, lockKeyOfIdempotencyKey } from './idempotency.ts'
import type { Rows } from './locked-rows.ts'
import { lockKeyOfRepeat, type Repeat } from './repeats.ts'

/** What a customer wants to order. */
export interface OrderRequest extends GivenMembers {
  userId: string
  basket: Basket
  /** ISO 4217; null: the products' own prices. */
  currency: string | null
  /** The total that the client expects; null accepts any. */
  expectedTotal: Money | null
  idempotencyKey: IdempotencyKey | null
  /** What would make it a repeat of an earlier order, besides its key and its reference. */
  repeats: readonly Repeat[]
  traceparent: string
  /** Guests only. Checked last, so a block cannot be probed without placing real orders. */
  isOfBlockedAddress?: boolean
  /** Guests only: whose share of a product's stock the order takes, a hash of the network or the guest. */
  stockHolder?: string | null
}

/** The limits of a shop; null is no limit. */
export interface OrderLimits {
  /** Units of one product that one customer can buy in all orders together. */
  maxQuantityPerProductAndUser: number | null
  /** Pending orders of one customer. */
  maxPendingOrdersPerUser: number | null
  /** The share of a product's stock that pending orders of one network's guests hold at most. */
  maxGuestStockPercent?: number | null
}

/** Identifies a `client_reference` of a customer. */
export function lockKeyOfReference(userId: string, clientReference: string): string {
  return `reference ${userId} ${clientReference}`
}

/**
 * Keys of the locks that a request needs. Each is held by at most one transaction, so they name only what makes two
 * requests the same. What orders count together is read after their rows are locked, of products and customers.
 */
export function lockKeysOf({
  userId,
  idempotencyKey,
  clientReference,
  repeats,
}: Pick<OrderRequest, 'userId' | 'idempotencyKey' | 'clientReference' | 'repeats'>): string[] {
  const keys = repeats.map(lockKeyOfRepeat)
  if (idempotencyKey !== null) keys.push(lockKeyOfIdempotencyKey(idempotencyKey))
  if (clientReference !== null) keys.push(lockKeyOfReference(userId, clientReference))
  return keys
}

/** The rows that requests lock. */
export function rowsOf(requests: readonly OrderRequest[]): Rows {
  return { products: productIdsOf(requests), customers: customersOf(requests) }
}

export function productIdsOf(requests: readonly OrderRequest[]): string[] {
  return [...new Set(requests.flatMap(({ basket }) => basket.lines.map((line) => line.product_id)))]
}

export function customersOf(requests: readonly OrderRequest[]): string[] {
  return [...new Set(requests.map(({ userId }) => userId))]
}
