import { randomUUIDv7 } from 'node:crypto'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import type { Language } from '../language.ts'
import type { Client } from './client.ts'
import type { AuthContext } from './context.ts'
import { parseEmail } from './email-address.ts'
import type { LoginResult } from './schemas.ts'
import { openSession } from './sessions.ts'
import type { User } from './users.ts'

/** A guest that has ordered nothing is deleted so long after its creation, unless its session is used. */
const UNUSED_GUEST_DAYS = 7
const DAY_MS = 86_400_000

/**
 * Opens a session for an unproven address. The account is always new, and no other one is looked up: so neither the
 * answer nor its time shows whether the address has one. Throws `invalid_body`, `rate_limited`. See
 * docs/decisions/auth-guests.md.
 */
export async function createGuest(
  context: AuthContext,
  input: { email: string; language?: Language },
  client: Client,
): Promise<LoginResult> {
  const { pool, throttle, tokens, now } = context
  const email = parseEmail(input.email)
  await throttle.countGuest(client, email)
  const user: User = {
    id: randomUUIDv7(),
    email,
    name: null,
    role: 'guest',
    language: input.language ?? client.language,
    created_at: now(),
  }
  const expiresAt = new Date(user.created_at.getTime() + UNUSED_GUEST_DAYS * DAY_MS)
  const opened = await inTransaction(pool, async (tx) => {
    await tx.query(sql`insert into users (id, email, role, language, created_at, guest_expires_at)
      values (${user.id}, ${email}, 'guest', ${user.language}, ${user.created_at}, ${expiresAt})`)
    return openSession(tx, tokens, user, client.userAgent, user.created_at, [])
  })
  client.record('guest_created', { user_id: user.id, session_id: opened.sessionId })
  return { user, ...opened.tokenSet }
}
