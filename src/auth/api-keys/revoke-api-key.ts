import { type AuditContext, recordActivity } from '../../activity/record-activity.ts'
import type { Pool, Transaction } from '../../db/pool.ts'
import { inTransaction } from '../../db/transaction.ts'
import { type ApiKey, findKeysMadeSince, lockApiKey, updateRevoked } from './api-keys.ts'

/** Ends a key and its secrets permanently. Idempotent: a revoked key stays unchanged. Throws `not_found`. */
export async function revokeApiKey(
  pool: Pool,
  id: string,
  { auditContext, now }: { auditContext: AuditContext; now: Date },
): Promise<ApiKey> {
  return inTransaction(pool, async (tx) => {
    const key = await lockApiKey(tx, id, now)
    if (key.state === 'revoked') return key
    return endKey(tx, key, { auditContext, now })
  })
}

/** Ends the keys that an account made at or after `since`. */
export async function revokeKeysOf(
  tx: Transaction,
  userId: string,
  { since, auditContext, now }: { since: Date; auditContext: AuditContext; now: Date },
): Promise<void> {
  for (const id of await findKeysMadeSince(tx, userId, since)) await endKey(tx, await lockApiKey(tx, id, now), { auditContext, now })
}

async function endKey(
  tx: Transaction,
  { id, state }: ApiKey,
  { auditContext, now }: { auditContext: AuditContext; now: Date },
): Promise<ApiKey> {
  const revoked = await updateRevoked(tx, id, now)
  await recordActivity(tx, auditContext, {
    subjectType: 'api_key',
    subjectId: id,
    before: { state },
    after: { state: 'revoked', revoked_reason: 'revoked' },
  })
  return revoked
}
