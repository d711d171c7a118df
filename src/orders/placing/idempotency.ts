import { hash } from 'node:crypto'
import { textRows, uuidArray } from '../../db/list-parameters.ts'
import type { Pool, Transaction } from '../../db/pool.ts'
import { prepared, sql } from '../../db/sql.ts'
import { IS_IN_TRANSACTION } from '../../db/transaction.ts'
import { AppError } from '../../errors.ts'
import { fillIn } from '../order.ts'

/** draft-ietf-httpapi-idempotency-key-header: the key of a request and what tells its retry from another request. */
export interface IdempotencyKey {
  userId: string
  key: string
  fingerprint: Buffer
}

/** The answer that was given to a key. */
export interface StoredAnswer {
  fingerprint: Buffer
  orderId: string
  /** As it was sent, byte for byte. */
  json: string
}

const MAX_LENGTH = 255
const RETENTION_HOURS = 24
const DELETED_AT_ONCE = 5_000
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
  return { userId, key, fingerprint: hash('sha256', JSON.stringify(body), 'buffer') }
}

/** Text that is the same for the same key of the same customer, and for nothing else. */
export function nameOfKey({ userId, key }: Pick<IdempotencyKey, 'userId' | 'key'>): string {
  return `idempotency ${userId} ${key}`
}

/** The stored answers to earlier requests with these keys, by `nameOfKey`. The caller holds the locks of the keys. */
export async function findAnswers(tx: Transaction, keys: readonly IdempotencyKey[]): Promise<Map<string, StoredAnswer>> {
  if (keys.length === 0) return new Map()
  const { rows } = await tx.query<{
    user_id: string
    key: string
    fingerprint: Buffer
    order_id: string
    response: string
    number: number
    items: string
  }>({
    name: 'find_answers',
    // Lateral, so that each is looked up in the index: a plan made while the table was small would read all of it for long.
    text: `select wanted.user_id, wanted.key, stored.fingerprint, stored.order_id, stored.response, orders.number,
      orders.items::text as items
    from unnest($1::uuid[], $2::text[]) as wanted (user_id, key)
    cross join lateral (
      select fingerprint, order_id, response
      from idempotency_keys
      where user_id = wanted.user_id and key = wanted.key and created_at > now() - make_interval(hours => $3)
      limit 1
    ) as stored
    join orders on orders.id = stored.order_id`,
    values: [uuidArray(keys.map(({ userId }) => userId)), keys.map(({ key }) => key), RETENTION_HOURS],
  })
  return new Map(
    rows.map((row) => [
      nameOfKey({ userId: row.user_id, key: row.key }),
      { fingerprint: row.fingerprint, orderId: row.order_id, json: fillIn(row.response, String(row.number), row.items) },
    ]),
  )
}

/** Throws `idempotency_key_reused` unless the stored answer is one to the same request. */
export function assertSameRequest(answer: Pick<StoredAnswer, 'fingerprint'>, key: IdempotencyKey): void {
  if (answer.fingerprint.equals(key.fingerprint)) return
  throw new AppError('idempotency_key_reused', 'This Idempotency-Key was sent before with another body.')
}

/**
 * Keeps answers in the orders' own transaction, a pipelined one: there is never one without the other. Insists that no key has an answer
 * already, as those have not that were looked for.
 */
export function insertAnswers(
  tx: Transaction,
  answers: readonly { key: IdempotencyKey; orderId: string; frame: string }[],
): Promise<unknown> {
  if (answers.length === 0) return Promise.resolve()
  const statement = sql`with kept as (
      insert into idempotency_keys (user_id, key, fingerprint, order_id, response)
      select user_id, key, fingerprint, order_id, response
      from rows from (
          unnest(${uuidArray(answers.map(({ key }) => key.userId))}::uuid[]),
          unnest(${answers.map(({ key }) => key.key)}::text[]),
          unnest(${answers.map(({ key }) => `\\x${key.fingerprint.toString('hex')}`)}::bytea[]),
          unnest(${uuidArray(answers.map(({ orderId }) => orderId))}::uuid[]),
          ${textRows(answers.map(({ frame }) => frame))})
        as answer (user_id, key, fingerprint, order_id, response)
      where ${IS_IN_TRANSACTION}
      on conflict (user_id, key) do update
        set fingerprint = excluded.fingerprint, order_id = excluded.order_id, response = excluded.response, created_at = now()
        where idempotency_keys.created_at <= now() - make_interval(hours => ${RETENTION_HOURS})
      returning 1
    )
    select insist(count(*) = ${answers.length}) from kept`
  return tx.query(prepared(statement, 'insert_answers'))
}

/** Deletes keys that are no longer answered, some at a time, so that no lock lasts. Returns how many. */
export async function deleteExpiredKeys(pool: Pool): Promise<number> {
  let deleted = 0
  for (;;) {
    const { rowCount } = await pool.query(
      `delete from idempotency_keys
      where (user_id, key) in (
        select user_id, key from idempotency_keys where created_at <= now() - make_interval(hours => $1) limit $2 for update skip locked
      )`,
      [RETENTION_HOURS, DELETED_AT_ONCE],
    )
    deleted += rowCount ?? 0
    if ((rowCount ?? 0) < DELETED_AT_ONCE) return deleted
  }
}
