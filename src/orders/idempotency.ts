import { createHash } from 'node:crypto'
import type { Transaction } from '../db/pool.ts'
import { AppError } from '../errors.ts'

/** draft-ietf-httpapi-idempotency-key-header: the key of a request and what tells its retry from another request. */
export interface IdempotencyKey {
  userId: string
  key: string
  fingerprint: Buffer
}

const MAX_LENGTH = 255
const RETENTION_HOURS = 24
// Visible characters and spaces: RFC 8941 strings, bare or quoted.
const KEY = /^[\x20-\x7e]+$/

/** The key of an `Idempotency-Key` header, null without one. A quoted key and the same key bare are one. Throws `invalid_header`. */
export function readIdempotencyKey(header: string | string[] | undefined, userId: string, body: unknown): IdempotencyKey | null {
  if (header === undefined) return null
  const text = [header].flat().join(', ').trim()
  const key = /^"(.*)"$/.exec(text)?.[1]?.replace(/\\(["\\])/g, '$1') ?? text
  if (key.length > MAX_LENGTH || !KEY.test(key)) {
    throw new AppError('invalid_header', `Idempotency-Key must have 1 to ${MAX_LENGTH} printable ASCII characters.`, {
      errors: [{ parameter: 'Idempotency-Key', detail: 'is not a valid key' }],
    })
  }
  return { userId, key, fingerprint: createHash('sha256').update(JSON.stringify(body)).digest() }
}

/**
 * The stored answer to an earlier request with this key, null when there was none. Requests with the same key wait here
 * for each other until the transaction ends. Throws `idempotency_key_reused` when the earlier request was another.
 */
export async function findReplay(tx: Transaction, { userId, key, fingerprint }: IdempotencyKey): Promise<string | null> {
  await tx.query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [`idempotency ${userId} ${key}`])
  const { rows } = await tx.query<{ fingerprint: Buffer; response: string }>(
    `select fingerprint, response
    from idempotency_keys
    where user_id = $1 and key = $2 and created_at > now() - make_interval(hours => $3)`,
    [userId, key, RETENTION_HOURS],
  )
  const [stored] = rows
  if (stored === undefined) return null
  if (stored.fingerprint.equals(fingerprint)) return stored.response
  throw new AppError('idempotency_key_reused', 'This Idempotency-Key was sent before with another body.')
}

/** Keeps the answer in the order's own transaction: there is never one without the other. */
export async function storeReplay(tx: Transaction, key: IdempotencyKey, orderId: string, response: string): Promise<void> {
  await tx.query(
    `insert into idempotency_keys (user_id, key, fingerprint, order_id, response)
    values ($1, $2, $3, $4, $5)
    on conflict (user_id, key) do update
      set fingerprint = excluded.fingerprint, order_id = excluded.order_id, response = excluded.response, created_at = now()`,
    [key.userId, key.key, key.fingerprint, orderId, response],
  )
}
