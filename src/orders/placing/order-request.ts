import type { AuditContext } from '../../activity/record-activity.ts'
import type { Money } from '../../money.ts'
import type { Basket } from '../basket.ts'
import type { GivenMembers } from '../order-columns.ts'
import { type IdempotencyKey, lockKeyOfIdempotencyKey } from './idempotency.ts'
import type { Rows } from './locked-rows.ts'
import { lockKeyOfRepeat, type Repeat } from './repeats.ts'

export interface OrderRequest extends GivenMembers {
  userId: string
  basket: Basket
  /** ISO 4217. Null means the products' own prices. */
  currency: string | null
  /** The total that the client expects. Null accepts any total. */
  expectedTotal: Money | null
  idempotencyKey: IdempotencyKey | null
  /** Names that make it a repeat of an earlier order, besides its key and reference. */
  repeats: readonly Repeat[]
  traceparent: string
  /** Guests only. Checked last, so a block cannot be probed without placing real orders. */
  isOfBlockedAddress?: boolean
  /** Guests only: hash of the network or guest whose stock share the order uses. */
  stockHolder?: string | null
  /** Present when an operator or a key places the order. */
  auditContext?: AuditContext
}

/** A limit is off when it is null. */
export interface OrderLimits {
  maxQuantityPerProductAndUser: number | null
  maxPendingOrdersPerUser: number | null
  /** Largest percentage of a product's stock that pending orders of one network's guests hold. */
  maxGuestStockPercent?: number | null
}

export function lockKeyOfReference(userId: string, clientReference: string): string {
  return `reference ${userId} ${clientReference}`
}

/**
 * Equal requests share lock keys, and others do not. Limits need no lock key: counts are read after rows are locked.
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

export function rowsOf(requests: readonly OrderRequest[]): Rows {
  return { products: productIdsOf(requests), customers: customersOf(requests) }
}

export function productIdsOf(requests: readonly OrderRequest[]): string[] {
  return [...new Set(requests.flatMap(({ basket }) => basket.lines.map((line) => line.product_id)))]
}

export function customersOf(requests: readonly OrderRequest[]): string[] {
  return [...new Set(requests.map(({ userId }) => userId))]
}
