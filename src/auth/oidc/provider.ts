import * as oidc from 'openid-client'
import type { OidcProviderSettings } from '../../config/oidc.ts'
import type { AuthContext } from '../context.ts'
import { createBoundedFetch, findUnavailable, ProviderUnavailable } from './bounded-fetch.ts'
import type { Person } from './linked-sign-ins.ts'

const BOUNDS = { timeoutMs: 5_000, maxBytes: 262_144 }
const FRESH_MS = 3_600_000
/** A silent provider is asked at most once in this time. */
const RETRY_AFTER_MS = 5_000
const SCOPE = 'openid email profile'

/** The provider's claims about the person who signed in, from a verified ID token. */
export interface Claims extends Person {
  email: string | null
  /** True only for the boolean `true`, never for text. */
  isEmailVerified: boolean
  name: string | null
}

/** The values that bind a provider's answer to the browser that was sent there. */
export interface Bindings {
  state: string
  nonce: string
  codeVerifier: string
}

/**
 * An OpenID provider. Its metadata is fetched at first use and kept, so the start and other logins do not wait for it.
 */
export class Provider {
  readonly settings: OidcProviderSettings
  readonly #redirectUri: string
  readonly #now: () => Date
  readonly #bounds: typeof BOUNDS
  #found: { configuration: oidc.Configuration; at: number } | null = null
  #failed: { error: ProviderUnavailable; at: number } | null = null
  #inFlight: Promise<oidc.Configuration> | null = null

  constructor(
    settings: OidcProviderSettings,
    { baseUrl, now, bounds = BOUNDS }: { baseUrl: string; now: () => Date; bounds?: typeof BOUNDS },
  ) {
    this.settings = settings
    // Each provider has its own callback address, so another provider's answer arrives elsewhere (RFC 9700 §4.4).
    this.#redirectUri = `${baseUrl}/auth/oidc/${settings.id}/callback`
    this.#now = now
    this.#bounds = bounds
  }

  /** The provider's address for the browser. Throws ProviderUnavailable. */
  async authorizationUrl({ state, nonce, codeVerifier }: Bindings, language: string | null): Promise<string> {
    const url = oidc.buildAuthorizationUrl(await this.#configuration(), {
      redirect_uri: this.#redirectUri,
      scope: SCOPE,
      state,
      nonce,
      code_challenge: await oidc.calculatePKCECodeChallenge(codeVerifier),
      code_challenge_method: 'S256',
      ...(language === null ? {} : { ui_locales: language }),
    })
    return url.href
  }

  /**
   * Exchanges the code in `search`, the query of the redirect, and verifies the ID token: signature, issuer, audience,
   * times and nonce. Throws ProviderUnavailable, and errors of openid-client for every other fault.
   */
  async readClaims(search: string, { state, nonce, codeVerifier }: Bindings): Promise<Claims> {
    const configuration = await this.#configuration()
    const tokens = await oidc.authorizationCodeGrant(configuration, new URL(this.#redirectUri + search), {
      expectedState: state,
      expectedNonce: nonce,
      pkceCodeVerifier: codeVerifier,
      idTokenExpected: true,
    })
    const claims = tokens.claims()
    if (claims === undefined) throw new Error('openid-client has checked that there is an ID token')
    // Many providers return the address only there. The subject must equal the ID token's.
    const hasEmail = claims.email !== undefined || configuration.serverMetadata().userinfo_endpoint === undefined
    const { email, email_verified, name } = hasEmail ? claims : await oidc.fetchUserInfo(configuration, tokens.access_token, claims.sub)
    return {
      ...{ issuer: claims.iss, subject: claims.sub },
      email: typeof email === 'string' ? email : null,
      isEmailVerified: email_verified === true,
      name: typeof name === 'string' ? name : null,
    }
  }

  async #configuration(): Promise<oidc.Configuration> {
    const now = this.#now().getTime()
    if (this.#found !== null && now - this.#found.at < FRESH_MS) return this.#found.configuration
    if (this.#failed !== null && now - this.#failed.at < RETRY_AFTER_MS) {
      if (this.#found === null) throw this.#failed.error
      return this.#found.configuration
    }
    this.#inFlight ??= this.#discover().finally(() => {
      this.#inFlight = null
    })
    return this.#inFlight
  }

  async #discover(): Promise<oidc.Configuration> {
    try {
      const configuration = await discover(this.settings, this.#bounds)
      this.#found = { configuration, at: this.#now().getTime() }
      this.#failed = null
      return configuration
    } catch (cause) {
      const error =
        findUnavailable(cause) ??
        new ProviderUnavailable(`the metadata of ${this.settings.issuer} cannot be used: ${reasonOf(cause)}`, { cause })
      this.#failed = { error, at: this.#now().getTime() }
      if (this.#found === null) throw error
      // Endpoints seldom change, so an hour-old configuration is better than none.
      return this.#found.configuration
    }
  }
}

async function discover({ issuer, clientId, clientSecret }: OidcProviderSettings, bounds: typeof BOUNDS): Promise<oidc.Configuration> {
  const isLocal = new URL(issuer).protocol === 'http:'
  const allow = isLocal ? [oidc.allowInsecureRequests] : []
  const customFetch = createBoundedFetch(bounds) as oidc.CustomFetch
  const found = await oidc.discovery(new URL(issuer), clientId, undefined, undefined, { execute: allow, [oidc.customFetch]: customFetch })
  const metadata = found.serverMetadata()
  const methods = metadata.token_endpoint_auth_methods_supported ?? ['client_secret_basic']
  const authentication =
    clientSecret === null
      ? oidc.None()
      : methods.includes('client_secret_basic')
        ? oidc.ClientSecretBasic(clientSecret)
        : oidc.ClientSecretPost(clientSecret)
  const configuration = new oidc.Configuration(metadata, clientId, undefined, authentication)
  configuration[oidc.customFetch] = customFetch
  for (const run of allow) run(configuration)
  // Verifies even tokens that came by TLS, which a proxy may terminate.
  oidc.enableNonRepudiationChecks(configuration)
  return configuration
}

/** An error's name, such as `OAUTH_JWT_CLAIM_COMPARISON_FAILED`. Messages may contain a stranger's input. */
export function reasonOf(error: unknown): string {
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown }
  return typeof code === 'string' ? code : typeof name === 'string' ? name : 'unknown'
}

export interface SignIns {
  auth: AuthContext
  providers: ReadonlyMap<string, Provider>
  /** The origins whose pages may begin a sign-in and get its code. */
  returnOrigins: ReadonlySet<string>
}
