import { timingSafeEqual } from 'node:crypto'
import * as oidc from 'openid-client'
import type { Pool } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { inTransaction } from '../../db/transaction.ts'
import { AppError } from '../../errors.ts'
import type { Client } from '../client.ts'
import { hashToken, newToken } from '../tokens/opaque-token.ts'
import { findUnavailable } from './bounded-fetch.ts'
import { identify, type Refusal } from './identify.ts'
import { type Bindings, type Claims, type Provider, reasonOf, type SignIns } from './provider.ts'
import { bindingsOf, PURPOSES, type Purpose } from './start-sign-in.ts'

const CODE_MS = 60_000
/** Linking needs recent authentication, for which the page may have to ask the customer. */
const LINK_CODE_MS = 300_000

/** The failure that the page gets: the person declined, the provider was unavailable, or its answer failed a check. */
type Failure = Refusal | 'denied' | 'unavailable' | 'failed'

/**
 * Finishes a sign-in with the query of the provider's redirect. Returns the browser's next address: the page that
 * began, with `#oidc-code=`, `#oidc-link-code=` or `#oidc-error=`. Throws `invalid_sign_in` unless this browser began
 * it with this provider, and for a second use.
 */
export async function finishSignIn(
  { auth }: SignIns,
  provider: Provider,
  browser: { tokens: readonly string[]; search: string },
  client: Client,
): Promise<string> {
  const state = new URLSearchParams(browser.search).get('state') ?? ''
  const started = findStarted(browser.tokens, state)
  const page = started === null ? null : await takeStarted(auth.pool, started.token, provider.settings.id, auth.now())
  if (started === null || page === null) {
    client.record('oidc_refused', { reason: 'not begun by this browser, or over' })
    throw new AppError(
      'invalid_sign_in',
      'This browser did not begin this sign-in, or the sign-in has ended or took too long. Begin again.',
    )
  }
  const outcome = await readClaims(provider, browser.search, bindingsOf(started.token, started.purpose))
  if (!('failure' in outcome) && started.purpose === 'link')
    return `${page.return_to}#oidc-link-code=${await openLinkCode(auth, outcome.claims, page.code_challenge)}`
  const result = 'failure' in outcome ? outcome : await openCode(auth, outcome.claims, page.code_challenge, client)
  if ('code' in result) return `${page.return_to}#oidc-code=${result.code}`
  client.record('oidc_refused', { reason: result.reason })
  return `${page.return_to}#oidc-error=${result.failure}`
}

/** The browser's token from which the state was derived, and the sign-in's purpose. */
function findStarted(tokens: readonly string[], state: string): { token: string; purpose: Purpose } | null {
  for (const token of tokens) {
    const purpose = PURPOSES.find((known) => isSame(bindingsOf(token, known).state, state))
    if (purpose !== undefined) return { token, purpose }
  }
  return null
}

interface StartedPage {
  return_to: string
  code_challenge: string
}

/** Deletes the sign-in, so an answer counts once. */
async function takeStarted(pool: Pool, token: string, provider: string, now: Date): Promise<StartedPage | null> {
  const { rows } = await pool.query<StartedPage>(
    sql`delete from oidc_sign_ins
    where token_hash = ${hashToken(token)} and provider = ${provider} and expires_at > ${now}
    returning return_to, code_challenge`,
  )
  return rows[0] ?? null
}

interface Failed {
  failure: Failure
  reason: string
}

async function readClaims(provider: Provider, search: string, bindings: Bindings): Promise<{ claims: Claims } | Failed> {
  try {
    return { claims: await provider.readClaims(search, bindings) }
  } catch (error) {
    const unavailable = findUnavailable(error)
    if (unavailable !== null) return { failure: 'unavailable', reason: unavailable.message }
    if (error instanceof oidc.AuthorizationResponseError) {
      return { failure: error.error === 'access_denied' ? 'denied' : 'failed', reason: 'the provider refused' }
    }
    const isKnown =
      error instanceof oidc.ClientError || error instanceof oidc.ResponseBodyError || error instanceof oidc.WWWAuthenticateChallengeError
    if (!isKnown) throw error
    return { failure: 'failed', reason: reasonOf(error) }
  }
}

async function openCode(auth: SignIns['auth'], claims: Claims, codeChallenge: string, client: Client): Promise<{ code: string } | Failed> {
  try {
    const code = newToken()
    const expiresAt = new Date(auth.now().getTime() + CODE_MS)
    const identified = await inTransaction(auth.pool, async (tx) => {
      const found = await identify(tx, auth, claims, client)
      if ('refusal' in found) return found
      await tx.query(sql`insert into oidc_codes (code_hash, user_id, code_challenge, expires_at)
        values (${hashToken(code)}, ${found.userId}, ${codeChallenge}, ${expiresAt})`)
      return found
    })
    if ('refusal' in identified) return { failure: identified.refusal, reason: identified.refusal }
    auth.revocations.add(...identified.endedSessions)
    if (identified.isNew) client.record('registered', { user_id: identified.userId })
    return { code }
  } catch (error) {
    // Another request registered the address at this moment. The next attempt finds that account.
    if (error instanceof AppError && error.code === 'email_taken') return { failure: 'failed', reason: error.code }
    throw error
  }
}

/** Makes the code for `linkSignIn`. The session that presents the code determines the account. */
async function openLinkCode({ pool, now }: SignIns['auth'], { issuer, subject }: Claims, codeChallenge: string): Promise<string> {
  const code = newToken()
  await pool.query(sql`insert into oidc_codes (code_hash, issuer, subject, code_challenge, expires_at)
    values (${hashToken(code)}, ${issuer}, ${subject}, ${codeChallenge}, ${new Date(now().getTime() + LINK_CODE_MS)})`)
  return code
}

function isSame(expected: string, presented: string): boolean {
  const [a, b] = [Buffer.from(expected), Buffer.from(presented)]
  return a.length === b.length && timingSafeEqual(a, b)
}
