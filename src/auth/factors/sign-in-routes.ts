import { Type } from 'typebox'
import { callerOf } from '../../http/caller.ts'
import type { HttpServer } from '../../http/http-server.ts'
import { CALLER_ONLY, JSON_BODY, okResponses, problemResponses } from '../../http/problem.ts'
import { clientOf } from '../client.ts'
import type { AuthContext } from '../context.ts'
import { LoggedIn, presentUser, tags } from '../schemas.ts'
import { asAssertion, asProof, PasskeyRequest, PasskeySignIn, SecondFactorSchema, StepUpRequest, StepUpSchema } from './schemas.ts'
import { askForPasskey, completeSignIn, signInWithPasskey } from './sign-in.ts'
import { askForStepUp, stepUp } from './step-up.ts'

/** Signing in with a second factor or a passkey, and proving again who one is. */
export function signInRoutes(server: HttpServer, context: AuthContext): void {
  server.post(
    '/auth/second-factor',
    {
      config: { access: 'public', cost: 'token' },
      schema: {
        operationId: 'completeSignIn',
        tags,
        summary: 'Completes a sign-in with the second factor',
        description:
          'After `second_factor_required`, whose `challenge` is sent back within five minutes with one of `totp_code`, `recovery_code` and `passkey`. ' +
          'A wrong code leaves the challenge usable, five times at most; a passkey answers it once.',
        body: SecondFactorSchema,
        response: {
          200: { ...LoggedIn, description: 'The account, and the tokens of the new session.' },
          ...problemResponses(...JSON_BODY, 'invalid_challenge', 'invalid_second_factor', 'account_blocked', 'rate_limited', 'unavailable'),
        },
      },
    },
    async (request, reply) => {
      const opened = await completeSignIn(context, asProof(request.body), clientOf(request))
      return reply.send({ ...opened, user: presentUser(opened.user) })
    },
  )

  server.post(
    '/auth/passkey/options',
    {
      config: { access: 'public', cost: 'token' },
      schema: {
        operationId: 'beginPasskeySignIn',
        tags,
        summary: 'Begins a sign-in with a passkey',
        description:
          'The answer is the same for everybody: which account it will be, the passkey says. The challenge is valid for five minutes.',
        response: okResponses(PasskeyRequest, 'What the browser is given.', 'rate_limited', ...JSON_BODY),
      },
    },
    async (request, reply) => reply.send(await askForPasskey(context, clientOf(request))),
  )

  server.post(
    '/auth/passkey',
    {
      config: { access: 'public', cost: 'token' },
      schema: {
        operationId: 'signInWithPasskey',
        tags,
        summary: 'Opens a session by a passkey, without a password',
        description:
          'The challenge of `POST /auth/passkey/options` is answered once, by a page of the store or of its shop, with the user verified.',
        body: PasskeySignIn,
        response: {
          200: { ...LoggedIn, description: 'The account, and the tokens of the new session.' },
          ...problemResponses(...JSON_BODY, 'invalid_challenge', 'invalid_second_factor', 'account_blocked', 'unavailable'),
        },
      },
    },
    async (request, reply) => {
      const opened = await signInWithPasskey(context, asAssertion(request.body.passkey), clientOf(request))
      return reply.send({ ...opened, user: presentUser(opened.user) })
    },
  )

  server.post(
    '/auth/step-up/options',
    {
      config: { access: 'caller', cost: 'change' },
      schema: {
        operationId: 'beginStepUp',
        tags,
        summary: 'How the caller can prove again who they are',
        description:
          'Also makes the challenge for a passkey, valid for five minutes. A password is a proof only for accounts without a second factor.',
        response: okResponses(StepUpRequest, 'The ways, and what the browser is given for a passkey.', ...CALLER_ONLY, ...JSON_BODY),
      },
    },
    async (request, reply) => reply.send(await askForStepUp(context, callerOf(request))),
  )

  server.post(
    '/auth/step-up',
    {
      config: { access: 'caller', cost: 'password' },
      schema: {
        operationId: 'stepUp',
        tags,
        summary: 'Proves again who the caller is, for calls that need it',
        description:
          'After `step_up_required`: with one of `password`, `totp_code`, `recovery_code` and `passkey`. The proof counts for ten minutes of this session. ' +
          'A refused one, also a right password where it does not count, has the `methods` that count.',
        body: StepUpSchema,
        response: {
          204: Type.Null({ description: 'The session has a fresh proof.' }),
          ...problemResponses(...JSON_BODY, ...CALLER_ONLY, 'invalid_challenge', 'invalid_second_factor', 'rate_limited', 'unavailable'),
        },
      },
    },
    async (request, reply) => {
      await stepUp(context, callerOf(request), asProof(request.body), clientOf(request))
      return reply.code(204).send(null)
    },
  )
}
