import { callerOf } from '../../http/caller.ts'
import { defineRoute } from '../../http/define-route.ts'
import type { HttpServer } from '../../http/http-server.ts'
import { clientOf } from '../client.ts'
import { LinkedSignInSchema } from '../schemas.ts'
import { linkSignIn, unlinkSignIn } from './link-sign-in.ts'
import { CodeExchange, getProvider, ProviderParams } from './schemas.ts'
import type { SignIns } from './sign-ins.ts'

/** A provider is a way in that stays: a stolen session must not add or remove one. */

/** Providers of the caller's account. */
export function linkRoutes(server: HttpServer, { auth, providers }: SignIns): void {
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
        "The customer has signed in at the provider, for this page and with `purpose=link`; the code works once, for five minutes, together with the page's secret. " +
        'The address at the provider may be another one. The same link again changes nothing. For customers only.',
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
        'Ends the other sessions. The last way to sign in stays: `POST /auth/password-reset` sets a password first. A later sign-in with the provider links it ' +
        'again while both have proven the same address.',
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
