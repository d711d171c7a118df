import { randomUUIDv7 } from 'node:crypto'
import { type AuditContext, recordActivity } from '../../activity/record-activity.ts'
import type { Pool, Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { inTransaction } from '../../db/transaction.ts'
import { AppError } from '../../errors.ts'
import { invalidBody } from '../../http/problem.ts'
import { type AccountRole, permits, type Scope } from '../../http/scopes.ts'
import { invalidToken } from '../tokens/access-token.ts'
import { countActiveKeys, insertApiKey, type NewKey } from './api-keys.ts'

/** The number is limited, because every API process keeps all keys in memory. */
export const MAX_ACTIVE_KEYS = 500
/** Two years, so forgotten keys end. */
const MAX_LIFETIME_MS = 731 * 86_400_000

export interface KeyInput {
  name: string
  scopes: readonly Scope[]
  /** The key's end; null if it is valid until revoked. */
  expiresAt: Date | null
}

/** `auditContext.actor` is an operator or a command. */
interface Maker {
  auditContext: AuditContext
  now: Date
}

/**
 * Makes a key and returns its text, which is not stored. Throws `forbidden` for a scope that the maker lacks,
 * `invalid_body` for an expiry in the past or in more than two years, and `too_many_api_keys`.
 */
export async function createApiKey(pool: Pool, { name, scopes, expiresAt }: KeyInput, { auditContext, now }: Maker): Promise<NewKey> {
  assertExpiry(expiresAt, now)
  return inTransaction(pool, async (tx) => {
    const { actor } = auditContext
    // The lock delays a change of the role, which then finds this key.
    const role = actor.type === 'admin' && actor.id !== null ? await lockRole(tx, actor.id) : null
    if (actor.type === 'key') throw new AppError('forbidden', 'API keys cannot make API keys. Use the session of an account.')
    if (role !== null) assertHasScopes(role, scopes)
    await tx.query(`select pg_advisory_xact_lock(hashtextextended('storefront api keys', 0))`)
    if ((await countActiveKeys(tx, now)) >= MAX_ACTIVE_KEYS) {
      throw new AppError('too_many_api_keys', `There are ${MAX_ACTIVE_KEYS} active API keys. Revoke those that nothing uses.`)
    }
    const createdBy = role === null ? null : actor.id
    const key = await insertApiKey(
      tx,
      { id: randomUUIDv7(), name, scopes: [...new Set(scopes)].sort(), created_by: createdBy, expires_at: expiresAt },
      now,
    )
    const after = { scopes: key.scopes, expires_at: key.expires_at }
    await recordActivity(tx, auditContext, { subjectType: 'api_key', subjectId: key.id, before: null, after })
    return key
  })
}

async function lockRole(tx: Transaction, userId: string): Promise<AccountRole> {
  const { rows } = await tx.query<{ role: AccountRole }>(sql`select role from users where id = ${userId} for share`)
  if (rows[0] === undefined) throw invalidToken()
  return rows[0].role
}

function assertHasScopes(role: AccountRole, scopes: readonly Scope[]): void {
  const lacking = scopes.find((scope) => !permits(role, scope))
  if (lacking === undefined) return
  throw new AppError('forbidden', `A key cannot have a scope that its maker lacks: you lack ${lacking}.`, {
    members: { required_scope: lacking },
  })
}

function assertExpiry(expiresAt: Date | null, now: Date): void {
  if (expiresAt === null) return
  const lifetimeMs = expiresAt.getTime() - now.getTime()
  if (lifetimeMs > 0 && lifetimeMs <= MAX_LIFETIME_MS) return
  const message = '`expires_at` must be in the future and within two years.'
  throw invalidBody('#/expires_at', 'must be in the future, and within two years', message)
}
