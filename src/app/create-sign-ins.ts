import type { AuthContext } from '../auth/context.ts'
import { Provider, type SignIns } from '../auth/oidc/provider.ts'
import type { Config } from '../config.ts'

/** Pages of the store and of CORS_ORIGINS may use the providers. `*` would be an open redirect. */
export function createSignIns({ oidcProviders, baseUrl, corsOrigins }: Config, auth: AuthContext): SignIns {
  const listed = corsOrigins === null || corsOrigins === '*' ? [] : corsOrigins.filter((origin) => /^https?:/.test(origin))
  return {
    auth,
    providers: new Map(oidcProviders.map((settings) => [settings.id, new Provider(settings, { baseUrl, now: auth.now })])),
    returnOrigins: new Set([new URL(baseUrl).origin, ...listed]),
  }
}
