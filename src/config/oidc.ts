import { ConfigError, type Settings } from './settings.ts'

/** An OpenID provider with which customers sign in. */
export interface OidcProviderSettings {
  /** In the addresses of its calls. */
  id: string
  /** For the button. */
  name: string
  issuer: string
  clientId: string
  /** Null for a public client, which has only PKCE. Not for logs. */
  clientSecret: string | null
}

const MAX_PROVIDERS = 10
const ID = /^[a-z][a-z0-9-]{0,19}$/

/** `OIDC_PROVIDERS=acme,google`, and `OIDC_ACME_ISSUER`, `_CLIENT_ID`, `_CLIENT_SECRET` and `_NAME` of each. Throws ConfigError. */
export function readOidcProviders({ optional, text }: Settings): readonly OidcProviderSettings[] {
  const ids = (optional('OIDC_PROVIDERS') ?? '').split(',').flatMap((id) => id.trim() || [])
  if (ids.length > MAX_PROVIDERS || new Set(ids).size !== ids.length || !ids.every((id) => ID.test(id))) {
    throw new ConfigError(
      `OIDC_PROVIDERS must be up to ${MAX_PROVIDERS} different names such as acme, of lower-case letters, digits and hyphens`,
    )
  }
  const providers = ids.map((id) => {
    const prefix = `OIDC_${id.toUpperCase().replaceAll('-', '_')}`
    const clientId = optional(`${prefix}_CLIENT_ID`)
    if (clientId === null) throw new ConfigError(`${prefix}_CLIENT_ID is required: OIDC_PROVIDERS names ${id}`)
    return {
      ...{ id, clientId, name: text(`${prefix}_NAME`, id) },
      issuer: readIssuer(`${prefix}_ISSUER`, optional(`${prefix}_ISSUER`)),
      clientSecret: optional(`${prefix}_CLIENT_SECRET`),
    }
  })
  // An account is known by the issuer.
  if (new Set(providers.map(({ issuer }) => issuer)).size !== ids.length)
    throw new ConfigError('OIDC_PROVIDERS must have different issuers')
  return providers
}

function readIssuer(name: string, value: string | null): string {
  const url = value !== null && URL.canParse(value) ? new URL(value) : null
  const isLocal = url?.protocol === 'http:' && ['localhost', '127.0.0.1', '[::1]'].includes(url.hostname)
  if (value !== null && url !== null && (url.protocol === 'https:' || isLocal) && url.search + url.hash + url.username === '') return value
  throw new ConfigError(
    `${name} must be the https address of the provider, such as https://id.example, as its tokens have it; http only for localhost`,
  )
}
