import { hash } from 'node:crypto'
import { BATCH_ROWS, inBatches } from '../../db/in-batches.ts'
import { uuidArray } from '../../db/list-parameters.ts'
import type { Pool, Transaction } from '../../db/pool.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { canonicalJson } from '../../encoding.ts'
import { AppError } from '../../errors.ts'
import { renderResponse } from '../order.ts'

/** A key of draft-ietf-httpapi-idempotency-key-header. The `fingerprint` of the content identifies a retry. */
export interface IdempotencyKey {
  userId: string
  key: string
  fingerprint: Buffer
}

export interface StoredResponse {
  /** The value is null after the customer's erasure. */
  fingerprint: Buffer | null
  orderId: string
  /**
   * The sent body, byte for byte. The value is null after the customer's erasure, or when somebody deleted the order by
   * hand.
   */
  json: string | null
}

/** The order as JSON. A retry gets the same bytes. */
export interface PlacedOrder {
  orderId: string
  json: string
  isReplay: boolean
}

const MAX_LENGTH = 255
export const KEY_RETENTION_HOURS = 24
// Visible characters and spaces: RFC 8941 strings, bare or quoted.
const KEY = /^[\x20-\x7e]+$/

/**
 * `body` includes its defaults, so formatting does not count. A quoted key equals the bare one. Throws
 * `invalid_header`.
 */
export function readIdempotencyKey(header: string | string[] | undefined, userId: string, body: object): IdempotencyKey | null {
  if (header === undefined) return null
  const text = [header].flat().join(', ').trim()
  const key = /^"(.*)"$/.exec(text)?.[1]?.replace(/\\(["\\])/g, '$1') ?? text
  if (key.length > MAX_LENGTH || !KEY.test(key)) {
    throw new AppError('invalid_header', `Idempotency-Key must have 1 to ${MAX_LENGTH} printable ASCII characters.`, {
      errors: [{ parameter: 'Idempotency-Key', detail: 'is not a valid key' }],
    })
  }
  return { userId, key, fingerprint: hash('sha256', canonicalJson(body), 'buffer') }
}

export function keyRequired(): AppError {
  return new AppError('idempotency_key_required', 'Send an Idempotency-Key with each order, the same with each retry of it.')
}

export function lockKeyOfIdempotencyKey({ userId, key }: Pick<IdempotencyKey, 'userId' | 'key'>): string {
  return `idempotency ${userId} ${key}`
}

export async function findStoredResponses(tx: Transaction, keys: readonly IdempotencyKey[]): Promise<Map<string, StoredResponse>> {
  const { rows } = await tx.query<{
    user_id: string
    key: string
    fingerprint: Buffer
    order_id: string
    response: string
    number: number | null
    items: string | null
  }>(
    sql`select wanted.user_id, wanted.key, fingerprint, order_id, response, orders.number, orders.items::text as items
      from unnest(${uuidArray(keys.map(({ userId }) => userId))}::uuid[], ${keys.map(({ key }) => key)}::text[]) as wanted (user_id, key)
      join idempotency_keys using (user_id, key)
      left join orders on orders.id = order_id
      where idempotency_keys.created_at > now() - make_interval(hours => ${KEY_RETENTION_HOURS})`,
  )
  return new Map(
    rows.map((row) => [
      lockKeyOfIdempotencyKey({ userId: row.user_id, key: row.key }),
      {
        ...{ fingerprint: row.fingerprint, orderId: row.order_id },
        json: row.items === null ? null : renderResponse(row.response, String(row.number), row.items),
      },
    ]),
  )
}

/** Throws `idempotency_key_reused` for another body, and for a deleted order. */
export function replayOf({ orderId, json, ...first }: StoredResponse, key: IdempotencyKey): PlacedOrder {
  if (json === null) {
    throw new AppError('idempotency_key_reused', 'The order of this Idempotency-Key was deleted. Send another key to place a new one.')
  }
  assertSameRequest(first, key)
  return { orderId, json, isReplay: true }
}

export function assertSameRequest({ fingerprint }: Pick<StoredResponse, 'fingerprint'>, key: IdempotencyKey): void {
  if (fingerprint?.equals(key.fingerprint)) return
  throw new AppError('idempotency_key_reused', 'This Idempotency-Key was sent before with another body.')
}

export async function deleteExpiredKeys(pool: Pool): Promise<number> {
  return (await deleteExpired(pool, sql`idempotency_keys`)) + (await deleteExpired(pool, sql`order_repeats`))
}

async function deleteExpired(pool: Pool, table: Sql): Promise<number> {
  return inBatches(
    pool,
    sql`delete from ${table}
    where ctid = any (array(
      select ctid from ${table} where created_at <= now() - make_interval(hours => ${KEY_RETENTION_HOURS})
      limit ${BATCH_ROWS} for update skip locked
    ))`,
  )
}
