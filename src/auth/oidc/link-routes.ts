import { callerOf } from '../../http/caller.ts'
import type { HttpServer } from '../../http/http-server.ts'
import { CALLER_ONLY, JSON_BODY, noContentResponses, okResponses } from '../../http/problem.ts'
import { clientOf } from '../client.ts'
import { LinkedSignInSchema, tags } from '../schemas.ts'
import { linkSignIn, unlinkSignIn } from './link-sign-in.ts'
import { CodeExchange, getProvider, ProviderParams } from './schemas.ts'
import type { SignIns } from './sign-ins.ts'

/** A provider is a way in that stays: a stolen session must not add or remove one. */
const config = { access: 'caller', cost: 'provider', stepUp: 'always' } as const
const STEPPED_UP = [...CALLER_ONLY, 'step_up_required'] as const

/** Providers of the caller's account. */
export function linkRoutes(server: HttpServer, { auth, providers }: SignIns): void {
  server.post(
    '/me/sign-ins',
    {
      config,
      schema: {
        operationId: 'linkSignIn',
        description:
          "The customer has signed in at the provider, for this page and with `purpose=link`; the code works once, for five minutes, together with the page's secret. " +
          'The address at the provider may be another one. The same link again changes nothing. For customers only.',
        tags,
        summary: "Adds a provider to the caller's account",
        body: CodeExchange,
        response: okResponses(
          LinkedSignInSchema,
          'The provider with which the account signs in from now on.',
          ...JSON_BODY,
          ...STEPPED_UP,
          'invalid_one_time_token',
          'sign_in_taken',
          'provider_linked',
        ),
      },
    },
    async (request, reply) => {
      const linked = await linkSignIn(auth, request.body, callerOf(request), clientOf(request))
      return reply.send(linked)
    },
  )

  server.delete(
    '/me/sign-ins/:provider',
    {
      config,
      schema: {
        operationId: 'unlinkSignIn',
        description:
          'Ends the other sessions. The last way to sign in stays: `POST /auth/password-reset` sets a password first. A later sign-in with the provider links it ' +
          'again while both have proven the same address.',
        tags,
        summary: "Removes a provider from the caller's account",
        params: ProviderParams,
        response: noContentResponses('The provider is no longer linked.', ...STEPPED_UP, 'not_found', 'last_sign_in', ...JSON_BODY),
      },
    },
    async (request, reply) => {
      const { issuer } = getProvider(providers, request.params.provider).settings
      await unlinkSignIn(auth, issuer, callerOf(request), clientOf(request))
      return reply.code(204).send(null)
    },
  )
}
