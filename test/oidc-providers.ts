import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import Provider from 'oidc-provider'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { freePort } from './free-port.ts'

/** Somebody with an account at the provider. */
export interface Person {
  sub: string
  email?: string
  email_verified?: unknown
  name?: string
}

export const CLIENT = { clientId: 'storefront', clientSecret: 'a secret that only the provider and the store know' }

async function listen(t: Cleanup, handle: RequestListener, port = 0): Promise<number> {
  const server = createServer(handle)
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  onCleanup(t, async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  return (server.address() as { port: number }).port
}

/** The package oidc-provider as a server. Every browser that arrives is signed in as `person`, without a form. */
export async function startOidcProvider(t: Cleanup, { redirectUri }: { redirectUri: string }) {
  const port = await freePort()
  const issuer = `http://127.0.0.1:${port}`
  const state: { person: Person; isDenying: boolean } = { person: { sub: 'nobody' }, isDenying: false }
  const people = new Map<string, Person>()
  const provider = new Provider(issuer, {
    clients: [{ client_id: CLIENT.clientId, client_secret: CLIENT.clientSecret, redirect_uris: [redirectUri] }],
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
    cookies: { keys: ['a key for tests'] },
    pkce: { required: () => true },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_context: unknown, interaction: { uid: string }) => `/interaction/${interaction.uid}` },
    findAccount: (_context: unknown, accountId: string) => ({
      accountId,
      claims: async () => ({ ...people.get(accountId), sub: accountId }),
    }),
    async loadExistingGrant(context: { oidc: { client: { clientId: string }; session: { accountId: string } } }) {
      const grant = new provider.Grant({ clientId: context.oidc.client.clientId, accountId: context.oidc.session.accountId })
      grant.addOIDCScope('openid email profile')
      await grant.save()
      return grant
    },
  } as never)
  const handle = provider.callback()
  const signIn = async (request: IncomingMessage, response: ServerResponse) => {
    people.set(state.person.sub, state.person)
    const denied = { error: 'access_denied', error_description: 'the person said no' }
    await provider.interactionFinished(request, response, state.isDenying ? denied : { login: { accountId: state.person.sub } })
  }
  await listen(
    t,
    (request, response) => void (request.url?.startsWith('/interaction/') ? signIn(request, response) : handle(request, response)),
    port,
  )
  return { issuer, state }
}

/** How a forged provider answers: claims over the right ones, the key of the signature, what else it does. */
export interface Forgery {
  claims?: Record<string, unknown>
  signature?: 'own' | 'of a stranger' | 'none'
  /** What the browser comes back with, over the right parameters. */
  redirect?: Record<string, string | undefined>
  metadata?: Record<string, unknown>
  /** Answers instead of the provider; true when it has. */
  instead?: (path: string, response: ServerResponse) => boolean
}

/** A provider that answers as a forger or a broken one would. `signIn` plays the browser at its page. */
export async function startForgedProvider(t: Cleanup) {
  const own = await generateKeyPair('RS256', { extractable: true })
  const stranger = await generateKeyPair('RS256')
  const jwk = { ...(await exportJWK(own.publicKey)), kid: 'own', alg: 'RS256', use: 'sig' }
  const state: { forgery: Forgery; person: Person; nonce: string; asked: string[] } = {
    ...{ forgery: {}, person: { sub: 'eve', email: 'eve@example.com', email_verified: true }, nonce: '', asked: [] },
  }
  const port = await listen(t, (request, response) => void answer(request, response))
  const issuer = `http://127.0.0.1:${port}`

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname } = new URL(request.url ?? '/', issuer)
    state.asked.push(pathname)
    if (state.forgery.instead?.(pathname, response) === true) return
    const json = (body: unknown) => void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    if (pathname === '/.well-known/openid-configuration') {
      return json({
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        jwks_uri: `${issuer}/jwks`,
        response_types_supported: ['code'],
        subject_types_supported: ['public'],
        id_token_signing_alg_values_supported: ['RS256'],
        authorization_response_iss_parameter_supported: true,
        ...state.forgery.metadata,
      })
    }
    if (pathname === '/jwks') return json({ keys: [jwk] })
    if (pathname === '/token') return json({ access_token: 'x', token_type: 'Bearer', expires_in: 60, id_token: await idToken() })
    response.writeHead(404).end()
  }

  async function idToken(): Promise<string> {
    const now = Math.floor(Date.now() / 1_000)
    const claims = {
      ...state.person,
      iss: issuer,
      aud: CLIENT.clientId,
      iat: now,
      exp: now + 300,
      nonce: state.nonce,
      ...state.forgery.claims,
    }
    const { signature = 'own' } = state.forgery
    if (signature === 'none') {
      return `${[{ alg: 'none' }, claims].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')}.`
    }
    const key = signature === 'own' ? own.privateKey : stranger.privateKey
    return new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid: 'own' }).sign(key)
  }

  /** What the browser is sent back with, from the address that the store has sent it to. */
  function signIn(location: string): string {
    const asked = new URL(location).searchParams
    state.nonce = asked.get('nonce') ?? ''
    const answered = { code: 'a-code', state: asked.get('state') ?? undefined, iss: issuer, ...state.forgery.redirect }
    const given = Object.entries(answered).filter((pair): pair is [string, string] => pair[1] !== undefined)
    return `${asked.get('redirect_uri')}?${new URLSearchParams(given)}`
  }

  return { issuer, state, signIn }
}
