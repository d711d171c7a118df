import { Type } from 'typebox'
import { callerOf } from '../http/caller.ts'
import { defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { LANGUAGES } from '../language.ts'
import { accountRoutes } from './account-routes.ts'
import { clientOf } from './client.ts'
import type { AuthContext } from './context.ts'
import { createGuest } from './create-guest.ts'
import { EMAIL_MAX_LENGTH } from './email-address.ts'
import { emailChangeRoutes } from './email-change/routes.ts'
import { EXAMPLE_CREDENTIALS, EXAMPLE_KEY_SET, EXAMPLE_ONE_TIME_TOKEN, EXAMPLE_REFRESH_REQUEST, EXAMPLE_REGISTRATION } from './examples.ts'
import { factorRoutes } from './factors/factor-routes.ts'
import { signInRoutes } from './factors/sign-in-routes.ts'
import { login } from './login.ts'
import { refresh } from './refresh.ts'
import { register } from './register.ts'
import { Email, LoggedIn, Name, NewPassword, PresentedPassword, presentSignIn, strict, Token, TokenSetSchema } from './schemas.ts'
import { revokeSession } from './sessions.ts'
import { JWKS_MAX_AGE_SECONDS } from './tokens/signing-keys.ts'
import { verifyEmail } from './verify-email.ts'

const OptionalLanguage = Type.Optional(
  Type.Enum([...LANGUAGES], { description: 'The language of mails. By default the language of `Accept-Language`, if the store has it.' }),
)
const Registration = Type.Object(
  { email: Email, password: NewPassword, name: Type.Optional(Name), language: OptionalLanguage },
  { title: 'Registration', examples: [EXAMPLE_REGISTRATION], ...strict },
)
// No pattern and no lower bound, so a wrong address and a wrong password get the same answer.
const Credentials = Type.Object(
  { email: Type.String({ maxLength: EMAIL_MAX_LENGTH, 'x-input': 'pasted' }), password: PresentedPassword },
  { title: 'Credentials', examples: [EXAMPLE_CREDENTIALS], ...strict },
)
const NewGuest = Type.Object(
  { email: Email, language: OptionalLanguage },
  { title: 'NewGuest', examples: [{ email: EXAMPLE_CREDENTIALS.email }], ...strict },
)
const RefreshRequest = Type.Object(
  { refresh_token: { ...Token, 'x-input': 'verbatim' } },
  { title: 'RefreshRequest', examples: [EXAMPLE_REFRESH_REQUEST], ...strict },
)
const Verification = Type.Object(
  { token: Token, password: Type.String({ ...PresentedPassword, description: 'The password that was sent with the registration.' }) },
  { title: 'EmailVerification', examples: [EXAMPLE_ONE_TIME_TOKEN], ...strict },
)
const Pending = Type.Object(
  { status: Type.Literal('verification_required') },
  { title: 'PendingRegistration', examples: [{ status: 'verification_required' }] },
)

export function authRoutes(server: HttpServer, context: AuthContext): void {
  accountRoutes(server, context)
  emailChangeRoutes(server, context)
  factorRoutes(server, context)
  signInRoutes(server, context)

  defineRoute(
    server,
    'POST /auth/register',
    {
      access: 'public',
      cost: 'password',
      operationId: 'register',
      summary: 'Creates an account and logs it in',
      description: 'With EMAIL_VERIFICATION=required the answer is 202 for new and for taken addresses, and a mail is sent.',
      body: Registration,
      answers: {
        201: [LoggedIn, 'The account, and the tokens of its first session.'],
        202: [Pending, 'With EMAIL_VERIFICATION=required a token is mailed. `POST /auth/verify-email` creates the account with it.'],
      },
      refuses: ['email_taken', 'password_too_common', 'rate_limited'],
    },
    async (request, reply) => {
      const opened = await register(context, request.body, clientOf(request))
      return opened === null ? reply.code(202).send({ status: 'verification_required' as const }) : presentSignIn(opened)
    },
  )

  defineRoute(
    server,
    'POST /auth/guest',
    {
      access: 'public',
      cost: 'token',
      operationId: 'createGuest',
      summary: 'Opens a session without an account',
      description:
        'Opens a session for an order without an account. Mails about the order go to the given e-mail address. The answer is the same whether or not the address has an account, ' +
        'and each call makes another guest. An account that proves the address with a mailed token gets the orders.',
      body: NewGuest,
      answers: { 201: [LoggedIn, 'The guest, and the tokens of its session.'] },
      refuses: ['rate_limited'],
    },
    async (request) => presentSignIn(await createGuest(context, request.body, clientOf(request))),
  )

  defineRoute(
    server,
    'POST /auth/verify-email',
    {
      access: 'public',
      cost: 'password',
      operationId: 'verifyEmail',
      summary: 'Creates the account whose address a mailed token verifies, and logs it in',
      description:
        'The token proves that the caller owns the mailbox. The password proves that the same person registered, because anybody can register ' +
        'with any address. After a wrong password the token can be used again.',
      body: Verification,
      answers: { 200: [LoggedIn, 'The account, and the tokens of its first session.'] },
      refuses: ['invalid_one_time_token', 'invalid_credentials', 'email_taken', 'rate_limited'],
    },
    async (request) => presentSignIn(await verifyEmail(context, request.body, clientOf(request))),
  )

  defineRoute(
    server,
    'POST /auth/login',
    {
      access: 'public',
      cost: 'password',
      operationId: 'login',
      summary: 'Opens a session',
      description:
        'A wrong address and a wrong password get the same answer after the same work. Only the right password of a blocked account gets `account_blocked`. ' +
        'Attempts are limited for each address and each client. ' +
        'An account with a second factor gets 403 `second_factor_required` with `challenge`, `methods` and `passkey_options`, for `POST /auth/second-factor`.',
      body: Credentials,
      answers: { 200: [LoggedIn, 'The account, and the tokens of the new session.'] },
      refuses: ['invalid_credentials', 'account_blocked', 'second_factor_required', 'rate_limited'],
    },
    async (request) => presentSignIn(await login(context, request.body, clientOf(request))),
  )

  defineRoute(
    server,
    'POST /auth/refresh',
    {
      access: 'public',
      cost: 'token',
      operationId: 'refresh',
      summary: 'Exchanges a refresh token for a new pair of tokens',
      description:
        'Rotates the refresh token (RFC 9700). Within ten seconds the same token gets the same successor, so two tabs can refresh at once. Using an old token later ends the session.',
      body: RefreshRequest,
      answers: { 200: [TokenSetSchema, 'The next pair of tokens.'] },
      refuses: ['invalid_refresh_token'],
    },
    async (request) => {
      const tokens = await refresh(context, request.body.refresh_token, clientOf(request))
      return tokens
    },
  )

  defineRoute(
    server,
    'POST /auth/logout',
    {
      access: 'caller',
      cost: 'change',
      operationId: 'logout',
      summary: "Ends the caller's session",
      description: 'Access and refresh tokens of the session stop working at once.',
      answers: { 204: 'The session and all its tokens are revoked.' },
    },
    async (request) => {
      const { userId, sessionId } = callerOf(request)
      await revokeSession(context.pool, sessionId, context.now())
      context.revocations.add(sessionId)
      clientOf(request).record('logged_out', { user_id: userId, session_id: sessionId })
    },
  )

  defineRoute(
    server,
    'GET /.well-known/jwks.json',
    {
      access: 'public',
      cost: 'memory',
      isReadableByAnyOrigin: true,
      operationId: 'getSigningKeys',
      summary: 'Public keys of access tokens (RFC 7517)',
      description:
        'Services that verify access tokens themselves need these keys. Keys are rotated: fetch the set again for an unknown `kid`.',
      answers: {
        200: [
          Type.Object(
            { keys: Type.Array(Type.Unsafe<Record<string, unknown>>({ type: 'object', additionalProperties: true })) },
            { title: 'KeySet', examples: [EXAMPLE_KEY_SET] },
          ),
          'The JWK set.',
        ],
      },
      refuses: ['malformed_request'],
    },
    async (_request, reply) => reply.header('cache-control', `public, max-age=${JWKS_MAX_AGE_SECONDS}`).send(context.tokens.jwks as never),
  )
}
