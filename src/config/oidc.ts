import type { Settings } from './settings.ts'

export interface OidcProviderSettings {
  id: string
  name: string
  issuer: string
  clientId: string
  /** The secret is null for a public client, which has only PKCE. Must not be logged. */
  clientSecret: string | null
}

const MAX_PROVIDERS = 10
const ID = /^[a-z][a-z0-9-]{0,19}$/

export function readOidcProviders({ setting, optional, text, isSet, problems }: Settings): readonly OidcProviderSettings[] {
  const ids = setting<readonly string[]>(
    'OIDC_PROVIDERS',
    { mustBe: `up to ${MAX_PROVIDERS} different names such as acme, of lower-case letters, digits and hyphens`, parse: parseIds },
    { value: [], documented: 'none' },
  )
  const providers = ids.map((id) => {
    const prefix = `OIDC_${id.toUpperCase().replaceAll('-', '_')}`
    for (const name of [`${prefix}_ISSUER`, `${prefix}_CLIENT_ID`])
      if (!isSet(name)) problems.push(`${name} is required: OIDC_PROVIDERS names ${id}`)
    const issuer = { mustBe: ISSUER, parse: parseIssuer, secrecy: 'url' } as const
    return {
      id,
      name: text(`${prefix}_NAME`, { value: id, documented: 'the name in OIDC_PROVIDERS', from: 'OIDC_PROVIDERS' }, 'any text'),
      issuer: setting<string>(`${prefix}_ISSUER`, issuer, { value: '', documented: 'required' }),
      clientId: optional(`${prefix}_CLIENT_ID`, 'any text', 'required') ?? '',
      clientSecret: optional(`${prefix}_CLIENT_SECRET`, 'any text', 'none: the client is public', 'secret'),
    }
  })
  // The issuer identifies an account's provider, so it must be unique.
  const issuers = providers.flatMap(({ issuer }) => issuer || [])
  if (new Set(issuers).size !== issuers.length) problems.push('OIDC_PROVIDERS must have different issuers')
  return providers
}

function parseIds(value: string): string[] | undefined {
  const ids = value.split(',').flatMap((id) => id.trim() || [])
  return ids.length <= MAX_PROVIDERS && new Set(ids).size === ids.length && ids.every((id) => ID.test(id)) ? ids : undefined
}

const ISSUER = 'the https address of the provider, such as https://id.example, as its tokens have it; http only for localhost'

function parseIssuer(value: string): string | undefined {
  const url = URL.canParse(value) ? new URL(value) : null
  const isLocal = url?.protocol === 'http:' && ['localhost', '127.0.0.1', '[::1]'].includes(url.hostname)
  return url !== null && (url.protocol === 'https:' || isLocal) && url.search + url.hash + url.username === '' ? value : undefined
}
