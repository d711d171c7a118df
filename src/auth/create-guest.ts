import { randomUUIDv7 } from 'node:crypto'
import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import type { Language } from '../language.ts'
import type { Client } from './client.ts'
import type { AuthContext } from './context.ts'
import { parseEmail } from './email-address.ts'
import type { LoginResult } from './schemas.ts'
import { openSession } from './sessions.ts'
import { MAX_GUESTS } from './take-over-guests.ts'
import type { User } from './users.ts'

/** How long a guest without orders and with an unused session is kept. */
const UNUSED_GUEST_DAYS = 7
const DAY_MS = 86_400_000

/**
 * Opens a session for an unproven address. The account is always new and no other account is read, so neither the
 * answer nor its time shows whether the address has an account. Throws `invalid_body`, `rate_limited`. See
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
  const expiresAt = expiryOf(user.created_at)
  const opened = await inTransaction(pool, async (tx) => {
    await tx.query(sql`insert into users (id, email, role, language, created_at, guest_expires_at)
      values (${user.id}, ${email}, 'guest', ${user.language}, ${user.created_at}, ${expiresAt})`)
    return openSession(tx, tokens, user, client.userAgent, user.created_at, [])
  })
  client.record('guest_created', { user_id: user.id, session_id: opened.sessionId })
  return { user, ...opened.tokenSet }
}

/**
 * The guest for orders that operators place for an address: one for each address and owner. A customer whose account
 * has proven the address owns the guest. Nobody has signed in as it or ordered with it. So a guest who merely typed the
 * address sees none of its orders, and the block of that guest does not count for it.
 */
export async function ensureGuest(
  pool: Pool,
  { email, language, now }: { email: string; language: Language | null; now: Date },
): Promise<string> {
  const account = sql`select id
    from users
    where email = ${email} and role = 'customer' and email_verified_at is not null
      and (select count(*) from users as owned where owned.owner_id = users.id) < ${MAX_GUESTS}`
  return inTransaction(pool, async (tx) => {
    // Operators at once find the same guest.
    await tx.query(sql`select pg_advisory_xact_lock(hashtextextended(${`storefront guest ${email}`}, 0))`)
    const { rows } = await tx.query<{ id: string }>(
      sql`update users
      set language = coalesce(${language}, language), guest_expires_at = case when guest_expires_at is not null then ${expiryOf(now)}::timestamptz end
      where id = (
        select id
        from users as guest
        where email = ${email} and role = 'guest' and owner_id is not distinct from (${account})
          and not exists (select from sessions where user_id = guest.id)
          and not exists (
            select from orders
            where user_id = guest.id and (orders.email <> guest.email or status_history -> 0 -> 'actor' ->> 'type' = 'customer')
          )
          and (blocked_at is null or exists (select from orders where user_id = guest.id))
        order by created_at, id
        limit 1
      )
      returning id`,
    )
    if (rows[0] !== undefined) return rows[0].id
    const id = randomUUIDv7()
    // The account cannot be erased before the guest is stored.
    await tx.query(
      sql`with account as (${account} for key share)
      insert into users (id, email, role, language, created_at, guest_expires_at, owner_id)
      values (${id}, ${email}, 'guest', ${language}, ${now}, ${expiryOf(now)}, (select id from account))`,
    )
    return id
  })
}

function expiryOf(createdAt: Date): Date {
  return new Date(createdAt.getTime() + UNUSED_GUEST_DAYS * DAY_MS)
}
