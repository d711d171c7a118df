import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { type Client, clientOf } from '../auth/client.ts'
import type { AuthContext } from '../auth/context.ts'
import { EMAIL_MAX_LENGTH } from '../auth/email-address.ts'
import { asAssertion, asProof, PasskeySignIn, SecondFactorSchema } from '../auth/factors/schemas.ts'
import { completeSignIn, signInWithPasskey } from '../auth/factors/sign-in.ts'
import { login } from '../auth/login.ts'
import { refresh } from '../auth/refresh.ts'
import { type LoginResult, PresentedPassword, strict, type TokenSet } from '../auth/schemas.ts'
import { findOperatorTokens, revokeSessionsOfTokens } from '../auth/sessions.ts'
import { AppError } from '../errors.ts'
import { defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { isOperatorRole } from '../http/scopes.ts'

const Credentials = Type.Object({ email: Type.String({ maxLength: EMAIL_MAX_LENGTH }), password: PresentedPassword }, strict)
const TOKEN = /^[\w-]{43}$/

export interface ConsoleSessionOptions {
  auth: AuthContext
  /** The public address, which decides whether the cookie needs TLS, and its path. */
  baseUrl: string
  basePath: string
  /** The shop's, in which the page shows times. */
  timeZone: string
}

/**
 * The sessions of the console's page. They are sessions as any other, but the refresh token is in a cookie that no script can read
 * (OWASP ASVS 5.0, 3.3): the page gets access tokens only, and keeps them in memory. The page calls these routes; they are no part of the API's document.
 */
export function consoleSessionRoutes(server: HttpServer, { auth, baseUrl, basePath, timeZone }: ConsoleSessionOptions): void {
  const name = cookieName(baseUrl)
  const attributes = `Path=${basePath}/console/session; HttpOnly; SameSite=Strict${isSecure(baseUrl) ? '; Secure' : ''}`
  const setCookie = (token: string, seconds: number) => ({ 'set-cookie': `${name}=${token}; Max-Age=${seconds}; ${attributes}` })
  const clearCookie = setCookie('', 0)
  const assertSameOrigin = (request: FastifyRequest) => {
    if (!isSameOrigin(request, baseUrl)) throw new AppError('forbidden', 'Only the page of the console may do this.')
  }

  /** Answers with the access token, and sets the cookie, after any way of signing in. */
  const answerOpened = async (request: FastifyRequest, reply: FastifyReply, opened: LoginResult) => {
    if (!isOperatorRole(opened.user.role)) {
      await endSessions(auth, [opened.refresh_token])
      throw new AppError('forbidden', 'This account is no operator. `storefront admin create` makes one.')
    }
    // The cookie that this one replaces.
    await endSessions(auth, readCookies(request, name))
    return reply
      .headers({ ...setCookie(opened.refresh_token, opened.refresh_expires_in) })
      .send({ ...presentAccess(opened, timeZone), email: opened.user.email } as never)
  }

  defineRoute(server, 'POST /console/session', { access: 'public', cost: 'console_sign_in', body: Credentials }, async (request, reply) => {
    assertSameOrigin(request)
    return answerOpened(request, reply, await login(auth, request.body, clientOf(request)))
  })

  defineRoute(
    server,
    'POST /console/session/second-factor',
    { access: 'public', cost: 'console_sign_in', body: SecondFactorSchema },
    async (request, reply) => {
      assertSameOrigin(request)
      return answerOpened(request, reply, await completeSignIn(auth, asProof(request.body), clientOf(request)))
    },
  )

  defineRoute(
    server,
    'POST /console/session/passkey',
    { access: 'public', cost: 'console_sign_in', body: PasskeySignIn },
    async (request, reply) => {
      assertSameOrigin(request)
      return answerOpened(request, reply, await signInWithPasskey(auth, asAssertion(request.body.passkey), clientOf(request)))
    },
  )

  // 204 without a session, not 401: having none is how the page starts.
  defineRoute(server, 'POST /console/session/refresh', { access: 'public', cost: 'console_sign_in' }, async (request, reply) => {
    assertSameOrigin(request)
    const presented = readCookies(request, name)
    if (presented.length === 0) return reply.code(204).send()
    for (const token of await findOperatorTokens(auth.pool, presented)) {
      const tokens = await refreshUnlessRefused(auth, token, clientOf(request))
      if (tokens === null) continue
      return reply.headers(setCookie(tokens.refresh_token, tokens.refresh_expires_in)).send(presentAccess(tokens, timeZone) as never)
    }
    await endSessions(auth, presented)
    return reply.headers(clearCookie).code(204).send()
  })

  defineRoute(server, 'DELETE /console/session', { access: 'public', cost: 'console_sign_in' }, async (request, reply) => {
    assertSameOrigin(request)
    await endSessions(auth, readCookies(request, name))
    return reply
      .headers({ ...clearCookie })
      .code(204)
      .send()
  })
}

function presentAccess({ token_type, access_token, expires_in }: TokenSet, timeZone: string) {
  return { token_type, access_token, expires_in, time_zone: timeZone }
}

async function refreshUnlessRefused(auth: AuthContext, token: string, client: Client): Promise<TokenSet | null> {
  try {
    return await refresh(auth, token, client)
  } catch (error) {
    if (error instanceof AppError && error.code === 'invalid_refresh_token') return null
    throw error
  }
}

async function endSessions({ pool, revocations, now }: AuthContext, refreshTokens: readonly string[]): Promise<void> {
  if (refreshTokens.length === 0) return
  for (const sessionId of await revokeSessionsOfTokens(pool, refreshTokens, now())) revocations.add(sessionId)
}

function isSecure(baseUrl: string): boolean {
  return baseUrl.startsWith('https:')
}

/**
 * The name has the port, because cookies ignore it: stores on one host have a session each. A page without TLS cannot
 * set this cookie of a store with TLS (RFC 6265bis).
 */
function cookieName(baseUrl: string): string {
  const port = new URL(baseUrl).port || (isSecure(baseUrl) ? '443' : '80')
  return `${isSecure(baseUrl) ? '__Secure-' : ''}storefront_console_${port}`
}

/** Every token of that name: a page of another subdomain can add a cookie, and must not hide ours. */
function readCookies({ headers: { cookie = '' } }: FastifyRequest, name: string): string[] {
  const values = cookie.split(/; */).flatMap((pair) => (pair.startsWith(`${name}=`) ? [pair.slice(name.length + 1)] : []))
  return [...new Set(values)].filter((value) => TOKEN.test(value))
}

/**
 * A page of another site cannot use the cookie: browsers send `Origin` with every POST and DELETE, and no script can change it.
 * Besides BASE_URL, the address that the request was sent to counts, such as localhost through a tunnel; `consoleRoutes` refuses other hosts.
 */
function isSameOrigin({ headers: { origin, host }, protocol }: FastifyRequest, baseUrl: string): boolean {
  return origin !== undefined && (origin === new URL(baseUrl).origin || origin === `${protocol}://${host}`)
}
