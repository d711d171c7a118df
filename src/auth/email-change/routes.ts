import { Type } from 'typebox'
import { defineRoute } from '../../http/define-route.ts'
import type { HttpServer } from '../../http/http-server.ts'
import { clientOf, ownChangeOf } from '../client.ts'
import type { AuthContext } from '../context.ts'
import { EXAMPLE_ONE_TIME_TOKEN } from '../examples.ts'
import { Accepted, Email, presentUser, strict, Token, UserSchema } from '../schemas.ts'
import { confirmEmailChange } from './confirm-change.ts'
import { requestEmailChange, requestEmailProof } from './request-change.ts'
import { revertEmailChange } from './revert-change.ts'

const EmailChange = Type.Object({ email: Email }, { title: 'EmailChange', examples: [{ email: 'ada@new.example' }], ...strict })
const { token } = EXAMPLE_ONE_TIME_TOKEN
const EmailConfirmation = Type.Object({ token: Token }, { title: 'EmailConfirmation', examples: [{ token }], ...strict })
const EmailReversion = Type.Object({ token: Token }, { title: 'EmailReversion', examples: [{ token }], ...strict })

/** Routes to change the caller's e-mail address. */
export function emailChangeRoutes(server: HttpServer, context: AuthContext): void {
  defineRoute(
    server,
    'POST /me/email',
    {
      access: 'caller',
      cost: 'change',
      stepUp: 'always',
      operationId: 'requestEmailChange',
      summary: "Begins to change the caller's e-mail address",
      description:
        'Mails a token to the new address, for `POST /me/email/confirm`, and one to the current address, for `POST /auth/email/revert`. The answer is the ' +
        "same whether or not the new address has an account. The caller's own address is refused with `invalid_body`. The request replaces an earlier one, and can be confirmed for 24 hours.",
      body: EmailChange,
      answers: { 202: [Accepted, 'The answer is the same whether or not the address has an account.'] },
    },
    async (request) => {
      await requestEmailChange(context, request.body.email, ownChangeOf(request))
      return { status: 'accepted' as const }
    },
  )

  defineRoute(
    server,
    'POST /me/email/proof',
    {
      access: 'caller',
      cost: 'change',
      operationId: 'requestEmailProof',
      summary: "Begins to prove the current e-mail address of the caller's account",
      description:
        'Mails a token to the address, for `POST /me/email/confirm` within 24 hours. The account then gets the orders that guests placed with the address, ' +
        'and a sign-in with a provider that has proven the address finds the account. The request replaces an earlier one, also for another address. Guests cannot call it, because they have no account.',
      answers: { 202: [Accepted, 'A token is mailed.'] },
    },
    async (request) => {
      await requestEmailProof(context, ownChangeOf(request))
      return { status: 'accepted' as const }
    },
  )

  defineRoute(
    server,
    'POST /me/email/confirm',
    {
      access: 'caller',
      cost: 'change',
      operationId: 'confirmEmailChange',
      summary: "Changes the caller's e-mail address, or proves the current one, with a token that was mailed to it",
      description:
        "Only sessions of the account that asked for the change can confirm it. After a change the account's other sessions end. The former address gets a mail with a token " +
        'that reverts the change. For seven days the token is valid, and the former address stays reserved for the account.',
      body: EmailConfirmation,
      answers: { 200: [UserSchema, 'The account with its new address.'] },
      refuses: ['invalid_one_time_token', 'email_taken'],
    },
    async (request) => {
      const user = await confirmEmailChange(context, request.body.token, ownChangeOf(request))
      return presentUser(user)
    },
  )

  defineRoute(
    server,
    'POST /auth/email/revert',
    {
      access: 'public',
      cost: 'token',
      operationId: 'revertEmailChange',
      summary: 'Reverts a change of the e-mail address that the holder of the former address did not ask for',
      description:
        'Takes a token that was mailed to the former address when the change was requested or made. The account gets that address back, or keeps it. ' +
        'All sessions end, the password is removed, and a token for a new password is mailed. All recovery codes are removed, and so are passkeys, authenticator app, linked providers, addresses and API keys ' +
        'that were added in the seven days before the request or since.',
      body: EmailReversion,
      answers: { 204: 'The account has its former address, and a token for a new password is mailed there.' },
      refuses: ['invalid_one_time_token', 'email_taken'],
    },
    async (request) => {
      const auditContext = { actor: { type: 'system', id: null }, action: 'revertEmailChange', requestId: request.id } as const
      await revertEmailChange(context, request.body.token, clientOf(request), auditContext)
    },
  )
}
