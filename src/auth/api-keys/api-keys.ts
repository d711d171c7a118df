import type { Queryable, Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { AppError, notFound } from '../../errors.ts'
import { isScope, type Scope } from '../../http/scopes.ts'
import { hashToken } from '../tokens/opaque-token.ts'
import { formatKey, newSecret } from './key-text.ts'

/** A key as operators see it. Its secret is not stored. */
export interface ApiKey {
  id: string
  name: string
  state: 'active' | 'expired' | 'revoked'
  scopes: Scope[]
  /** The account that made it; null for a command. */
  created_by: string | null
  created_at: Date
  expires_at: Date | null
  last_used_at: Date | null
  /** The end of the previous secret's validity; null if only the current secret is valid. */
  previous_expires_at: Date | null
  revoked_at: Date | null
  revoked_reason: string | null
}

type ApiKeyRow = Omit<ApiKey, 'state' | 'scopes'> & { scopes: string[] }

/** `key` is the key's text, which is shown once. */
export type NewKey = ApiKey & { key: string }

const COLUMNS = sql`id, name, scopes, created_by, created_at, expires_at, last_used_at, previous_expires_at, revoked_at, revoked_reason`

export async function insertApiKey(
  tx: Transaction,
  key: Pick<ApiKey, 'id' | 'name' | 'scopes' | 'created_by' | 'expires_at'>,
  now: Date,
): Promise<NewKey> {
  const secret = newSecret()
  const { rows } = await tx.query<ApiKeyRow>(
    sql`insert into api_keys (id, name, scopes, secret_hash, created_by, created_at, expires_at)
    values (${key.id}, ${key.name}, ${key.scopes}, ${hashToken(secret)}, ${key.created_by}, ${now}, ${key.expires_at})
    returning ${COLUMNS}`,
  )
  return { ...toApiKey(rows[0] as ApiKeyRow, now), key: formatKey({ id: key.id, secret }) }
}

/** Replaces the secret. The current secret stays valid until `previousExpiresAt`; an older one ends. */
export async function replaceSecret(tx: Transaction, id: string, previousExpiresAt: Date, now: Date): Promise<NewKey> {
  const secret = newSecret()
  const { rows } = await tx.query<ApiKeyRow>(
    sql`update api_keys
    set secret_hash = ${hashToken(secret)}, previous_secret_hash = secret_hash, previous_expires_at = ${previousExpiresAt}
    where id = ${id}
    returning ${COLUMNS}`,
  )
  return { ...toApiKey(rows[0] as ApiKeyRow, now), key: formatKey({ id, secret }) }
}

export async function updateRevoked(tx: Transaction, id: string, now: Date): Promise<ApiKey> {
  const { rows } = await tx.query<ApiKeyRow>(
    sql`update api_keys
    set revoked_at = ${now}, revoked_reason = 'revoked', previous_secret_hash = null, previous_expires_at = null
    where id = ${id}
    returning ${COLUMNS}`,
  )
  return toApiKey(rows[0] as ApiKeyRow, now)
}

/** The ids of an account's unrevoked keys that were made at or after `since`. */
export async function findKeysMadeSince(db: Queryable, userId: string, since: Date): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    sql`select id from api_keys where created_by = ${userId} and created_at >= ${since} and revoked_at is null order by id`,
  )
  return rows.map(({ id }) => id)
}

/** Locks and returns a key until `tx` ends. Throws `not_found`. */
export async function lockApiKey(tx: Transaction, id: string, now: Date): Promise<ApiKey> {
  const { rows } = await tx.query<ApiKeyRow>(sql`select ${COLUMNS} from api_keys where id = ${id} for no key update`)
  if (rows[0] === undefined) throw notFound('API key')
  return toApiKey(rows[0], now)
}

/** Throws `api_key_ended` for a revoked or expired key. */
export function assertActive({ state }: ApiKey): void {
  if (state === 'active') return
  const reason = state === 'expired' ? 'has expired' : 'is revoked'
  throw new AppError('api_key_ended', `The API key ${reason}: make another one.`)
}

export async function countActiveKeys(db: Queryable, now: Date): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    sql`select count(*)::int as count from api_keys where revoked_at is null and (expires_at is null or expires_at > ${now})`,
  )
  return rows[0]?.count ?? 0
}

/** Lists the keys after `after`, the newest first, including ended ones. */
export async function listApiKeys(
  db: Queryable,
  { after = null, limit }: { after?: string | null | undefined; limit: number },
  now: Date,
): Promise<ApiKey[]> {
  const { rows } = await db.query<ApiKeyRow>(
    sql`select ${COLUMNS}
    from api_keys
    where ${after}::uuid is null or id < ${after}
    order by id desc
    limit ${limit}`,
  )
  return rows.map((row) => toApiKey(row, now))
}

function toApiKey(row: ApiKeyRow, now: Date): ApiKey {
  const { previous_expires_at: previous } = row
  const hasExpired = row.expires_at !== null && row.expires_at <= now
  return {
    ...row,
    state: row.revoked_at !== null ? 'revoked' : hasExpired ? 'expired' : 'active',
    // A process of the previous release knows fewer scopes.
    scopes: row.scopes.filter(isScope),
    previous_expires_at: previous !== null && previous > now ? previous : null,
  }
}

export const KEY_NAME_LENGTH = 100
/** One line of visible text without surrounding blanks. */
export const KEY_NAME_PATTERN = '^(?=\\S)[^\\p{Cc}\\p{Cf}]*(?<=\\S)$'

const NAME = new RegExp(KEY_NAME_PATTERN, 'u')

export function isKeyName(text: string): boolean {
  return text.length >= 1 && [...text].length <= KEY_NAME_LENGTH && text.isWellFormed() && NAME.test(text)
}
