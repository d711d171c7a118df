import { Type } from 'typebox'
import { callerOf } from '../http/caller.ts'
import { defineList, defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { IdPosition, PageOf } from '../http/pagination.ts'
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
    language: Type.Optional(Type.Union([ChosenLanguage, Type.Null()], { description: "Null: the store's language applies." })),
  },
  { title: 'AccountChange', examples: [{ name: 'Ada King', language: 'fr' }], ...strict },
)

const SessionParams = Type.Object({ id: Type.String({ format: 'uuid', description: 'The id of the session.' }) })

const WHAT_IS_KEPT = [
  'Erases at once the e-mail addresses, the name, the language, the password, linked providers, passkeys, authenticator app and recovery codes, all sessions and',
  'tokens, and answers kept for retries.',
  'Keeps each order with its number, lines, amounts, times, reference and the id of the account, also in events and in the data lake.',
  'The shipping address of an order, with name and phone, and its note are erased RETAIN_ORDER_ADDRESS_DAYS after its last change (ten',
  'years, unless the shop has chosen less). They are erased at once if that time has passed, but not before the order was shipped or cancelled.',
].join(' ')

/** Routes for the caller's account, its sessions and its password. */
export function accountRoutes(server: HttpServer, context: AuthContext): void {
  defineRoute(
    server,
    'GET /me',
    {
      access: 'caller',
      cost: 'own',
      operationId: 'getAccount',
      summary: "The caller's account",
      description:
        'The account of the access token, with its address and whether it is proven, name, role, language, linked providers, and a new address that is not confirmed yet.',
      answers: { 200: [AccountSchema, 'The account.'] },
    },
    async (request) => {
      const user = await getUser(context.pool, callerOf(request).userId)
      const sign_ins = await listSignIns(context.pool, user.id)
      const state = await findAddressState(context.pool, user, context.now())
      return { ...presentUser(user), sign_ins, ...state }
    },
  )

  defineRoute(
    server,
    'PATCH /me',
    {
      access: 'caller',
      cost: 'change',
      operationId: 'updateAccount',
      summary: "Changes the caller's name or language",
      description:
        "Changes only the properties in the body. A null `name` removes the name. With a null `language`, mails are in the store's language.",
      body: AccountChange,
      answers: { 200: [UserSchema, 'The changed account.'] },
    },
    async (request) => {
      const { userId } = callerOf(request)
      const user = await updateUser(context.pool, userId, request.body)
      clientOf(request).record('account_changed', { user_id: userId })
      return presentUser(user)
    },
  )

  defineRoute(
    server,
    'DELETE /me',
    {
      access: 'caller',
      cost: 'password',
      stepUp: true,
      operationId: 'deleteAccount',
      summary: "Deletes the caller's account, but keeps its orders for the retention period",
      description: WHAT_IS_KEPT,
      answers: { 204: 'The account and all its sessions are gone.' },
      refuses: ['last_admin'],
    },
    (request) => deleteAccount(context, callerOf(request), clientOf(request)),
  )

  defineRoute(
    server,
    'POST /auth/password',
    {
      access: 'caller',
      cost: 'password',
      stepUp: true,
      operationId: 'changePassword',
      summary: "Changes the caller's password and ends the other sessions",
      description: 'The session of this call stays open. Every other session of the account ends at once.',
      body: PasswordChange,
      answers: { 204: 'The password is changed.' },
      refuses: ['invalid_credentials', 'password_too_common'],
    },
    (request) => changePassword(context, callerOf(request), request.body, clientOf(request)),
  )

  defineRoute(
    server,
    'POST /auth/password-reset',
    {
      access: 'public',
      cost: 'token',
      operationId: 'requestPasswordReset',
      summary: 'Mails a token for a new password, if there is such an account',
      description:
        'The answer and its timing are the same whether or not the account exists. The mailed token can be used once, within 30 minutes.',
      body: ResetRequest,
      answers: { 202: [Accepted, 'The answer is the same whether or not the account exists.'] },
      refuses: ['rate_limited'],
    },
    async (request) => {
      await requestPasswordReset(context, request.body.email, clientOf(request))
      return { status: 'accepted' as const }
    },
  )

  defineRoute(
    server,
    'POST /auth/password-reset/confirm',
    {
      access: 'public',
      cost: 'password',
      operationId: 'confirmPasswordReset',
      summary: 'Sets a new password with a mailed token and ends every session',
      description: 'The token works once. Every session of the account ends at once.',
      body: ResetConfirmation,
      answers: { 204: 'The password is changed.' },
      refuses: ['invalid_one_time_token', 'password_too_common'],
    },
    (request) => confirmPasswordReset(context, request.body, clientOf(request)),
  )

  defineList(
    server,
    'GET /auth/sessions',
    {
      access: 'caller',
      cost: 'own',
      operationId: 'listSessions',
      summary: "The caller's open sessions, newest first",
      description: 'One entry for each device or browser that is logged in. Pages: follow `next_cursor` until `has_more` is false.',
      page: PageOf(SessionSchema),
      answer: 'A page of the open sessions.',
      position: IdPosition,
    },
    (request, paging) => listSessions(context.pool, callerOf(request), paging, context.now()),
  )

  defineRoute(
    server,
    'DELETE /auth/sessions/:id',
    {
      access: 'caller',
      cost: 'change',
      operationId: 'endSession',
      summary: "Ends one of the caller's sessions",
      description: 'Access and refresh tokens of the session stop working at once.',
      params: SessionParams,
      answers: { 204: 'The session and all its tokens are revoked.' },
    },
    async (request) => {
      const { userId } = callerOf(request)
      const { id } = request.params
      await endSession(context.pool, userId, id, context.now())
      context.revocations.add(id)
      clientOf(request).record('session_ended', { user_id: userId, session_id: id })
    },
  )
}
