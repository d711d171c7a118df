import { callerOf } from '../../http/caller.ts'
import { defineRoute } from '../../http/define-route.ts'
import type { HttpServer } from '../../http/http-server.ts'
import { clientOf } from '../client.ts'
import type { AuthContext } from '../context.ts'
import { LoggedIn, presentSignIn } from '../schemas.ts'
import { asAssertion, asProof, PasskeyRequest, PasskeySignIn, SecondFactorSchema, StepUpRequest, StepUpSchema } from './schemas.ts'
import { askForPasskey, completeSignIn, signInWithPasskey } from './sign-in.ts'
import { askForStepUp, stepUp } from './step-up.ts'

/** Routes to sign in with a second factor or a passkey, and to prove one's identity again. */
export function signInRoutes(server: HttpServer, context: AuthContext): void {
  defineRoute(
    server,
    'POST /auth/second-factor',
    {
      access: 'public',
      cost: 'token',
      operationId: 'completeSignIn',
      summary: 'Completes a sign-in with the second factor',
      description:
        'For a login that was answered with `second_factor_required`. Send its `challenge` within five minutes, with one of `totp_code`, `recovery_code` and `passkey`. ' +
        'After a wrong code the challenge can be used again, up to five times. A passkey can answer it only once.',
      body: SecondFactorSchema,
      answers: { 200: [LoggedIn, 'The account, and the tokens of the new session.'] },
      refuses: ['invalid_challenge', 'invalid_second_factor', 'account_blocked', 'rate_limited'],
    },
    async (request) => presentSignIn(await completeSignIn(context, asProof(request.body), clientOf(request))),
  )

  defineRoute(
    server,
    'POST /auth/passkey/options',
    {
      access: 'public',
      cost: 'token',
      operationId: 'beginPasskeySignIn',
      summary: 'Begins a sign-in with a passkey',
      description:
        'The answer is the same for everybody, because the passkey identifies the account. The challenge is valid for five minutes.',
      answers: { 200: [PasskeyRequest, 'The options for the passkey call of the browser.'] },
      refuses: ['rate_limited'],
    },
    (request) => askForPasskey(context, clientOf(request)),
  )

  defineRoute(
    server,
    'POST /auth/passkey',
    {
      access: 'public',
      cost: 'token',
      operationId: 'signInWithPasskey',
      summary: 'Opens a session with a passkey, without a password',
      description:
        'Answers the challenge of `POST /auth/passkey/options`, which can be used once, from a page of the store or its shop. The device must verify the user.',
      body: PasskeySignIn,
      answers: { 200: [LoggedIn, 'The account, and the tokens of the new session.'] },
      refuses: ['invalid_challenge', 'invalid_second_factor', 'account_blocked'],
    },
    async (request) => presentSignIn(await signInWithPasskey(context, asAssertion(request.body.passkey), clientOf(request))),
  )

  defineRoute(
    server,
    'POST /auth/step-up/options',
    {
      access: 'caller',
      cost: 'change',
      operationId: 'beginStepUp',
      summary: 'How the caller can prove again who they are',
      description:
        'Also makes a challenge for a passkey, which is valid for five minutes. A password counts only for accounts without a second factor.',
      answers: { 200: [StepUpRequest, "The methods that count, and the options for the browser's passkey call."] },
    },
    (request) => askForStepUp(context, callerOf(request)),
  )

  defineRoute(
    server,
    'POST /auth/step-up',
    {
      access: 'caller',
      cost: 'password',
      operationId: 'stepUp',
      summary: 'Proves again who the caller is, for calls that need it',
      description:
        'For a call that was answered with `step_up_required`. Send one of `password`, `totp_code`, `recovery_code` and `passkey`. The proof counts for ten minutes, in this session only. ' +
        'A refusal lists the `methods` that count. A correct password is refused where it does not count.',
      body: StepUpSchema,
      answers: { 204: 'The session has a fresh proof.' },
      refuses: ['invalid_challenge', 'invalid_second_factor'],
    },
    (request) => stepUp(context, callerOf(request), asProof(request.body), clientOf(request)),
  )
}
