import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { notFound } from '../../errors.ts'
import { callerOf } from '../../http/caller.ts'
import { defineRoute } from '../../http/define-route.ts'
import type { HttpServer } from '../../http/http-server.ts'
import { clientOf } from '../client.ts'
import { EXAMPLE_OIDC_CODE, EXAMPLE_PROVIDER_LIST } from '../examples.ts'
import { LinkedSignInSchema, LoggedIn, presentSignIn, strict, Token } from '../schemas.ts'
import { exchangeCode } from './exchange-code.ts'
import { finishSignIn } from './finish-sign-in.ts'
import { linkSignIn, unlinkSignIn } from './link-sign-in.ts'
import type { Provider, SignIns } from './provider.ts'
import { refusalPages } from './refusal-page.ts'
import { PURPOSES, SIGN_IN_SECONDS, startSignIn } from './start-sign-in.ts'

const TOKEN = /^[A-Za-z0-9_-]{43}$/

export function oidcRoutes(server: HttpServer, signIns: SignIns, baseUrl: string): void {
  const { auth, providers } = signIns
  const cookie = cookieOf(baseUrl)

  defineRoute(
    server,
    'GET /auth/oidc',
    {
      access: 'public',
      cost: 'memory',
      operationId: 'listSignInProviders',
      summary: 'The providers with which customers can sign in',
      description: 'The providers in the settings of the store. The list is often empty.',
      answers: { 200: [ProviderListSchema, 'Every provider.'] },
      refuses: ['malformed_request'],
    },
    async () => {
      const data = [...providers.values()].map(({ settings: { id, name, issuer } }) => ({ id, name, issuer }))
      return { data }
    },
  )

  const origins = [...signIns.returnOrigins]
  const pages = refusalPages(origins.length > 2 ? null : `${origins.at(-1)}/`)

  defineRoute(
    server,
    'GET /auth/oidc/:provider/authorize',
    {
      access: 'public',
      cost: 'provider',
      refusalPages: pages,
      operationId: 'startProviderSignIn',
      summary: 'Leads the browser to a provider',
      description:
        'Send the browser there with `location.href`, not with `fetch`. If the provider does not answer, the browser returns to `return_to#oidc-error=unavailable`. ' +
        'A refusal is an HTML page if the request accepts `text/html`.',
      params: ProviderParams,
      query: StartQuery,
      answers: { 303: '`Location` leads to the provider. A cookie binds its answer to this browser.' },
      refuses: ['malformed_request', 'rate_limited'],
    },
    async (request, reply) => {
      const { return_to, code_challenge, purpose = 'sign_in' } = request.query
      const page = { purpose, returnTo: return_to, codeChallenge: code_challenge }
      const { location, token } = await startSignIn(signIns, getProvider(providers, request.params.provider), page, clientOf(request))
      return reply
        .headers({ ...NAVIGATION, location, ...(token === null ? {} : { 'set-cookie': cookie.set(token) }) })
        .code(303)
        .send(undefined as never)
    },
  )

  // Providers add their own parameters to the query.
  defineRoute(
    server,
    'GET /auth/oidc/:provider/callback',
    {
      access: 'public',
      cost: 'provider',
      refusalPages: pages,
      operationId: 'finishProviderSignIn',
      summary: 'Leads the browser from a provider back to the page that began the sign-in',
      description:
        'Register this address at the provider, which sends the browser here with `code` and `state`, or with `error`. It works once for each sign-in, with the cookie of ' +
        '`startProviderSignIn`. A refusal is an HTML page if the request accepts `text/html`.',
      params: ProviderParams,
      answers: { 303: '`Location` leads to `return_to` with `#oidc-code=…`, `#oidc-link-code=…` or `#oidc-error=…`.' },
      refuses: ['malformed_request', 'invalid_sign_in'],
    },
    async (request, reply) => {
      const provider = getProvider(providers, request.params.provider)
      const [, search = ''] = request.url.split(/(?=\?)/, 2)
      const location = await finishSignIn(signIns, provider, { tokens: cookie.read(request), search }, clientOf(request))
      return reply
        .headers({ ...NAVIGATION, location, 'set-cookie': cookie.clear })
        .code(303)
        .send(undefined as never)
    },
  )

  defineRoute(
    server,
    'POST /auth/oidc/token',
    {
      access: 'public',
      cost: 'token',
      operationId: 'exchangeSignInCode',
      summary: 'Opens the session of a sign-in with a provider',
      description:
        'The code works once, for a minute, and only together with the secret of the page that began the sign-in. An account with a second factor gets 403 ' +
        '`second_factor_required`, as at a login.',
      body: CodeExchange,
      answers: { 200: [LoggedIn, 'The account, and the tokens of the new session.'] },
      refuses: ['invalid_one_time_token', 'account_blocked', 'second_factor_required', 'rate_limited'],
    },
    async (request) => presentSignIn(await exchangeCode(auth, request.body, clientOf(request))),
  )

  linkRoutes(server, signIns)
}

