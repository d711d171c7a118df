import { Type } from 'typebox'
import { callerOf } from '../http/caller.ts'
import type { HttpServer } from '../http/http-server.ts'
import { Cursor, Limit, PageOf } from '../http/pagination.ts'
import { CALLER_ONLY, JSON_BODY, noContentResponses, okResponses, problemResponses } from '../http/problem.ts'
import { clientOf } from './client.ts'
import type { AuthContext } from './context.ts'
import { deleteAccount } from './delete-account.ts'
import { findAddressState } from './email-change/email-changes.ts'
import { EXAMPLE_CREDENTIALS, EXAMPLE_ONE_TIME_TOKEN } from './examples.ts'
import { listSignIns } from './oidc/linked-sign-ins.ts'
import { changePassword } from './passwords/change-password.ts'
import { confirmPasswordReset, requestPasswordReset } from './passwords/reset-password.ts'
import {
  Accepted,
  AccountSchema,
  ChosenLanguage,
  Email,
  Name,
  NewPassword,
  PresentedPassword,
  presentUser,
  SessionSchema,
  strict,
  Token,
  tags,
  UserSchema,
} from './schemas.ts'
import { endSession, listSessions } from './sessions.ts'
import { getUser, updateUser } from './users.ts'

const PasswordChange = Type.Object(
  { current_password: PresentedPassword, new_password: NewPassword },
  {
    title: 'PasswordChange',
    examples: [{ current_password: EXAMPLE_CREDENTIALS.password, new_password: 'staple battery horse correct' }],
    ...strict,
  },
)
const ResetRequest = Type.Object(
  { email: Email },
  { title: 'PasswordResetRequest', examples: [{ email: EXAMPLE_CREDENTIALS.email }], ...strict },
)
const ResetConfirmation = Type.Object(
  { token: Token, password: NewPassword },
  { title: 'PasswordReset', examples: [EXAMPLE_ONE_TIME_TOKEN], ...strict },
)
const AccountChange = Type.Object(
  {
    name: Type.Optional(Type.Union([Name, Type.Null()])),
    language: Type.Optional(Type.Union([ChosenLanguage, Type.Null()], { description: 'Null: that of the store counts.' })),
  },
  { title: 'AccountChange', examples: [{ name: 'Ada King', language: 'fr' }], ...strict },
)

const SessionQuery = Type.Object({ limit: Type.Optional(Limit), cursor: Type.Optional(Cursor) }, strict)
const SessionParams = Type.Object({ id: Type.String({ format: 'uuid', description: 'The id of the session.' }) })

const WHAT_IS_KEPT = [
  'Erased at once: the e-mail addresses, the name, the language, the password, linked providers, passkeys, authenticator app and recovery codes, all sessions and',
  'tokens, and answers kept for retries.',
  'Kept: each order with its number, lines, amounts, times, reference and the id of the account; events and the data lake have them too.',
  'The shipping address, its name and phone, and the note of an order are erased RETAIN_ORDER_ADDRESS_DAYS after its last change (ten',
  'years, unless the shop has chosen less): at once where that is past, otherwise when it comes; not before the order was shipped or cancelled.',
].join(' ')

