import { createHmac } from 'node:crypto'
import { sql } from '../../db/sql.ts'
import { AppError } from '../../errors.ts'
import type { Client } from '../client.ts'
import { hashToken, newToken } from '../tokens/opaque-token.ts'
import { ProviderUnavailable } from './bounded-fetch.ts'
import type { Bindings, Provider, SignIns } from './provider.ts'

export const SIGN_IN_SECONDS = 600

/** Whether a sign-in opens a session, or links the person to the account of an existing session. */
export const PURPOSES = ['sign_in', 'link'] as const
export type Purpose = (typeof PURPOSES)[number]

/** The page that begins a sign-in. */
export interface Page {
  purpose: Purpose
  returnTo: string
  /** S256 (RFC 7636 §4.2) of a secret that only this page knows. */
  codeChallenge: string
}

/**
 * Begins a sign-in. Returns the browser's next address, and the token for its cookie, which binds the provider's answer
 * to the browser. If the provider does not answer, the address is the page with `#oidc-error=unavailable`, and the
 * token is null. Throws `invalid_query` for a page of another origin, `rate_limited`.
 */
export async function startSignIn(
  { auth: { pool, throttle, now }, returnOrigins }: SignIns,
  provider: Provider,
  page: Page,
  client: Client,
): Promise<{ location: string; token: string | null }> {
  await throttle.countSignIn(client)
  const returnTo = parseReturnTo(page.returnTo, returnOrigins)
  const token = newToken()
  const location = await findAuthorizationUrl(provider, bindingsOf(token, page.purpose), client)
  if (location === null) return { location: `${returnTo}#oidc-error=unavailable`, token: null }
  const expiresAt = new Date(now().getTime() + SIGN_IN_SECONDS * 1_000)
  await pool.query(sql`insert into oidc_sign_ins (token_hash, provider, return_to, code_challenge, expires_at)
    values (${hashToken(token)}, ${provider.settings.id}, ${returnTo}, ${page.codeChallenge}, ${expiresAt})`)
  return { location, token }
}

/**
 * State, nonce and code verifier, derived from a browser's token. The state depends on the purpose. It appears in
 * addresses but does not reveal the token.
 */
export function bindingsOf(token: string, purpose: Purpose): Bindings {
  const derive = (use: string) => createHmac('sha256', token).update(use).digest('base64url')
  return { state: derive(purpose === 'link' ? 'state of a link' : 'state'), nonce: derive('nonce'), codeVerifier: derive('code verifier') }
}

/** Returns null when the provider does not answer. */
async function findAuthorizationUrl(provider: Provider, bindings: Bindings, { language, record }: Client): Promise<string | null> {
  try {
    return await provider.authorizationUrl(bindings, language)
  } catch (error) {
    if (!(error instanceof ProviderUnavailable)) throw error
    record('oidc_refused', { reason: error.message })
    return null
  }
}

/** The URL parser's form of the address, so the check sees what the browser will open. */
function parseReturnTo(text: string, allowed: ReadonlySet<string>): string {
  const url = URL.canParse(text) ? new URL(text) : null
  const isPlain = url !== null && url.username === '' && url.password === '' && url.hash === ''
  if (isPlain && allowed.has(url.origin)) return url.href
  throw new AppError('invalid_query', 'A query parameter is not valid.', {
    errors: [{ parameter: 'return_to', detail: 'must be a page of the store or of an origin in CORS_ORIGINS, without a fragment' }],
  })
}
