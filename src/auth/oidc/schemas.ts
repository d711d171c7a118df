import { Type } from 'typebox'
import { notFound } from '../../errors.ts'
import { EXAMPLE_OIDC_CODE, EXAMPLE_PROVIDER_LIST } from '../examples.ts'
import { strict, Token } from '../schemas.ts'
import type { Provider } from './provider.ts'
import { PURPOSES } from './start-sign-in.ts'

export const ProviderParams = Type.Object({
  provider: Type.String({
    pattern: '^[a-z][a-z0-9-]{0,19}$',
    'x-must': 'be the id of a provider, such as google',
    description: 'The id of the provider, from `GET /auth/oidc`.',
  }),
})
export const StartQuery = Type.Object(
  {
    return_to: Type.String({ maxLength: 1_000, description: 'The page to come back to, of an origin that the store allows.' }),
    code_challenge: Type.String({
      pattern: '^[A-Za-z0-9_-]{43}$',
      'x-must': 'be a SHA-256 in base64url, which has 43 characters',
      description: 'SHA-256, base64url, of a random secret that the page keeps, such as in `sessionStorage` (RFC 7636, S256).',
    }),
    purpose: Type.Optional(Type.Enum([...PURPOSES])),
  },
  strict,
)
export const CodeExchange = Type.Object(
  { code: Token, code_verifier: Type.String({ maxLength: 128, description: 'The secret of which the page sent `code_challenge`.' }) },
  { title: 'SignInCode', examples: [EXAMPLE_OIDC_CODE], ...strict },
)
export const ProviderListSchema = Type.Object(
  {
    data: Type.Array(
      Type.Object(
        { id: Type.String(), name: Type.String({ description: 'For the button.' }), issuer: Type.String() },
        { title: 'SignInProvider', examples: EXAMPLE_PROVIDER_LIST.data.slice(0, 1) },
      ),
    ),
  },
  { title: 'SignInProviderList', examples: [EXAMPLE_PROVIDER_LIST] },
)

/** Throws `not_found`. */
export function getProvider(providers: ReadonlyMap<string, Provider>, id: string): Provider {
  const provider = providers.get(id)
  if (provider === undefined) throw notFound('sign-in provider')
  return provider
}
