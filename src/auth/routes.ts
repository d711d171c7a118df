import { Type } from 'typebox'
import { type Authenticate, bearer, callerOf, requireCaller } from '../http/caller.ts'
import { problemResponses } from '../http/problem.ts'
import type { HttpServer } from '../http/server.ts'
import type { AuthContext } from './context.ts'
import { EMAIL_MAX_LENGTH, EMAIL_PATTERN } from './email-address.ts'
import { login } from './login.ts'
import { PASSWORD_MAX_LENGTH, PASSWORD_MIN_LENGTH } from './password.ts'
import { refresh } from './refresh.ts'
import { register } from './register.ts'
import { getUser, type User } from './users.ts'

const UserSchema = Type.Object({
  id: Type.String({ format: 'uuid' }),
  email: Type.String(),
  name: Type.Union([Type.String(), Type.Null()]),
  role: Type.Union([Type.Literal('customer'), Type.Literal('admin')]),
  created_at: Type.String({ format: 'date-time' }),
})

const tokenSet = {
  token_type: Type.Literal('Bearer'),
  access_token: Type.String({ description: 'JWT (RFC 9068), for `Authorization: Bearer`.' }),
  expires_in: Type.Integer({ description: 'Seconds.' }),
  refresh_token: Type.String({ description: 'Opaque. Good for one refresh.' }),
  refresh_expires_in: Type.Integer({ description: 'Seconds.' }),
}
const TokenSetSchema = Type.Object(tokenSet)
const LoggedIn = Type.Object({ user: UserSchema, ...tokenSet })

const strict = { additionalProperties: false }
const Registration = Type.Object(
  {
    email: Type.String({ maxLength: EMAIL_MAX_LENGTH, pattern: EMAIL_PATTERN, description: 'One plain address.' }),
    password: Type.String({ minLength: PASSWORD_MIN_LENGTH, maxLength: PASSWORD_MAX_LENGTH }),
    name: Type.Optional(Type.String({ minLength: 1, maxLength: 200, pattern: '^[^\\x00-\\x1f\\x7f]+$' })),
  },
  strict,
)
// No pattern and no lower bound here: a wrong address and a wrong password must look alike.
const Credentials = Type.Object(
  { email: Type.String({ maxLength: EMAIL_MAX_LENGTH }), password: Type.String({ maxLength: PASSWORD_MAX_LENGTH }) },
  strict,
)
const RefreshRequest = Type.Object({ refresh_token: Type.String({ minLength: 1, maxLength: 500 }) }, strict)

/** Accounts and sessions. */
export function authRoutes(server: HttpServer, context: AuthContext, authenticate: Authenticate): void {
  const tags = ['accounts']

  server.post(
    '/auth/register',
    {
      schema: {
        tags,
        summary: 'Makes an account and logs it in',
        body: Registration,
        response: {
          201: LoggedIn,
          ...problemResponses(
            'malformed_json',
            'email_taken',
            'unsupported_media_type',
            'invalid_body',
            'password_too_common',
            'unavailable',
          ),
        },
      },
    },
    async (request, reply) => {
      const { user, ...tokens } = await register(context, request.body, request.headers['user-agent'] ?? null)
      return reply
        .code(201)
        .header('cache-control', 'no-store')
        .send({ user: present(user), ...tokens })
    },
  )

  server.post(
    '/auth/login',
    {
      schema: {
        tags,
        summary: 'Opens a session',
        body: Credentials,
        response: {
          200: LoggedIn,
          ...problemResponses('malformed_json', 'invalid_credentials', 'unsupported_media_type', 'invalid_body', 'unavailable'),
        },
      },
    },
    async (request, reply) => {
      const { user, ...tokens } = await login(context, request.body, request.headers['user-agent'] ?? null)
      return reply.header('cache-control', 'no-store').send({ user: present(user), ...tokens })
    },
  )

  server.post(
    '/auth/refresh',
    {
      schema: {
        tags,
        summary: 'Trades a refresh token for a new pair of tokens',
        body: RefreshRequest,
        response: {
          200: TokenSetSchema,
          ...problemResponses('malformed_json', 'invalid_refresh_token', 'unsupported_media_type', 'invalid_body'),
        },
      },
    },
    async (request, reply) => {
      const tokens = await refresh(context, request.body.refresh_token)
      return reply.header('cache-control', 'no-store').send(tokens)
    },
  )

  server.get(
    '/me',
    {
      onRequest: requireCaller(authenticate),
      schema: {
        tags,
        summary: "The caller's account",
        security: bearer,
        response: { 200: UserSchema, ...problemResponses('unauthenticated', 'invalid_token') },
      },
    },
    async (request, reply) => {
      const user = await getUser(context.pool, callerOf(request).userId)
      return reply.header('cache-control', 'no-store').send(present(user))
    },
  )

  server.get(
    '/.well-known/jwks.json',
    {
      schema: {
        tags,
        summary: 'Public keys of access tokens (RFC 7517)',
        response: {
          200: Type.Object({ keys: Type.Array(Type.Unsafe<Record<string, unknown>>({ type: 'object', additionalProperties: true })) }),
        },
      },
    },
    async (_request, reply) => reply.header('cache-control', 'public, max-age=300').send(context.tokens.jwks as never),
  )
}

function present(user: User) {
  return { ...user, created_at: user.created_at.toISOString() }
}
