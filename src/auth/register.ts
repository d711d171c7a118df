import { randomUUIDv7 } from 'node:crypto'
import type { Transaction } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import { AppError } from '../errors.ts'
import { assertNoLink } from '../http/link-in-text.ts'
import type { Language } from '../language.ts'
import type { Client } from './client.ts'
import type { AuthContext } from './context.ts'
import { parseEmail } from './email-address.ts'
import { findHolder } from './email-change/email-changes.ts'
import type { LoginResult } from './schemas.ts'
import { openSession } from './sessions.ts'
import { hashToken, newToken } from './tokens/opaque-token.ts'
import { insertUser, type User } from './users.ts'

const VERIFICATION_MS = 24 * 3_600_000

/**
 * Creates an account and signs it in. With e-mail verification, it only sends a mail, to new and taken addresses alike,
 * and returns null. Throws `email_taken` (without verification), `invalid_body`, `password_too_common`, `rate_limited`.
 */
export async function register(
  context: AuthContext,
  input: { email: string; password: string; name?: string; language?: Language },
  client: Client,
): Promise<LoginResult | null> {
  const { passwords, throttle, isVerificationRequired } = context
  const email = parseEmail(input.email)
  assertNoLink(input.name, '#/name')
  await passwords.assertAcceptable(input.password, email)
  await throttle.countRegistration(client, isVerificationRequired)
  const account = {
    ...{ email, name: input.name ?? null, language: input.language ?? client.language },
    ...{ passwordHash: await passwords.hash(input.password), isEmailVerified: false },
  }
  if (!isVerificationRequired) return openAccount(context, account, client)
  await sendVerification(context, account, client)
  client.record('registration_pending')
  return null
}

interface NewAccount {
  email: string
  name: string | null
  language: Language | null
  passwordHash: string
  isEmailVerified: boolean
}

async function openAccount(context: AuthContext, account: NewAccount, client: Client) {
  try {
    const { user, opened } = await inTransaction(context.pool, (tx) => insertAccount(tx, context, account, client))
    client.record('registered', { user_id: user.id, session_id: opened.sessionId })
    return { user, ...opened.tokenSet }
  } catch (error) {
    if (error instanceof AppError && error.code === 'email_taken') {
      client.record('registration_refused', { reason: error.code })
      await context.throttle.countTakenAddress(client)
    }
    throw error
  }
}

/** Inserts an account with its first session. Throws `email_taken`. */
export async function insertAccount(tx: Transaction, { tokens, now }: AuthContext, account: NewAccount, client: Client) {
  const { email, name, language } = account
  const user: User = { id: randomUUIDv7(), email, name, role: 'customer', language, created_at: now() }
  await insertUser(tx, user, account.passwordHash, account.isEmailVerified ? user.created_at : null)
  return { user, opened: await openSession(tx, tokens, user, client.userAgent, user.created_at) }
}

// New and taken addresses run the same statements, so neither the answer nor its time reveals which it is.
async function sendVerification({ pool, throttle, sendAccountMail, now }: AuthContext, account: NewAccount, client: Client): Promise<void> {
  const { email, language } = account
  const mayMail = await throttle.countRegistrationMail(client, email)
  const expiresAt = new Date(now().getTime() + VERIFICATION_MS)
  const token = newToken()
  await inTransaction(pool, async (tx) => {
    const holder = await findHolder(tx, email, { besides: null, now: now() })
    await tx.query(
      `insert into pending_registrations (token_hash, email, name, language, password_hash, expires_at)
      values ($1, $2, $3, $4, $5, $6)`,
      [hashToken(token), email, account.name, language, account.passwordHash, expiresAt],
    )
    if (!mayMail) await sendAccountMail(tx, { kind: 'none', expiresAt })
    else if (holder === null) await sendAccountMail(tx, { kind: 'verify_email', to: email, language, token, expiresAt })
    else {
      const kind = holder.isFormer ? 'address_in_use' : 'already_registered'
      await sendAccountMail(tx, { kind, to: email, language: holder.language, expiresAt })
    }
  })
}
