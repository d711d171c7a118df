import { type AuditContext, recordActivity } from '../../activity/record-activity.ts'
import type { Pool } from '../../db/pool.ts'
import { inTransaction } from '../../db/transaction.ts'
import { AppError } from '../../errors.ts'
import { assertActive, lockApiKey, type NewKey, replaceSecret } from './api-keys.ts'

export const DEFAULT_OVERLAP_SECONDS = 86_400
/** A week. */
export const MAX_OVERLAP_SECONDS = 604_800

/**
 * Gives a key another secret. The current secret stays valid for `overlapSeconds`, so machines can change one by one;
 * an older secret ends. Operators rotate only their own keys, because a key ends with its maker's account. Throws
 * `not_found`, `api_key_ended` and `forbidden`.
 */
export async function rotateApiKey(
  pool: Pool,
  id: string,
  overlapSeconds: number,
  { auditContext, now }: { auditContext: AuditContext; now: Date },
): Promise<NewKey> {
  return inTransaction(pool, async (tx) => {
    const present = await lockApiKey(tx, id, now)
    assertActive(present)
    if (auditContext.actor.type !== 'system' && present.created_by !== auditContext.actor.id) {
      throw new AppError(
        'forbidden',
        "Only the key's maker or `storefront keys rotate` can give the key another secret. Revoke the key and make another one.",
      )
    }
    const key = await replaceSecret(tx, id, new Date(now.getTime() + overlapSeconds * 1000), now)
    const after = { previous_secret_expires_at: key.previous_expires_at }
    await recordActivity(tx, auditContext, { subjectType: 'api_key', subjectId: key.id, before: null, after })
    return key
  })
}
