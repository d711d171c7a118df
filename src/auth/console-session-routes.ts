import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { AppError } from '../errors.ts'
import { defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { isOperatorRole, ROLE_SCOPES } from '../http/scopes.ts'
import { type Client, clientOf } from './client.ts'
import type { AuthContext } from './context.ts'
import { EMAIL_MAX_LENGTH } from './email-address.ts'
import { asAssertion, asProof, PasskeySignIn, SecondFactorSchema } from './factors/schemas.ts'
import { completeSignIn, signInWithPasskey } from './factors/sign-in.ts'
import { login } from './login.ts'
import { refresh } from './refresh.ts'
import { type LoginResult, PresentedPassword, strict, type TokenSet } from './schemas.ts'
import { findOperatorTokens, revokeSessionsOfTokens } from './sessions.ts'

const Credentials = Type.Object({ email: Type.String({ maxLength: EMAIL_MAX_LENGTH }), password: PresentedPassword }, strict)
const TOKEN = /^[\w-]{43}$/

export interface ConsoleSessionOptions {
  auth: AuthContext
  /** The public address. It decides whether the cookie needs TLS. */
  baseUrl: string
  basePath: string
  /** The shop's time zone, in which the page shows times. */
  timeZone: string
}

/**
 * Sessions of the console's page. They are usual sessions, but their refresh token is in a cookie that scripts cannot
 * read (OWASP ASVS 5.0, 3.3). The page keeps only access tokens, in memory. The OpenAPI document omits these routes.
 */
export function consoleSessionRoutes(server: HttpServer, { auth, baseUrl, basePath, timeZone }: ConsoleSessionOptions): void {
  const name = cookieName(baseUrl)
  const { origin, pathname } = new URL(baseUrl)
  const security = `HttpOnly; SameSite=Strict${isSecure(baseUrl) ? '; Secure' : ''}`
  const setCookie = (request: FastifyRequest, token: string, seconds: number) => {
    // A proxy can remove the path of BASE_URL. Who calls the store without the proxy sees its own path.
    const path = request.headers.origin === origin ? pathname.replace(/\/$/, '') : basePath
    return { 'set-cookie': `${name}=${token}; Max-Age=${seconds}; Path=${path}/console/session; ${security}` }
  }
  const clearCookie = (request: FastifyRequest) => setCookie(request, '', 0)
  const assertSameOrigin = (request: FastifyRequest) => {
    if (!isSameOrigin(request, origin)) throw new AppError('forbidden', 'Only the page of the console may do this.')
  }

  /** Answers every way of signing in with the access token, and sets the cookie. */
  const answerOpened = async (request: FastifyRequest, reply: FastifyReply, opened: LoginResult) => {
    if (!isOperatorRole(opened.user.role)) {
      await endSessions(auth, [opened.refresh_token])
      throw new AppError('forbidden', 'This account is no operator. `storefront admin create` makes one.')
    }
    // Ends the session of the replaced cookie.
    await endSessions(auth, readCookies(request, name))
    return reply
      .headers({ ...setCookie(request, opened.refresh_token, opened.refresh_expires_in) })
      .send({ ...(await presentAccess(auth, opened, timeZone)), email: opened.user.email } as never)
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

  // Answers 204 without a session, since the page starts without one.
  defineRoute(server, 'POST /console/session/refresh', { access: 'public', cost: 'console_sign_in' }, async (request, reply) => {
    assertSameOrigin(request)
    const presented = readCookies(request, name)
    if (presented.length === 0) return reply.code(204).send()
    for (const token of await findOperatorTokens(auth.pool, presented)) {
      const tokens = await refreshUnlessRefused(auth, token, clientOf(request))
      if (tokens === null) continue
      const access = await presentAccess(auth, tokens, timeZone)
      return reply.headers(setCookie(request, tokens.refresh_token, tokens.refresh_expires_in)).send(access as never)
    }
    await endSessions(auth, presented)
    return reply.headers(clearCookie(request)).code(204).send()
  })

  defineRoute(server, 'DELETE /console/session', { access: 'public', cost: 'console_sign_in' }, async (request, reply) => {
    assertSameOrigin(request)
    await endSessions(auth, readCookies(request, name))
    return reply.headers(clearCookie(request)).code(204).send()
  })
}

/** The page decides by this answer alone which screens the operator may use. */
async function presentAccess({ tokens, now }: AuthContext, { token_type, access_token, expires_in }: TokenSet, timeZone: string) {
  const { userId, role } = await tokens.verify(access_token, now())
  return { token_type, access_token, expires_in, time_zone: timeZone, operator: { id: userId, role, scopes: ROLE_SCOPES[role] } }
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
 * The name contains the port, because cookies ignore it, so several stores on one host have separate sessions. A page
 * without TLS cannot set the cookie of a store with TLS (RFC 6265bis).
 */
function cookieName(baseUrl: string): string {
  const port = new URL(baseUrl).port || (isSecure(baseUrl) ? '443' : '80')
  return `${isSecure(baseUrl) ? '__Secure-' : ''}storefront_console_${port}`
}

/** Every token with that name. A page on another subdomain can add a cookie, which must not hide ours. */
function readCookies({ headers: { cookie = '' } }: FastifyRequest, name: string): string[] {
  const values = cookie.split(/; */).flatMap((pair) => (pair.startsWith(`${name}=`) ? [pair.slice(name.length + 1)] : []))
  return [...new Set(values)].filter((value) => TOKEN.test(value))
}

/**
 * Prevents other sites from using the cookie. Browsers send `Origin` with every POST and DELETE, and scripts cannot
 * change it. Besides BASE_URL, the request's own address is allowed, such as localhost through a tunnel; `createApi`
 * refuses other hosts.
 */
function isSameOrigin({ headers: { origin, host }, protocol }: FastifyRequest, own: string): boolean {
  return origin !== undefined && (origin === own || origin === `${protocol}://${host}`)
}