// The callback's address contains the provider's code.
const NAVIGATION = { 'referrer-policy': 'no-referrer' }

/**
 * SameSite is Lax, so the browser sends the cookie when the provider redirects back. Pages of other sites cannot read
 * it or post with it.
 */
function cookieOf(baseUrl: string) {
  const { protocol, port, pathname } = new URL(baseUrl)
  const isSecure = protocol === 'https:'
  // The name contains the port, because cookies ignore ports.
  const name = `${isSecure ? '__Secure-' : ''}storefront_oidc_${port || (isSecure ? '443' : '80')}`
  const attributes = `Path=${pathname.replace(/\/$/, '')}/auth/oidc; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`
  return {
    set: (token: string) => `${name}=${token}; ${attributes}; Max-Age=${SIGN_IN_SECONDS}`,
    clear: `${name}=; ${attributes}; Max-Age=0`,
    /** Every token with that name. A page on another subdomain can add a cookie, which must not hide ours. */
    read({ headers: { cookie = '' } }: FastifyRequest): string[] {
      const values = cookie.split(/; */, 100).flatMap((pair) => (pair.startsWith(`${name}=`) ? [pair.slice(name.length + 1)] : []))
      return [...new Set(values)].filter((value) => TOKEN.test(value)).slice(0, 10)
    },
  }
}

/**
 * Routes for the caller's sign-in providers. A provider is a lasting way to sign in, so a stolen session must not add
 * or remove one.
 */
function linkRoutes(server: HttpServer, { auth, providers }: SignIns): void {
  defineRoute(
    server,
    'POST /me/sign-ins',
    {
      access: 'caller',
      cost: 'provider',
      stepUp: 'always',
      operationId: 'linkSignIn',
      summary: "Adds a provider to the caller's account",
      description:
        "Send the code that a sign-in at the provider with `purpose=link` has returned to this page. It works once, for five minutes, together with the page's secret. " +
        'The address at the provider may differ from that of the account. Repeating a link changes nothing. For customers only.',
      body: CodeExchange,
      answers: { 200: [LinkedSignInSchema, 'The provider with which the account signs in from now on.'] },
      refuses: ['invalid_one_time_token', 'sign_in_taken', 'provider_linked'],
    },
    async (request) => {
      const linked = await linkSignIn(auth, request.body, callerOf(request), clientOf(request))
      return linked
    },
  )

  defineRoute(
    server,
    'DELETE /me/sign-ins/:provider',
    {
      access: 'caller',
      cost: 'provider',
      stepUp: 'always',
      operationId: 'unlinkSignIn',
      summary: "Removes a provider from the caller's account",
      description:
        'Ends the other sessions. The last way to sign in cannot be removed: set a password first (`POST /auth/password-reset`). A later sign-in with the provider links it ' +
        'again if both have proven the same address.',
      params: ProviderParams,
      answers: { 204: 'The provider is no longer linked.' },
      refuses: ['last_sign_in'],
    },
    async (request) => {
      const { issuer } = getProvider(providers, request.params.provider).settings
      await unlinkSignIn(auth, issuer, callerOf(request), clientOf(request))
    },
  )
}

const ProviderParams = Type.Object({
  provider: Type.String({
    pattern: '^[a-z][a-z0-9-]{0,19}$',
    'x-must': 'be the id of a provider, such as google',
    description: 'The id of the provider, from `GET /auth/oidc`.',
  }),
})
const StartQuery = Type.Object(
  {
    return_to: Type.String({ maxLength: 1_000, description: 'The page to return to. Its origin must be one that the store allows.' }),
    code_challenge: Type.String({
      pattern: '^[A-Za-z0-9_-]{43}$',
      'x-must': 'be a SHA-256 in base64url, which has 43 characters',
      description: 'The SHA-256 in base64url of a random secret that the page keeps, for example in `sessionStorage` (RFC 7636, S256).',
    }),
    purpose: Type.Optional(Type.Enum([...PURPOSES])),
  },
  strict,
)
const CodeExchange = Type.Object(
  { code: Token, code_verifier: Type.String({ maxLength: 128, description: 'The secret of which the page sent `code_challenge`.' }) },
  { title: 'SignInCode', examples: [EXAMPLE_OIDC_CODE], ...strict },
)
const ProviderListSchema = Type.Object(
  {
    data: Type.Array(
      Type.Object(
        { id: Type.String(), name: Type.String({ description: 'The name to show on the button.' }), issuer: Type.String() },
        { title: 'SignInProvider', examples: EXAMPLE_PROVIDER_LIST.data.slice(0, 1) },
      ),
    ),
  },
  { title: 'SignInProviderList', examples: [EXAMPLE_PROVIDER_LIST] },
)

/** Throws `not_found`. */
function getProvider(providers: ReadonlyMap<string, Provider>, id: string): Provider {
  const provider = providers.get(id)
  if (provider === undefined) throw notFound('sign-in provider')
  return provider
}