/** The caller's own account, its sessions, and passwords. */
export function accountRoutes(server: HttpServer, context: AuthContext): void {
  server.get(
    '/me',
    {
      config: { access: 'caller', cost: 'own' },
      schema: {
        operationId: 'getAccount',
        description:
          'The account of the access token: address and whether it is proven, name, role, language, the providers with which it signs in, and the address that waits to be confirmed.',
        tags,
        summary: "The caller's account",
        response: okResponses(AccountSchema, 'The account.', ...CALLER_ONLY),
      },
    },
    async (request, reply) => {
      const user = await getUser(context.pool, callerOf(request).userId)
      const sign_ins = await listSignIns(context.pool, user.id)
      const state = await findAddressState(context.pool, user, context.now())
      return reply.send({ ...presentUser(user), sign_ins, ...state })
    },
  )

  server.patch(
    '/me',
    {
      config: { access: 'caller', cost: 'change' },
      schema: {
        operationId: 'updateAccount',
        description: 'Only the properties that the body names change. Null removes the name; mails then have the language of the store.',
        tags,
        summary: "Changes the caller's name or language",
        body: AccountChange,
        response: okResponses(UserSchema, 'The changed account.', ...JSON_BODY, ...CALLER_ONLY),
      },
    },
    async (request, reply) => {
      const { userId } = callerOf(request)
      const user = await updateUser(context.pool, userId, request.body)
      clientOf(request).record('account_changed', { user_id: userId })
      return reply.send(presentUser(user))
    },
  )

  server.delete(
    '/me',
    {
      config: { access: 'caller', cost: 'password', stepUp: true },
      schema: {
        operationId: 'deleteAccount',
        tags,
        summary: "Deletes the caller's account; its orders stay for the retention period",
        description: WHAT_IS_KEPT,
        response: noContentResponses(
          'The account and all its sessions are gone.',
          ...CALLER_ONLY,
          'step_up_required',
          ...JSON_BODY,
          'last_admin',
        ),
      },
    },
    async (request, reply) => {
      await deleteAccount(context, callerOf(request), clientOf(request))
      return reply.code(204).send(null)
    },
  )

  server.post(
    '/auth/password',
    {
      config: { access: 'caller', cost: 'password', stepUp: true },
      schema: {
        operationId: 'changePassword',
        description: 'The session of this call stays; every other one of the account ends at once.',
        tags,
        summary: "Changes the caller's password and ends the other sessions",
        body: PasswordChange,
        response: {
          204: Type.Null({ description: 'The password is changed.' }),
          ...problemResponses(
            ...JSON_BODY,
            ...CALLER_ONLY,
            'step_up_required',
            'invalid_credentials',
            'password_too_common',
            'rate_limited',
            'unavailable',
          ),
        },
      },
    },
    async (request, reply) => {
      await changePassword(context, callerOf(request), request.body, clientOf(request))
      return reply.code(204).send(null)
    },
  )

  server.post(
    '/auth/password-reset',
    {
      config: { access: 'public', cost: 'token' },
      schema: {
        operationId: 'requestPasswordReset',
        description:
          'The answer and its timing are the same whether or not the account exists. The mailed token works once, for 30 minutes.',
        tags,
        summary: 'Mails a token for a new password, if there is such an account',
        body: ResetRequest,
        response: {
          202: { ...Accepted, description: 'The same answer whether there is such an account or not.' },
          ...problemResponses(...JSON_BODY, 'rate_limited', 'unavailable'),
        },
      },
    },
    async (request, reply) => {
      await requestPasswordReset(context, request.body.email, clientOf(request))
      return reply.code(202).send({ status: 'accepted' as const })
    },
  )

  server.post(
    '/auth/password-reset/confirm',
    {
      config: { access: 'public', cost: 'password' },
      schema: {
        operationId: 'confirmPasswordReset',
        description: 'The token works once. Every session of the account ends at once.',
        tags,
        summary: 'Sets a new password by a mailed token and ends every session',
        body: ResetConfirmation,
        response: {
          204: Type.Null({ description: 'The password is changed.' }),
          ...problemResponses(...JSON_BODY, 'invalid_one_time_token', 'password_too_common', 'unavailable'),
        },
      },
    },
    async (request, reply) => {
      await confirmPasswordReset(context, request.body, clientOf(request))
      return reply.code(204).send(null)
    },
  )

  server.get(
    '/auth/sessions',
    {
      config: { access: 'caller', cost: 'own' },
      schema: {
        operationId: 'listSessions',
        description: 'One entry for each device or browser that is logged in. Pages: follow `next_cursor` until `has_more` is false.',
        tags,
        summary: "The caller's open sessions, newest first",
        querystring: SessionQuery,
        response: okResponses(PageOf(SessionSchema), 'A page of the open sessions.', 'invalid_query', 'invalid_cursor', ...CALLER_ONLY),
      },
    },
    async (request, reply) => {
      const page = await listSessions(context.pool, callerOf(request), request.query, context.now())
      return reply.send(page)
    },
  )

  server.delete(
    '/auth/sessions/:id',
    {
      config: { access: 'caller', cost: 'change' },
      schema: {
        operationId: 'endSession',
        description: 'Access and refresh tokens of the session stop working at once.',
        tags,
        summary: "Ends one of the caller's sessions",
        params: SessionParams,
        response: noContentResponses('The session and all its tokens are revoked.', ...CALLER_ONLY, 'not_found', ...JSON_BODY),
      },
    },
    async (request, reply) => {
      const { userId } = callerOf(request)
      const { id } = request.params
      await endSession(context.pool, userId, id, context.now())
      context.revocations.add(id)
      clientOf(request).record('session_ended', { user_id: userId, session_id: id })
      return reply.code(204).send(null)
    },
  )
}
