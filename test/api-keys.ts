import { createApiKey, type KeyInput } from '../src/auth/api-keys/create-api-key.ts'
import type { Pool } from '../src/db/pool.ts'
import type { Scope } from '../src/http/scopes.ts'

const AUDIT_CONTEXT = { actor: { type: 'system', id: null }, action: 'keys create', requestId: null } as const

/** A key that a command has made. */
export async function makeKey(
  { pool }: { pool: Pool },
  scopes: readonly Scope[],
  { name = 'A scanner', expiresAt = null, now = new Date() }: Partial<KeyInput> & { now?: Date } = {},
): Promise<{ id: string; key: string }> {
  return createApiKey(pool, { name, scopes, expiresAt }, { auditContext: AUDIT_CONTEXT, now })
}
