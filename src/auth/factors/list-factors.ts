import type { Pool } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { AccountCaller } from '../../http/caller.ts'
import { listPasskeys, type Passkey } from './passkeys.ts'
import { findSecondFactors } from './second-factors.ts'
import { findTotpSince } from './totp-authenticators.ts'

export async function listFactors(pool: Pool, { userId, role, sessionId }: AccountCaller) {
  const { isRequired, recoveryCodesLeft } = await findSecondFactors(pool, { id: userId, role })
  const totpSince = await findTotpSince(pool, userId)
  const { rows } = await pool.query<{ authenticated_at: Date | null; authenticated_by: string[] }>(
    sql`select authenticated_at, authenticated_by from sessions where id = ${sessionId}`,
  )
  return {
    second_factor_required: isRequired,
    totp: totpSince === null ? null : { created_at: totpSince.toISOString() },
    passkeys: (await listPasskeys(pool, userId)).map(presentPasskey),
    recovery_codes_left: recoveryCodesLeft,
    authenticated_at: rows[0]?.authenticated_at?.toISOString() ?? null,
    authenticated_by: rows[0]?.authenticated_by ?? [],
  }
}

export function presentPasskey({ id, name, created_at, last_used_at }: Passkey) {
  return { id, name, created_at: created_at.toISOString(), last_used_at: last_used_at?.toISOString() ?? null }
}
