import { readProblem, UnexpectedResponse } from './problem.ts'
import type { TokenStore, Tokens } from './tokens.ts'

export interface SendOptions {
  baseUrl: string
  tokens: TokenStore
  fetch: (request: Request) => Promise<Response>
  /** The most times that a request is sent, including the first. */
  maxAttempts: number
  /** The longest wait before one retry, in milliseconds. A `Retry-After` above it is not waited for. */
  maxDelayMs: number
  random: () => number
}

const BASE_DELAY_MS = 200
/** Calls that need no session, and calls that open or renew one. They send no access token. */
const WITHOUT_TOKEN = [
  '/auth/register',
  '/auth/login',
  '/auth/refresh',
  '/auth/verify-email',
  '/auth/password-reset',
  '/auth/password-reset/confirm',
  '/auth/email/revert',
]

/**
 * Sends requests with the session's access token. An expired token is refreshed once for all calls that wait for it.
 * After a lost connection, 429 or 503, a request is retried if that cannot do its work twice, after the time in
 * `Retry-After`.
 */
export function createSend(options: SendOptions): (request: Request) => Promise<Response> {
  const { tokens, maxAttempts } = options
  const refreshSession = shareRefresh(options, send)
  return send

  async function send(request: Request): Promise<Response> {
    let session: Tokens | null = null
    let hasRefreshed = false
    for (let attempt = 1; ; attempt++) {
      if (takesToken(request, options.baseUrl)) {
        const current = await tokens.load()
        if ((attempt > 1 || hasRefreshed) && !isSameSession(session, current))
          throw new SessionChanged('the session changed during the call')
        session = current
      }
      const response = await sendOnce(request, session?.access_token).catch((error: unknown) => {
        if (attempt >= maxAttempts || request.signal.aborted || !isRepeatable(request)) throw error
        return null
      })
      if (response?.status === 401 && session !== null && !hasRefreshed && (await isTokenRefused(response))) {
        hasRefreshed = true
        const refusal = await refreshSession(session.refresh_token)
        if (refusal === null) continue
        // The session has ended, which answers the request. Any other refusal answers the refresh, such as an overload.
        return (await tokens.load()) === null ? response : refusal
      }
      const delayMs = response === null ? backoff(attempt) : await retryDelay(request, response, attempt)
      if (delayMs === null || attempt >= maxAttempts) return response as Response
      await wait(delayMs, request.signal)
    }
  }

  function sendOnce(request: Request, accessToken: string | undefined): Promise<Response> {
    // The request is copied, because its body can be read only once.
    const copy = request.clone()
    if (accessToken !== undefined) copy.headers.set('authorization', `Bearer ${accessToken}`)
    return options.fetch(copy)
  }

  /** The milliseconds until the request may be retried. Null if it must not be. */
  async function retryDelay(request: Request, response: Response, attempt: number): Promise<number | null> {
    const isBusy = response.status === 429 || (response.status === 503 && isRepeatable(request)) || (await isInProgress(request, response))
    if (!isBusy) return null
    const seconds = Number(response.headers.get('retry-after') ?? Number.NaN)
    if (Number.isNaN(seconds)) return backoff(attempt)
    const delayMs = Math.max(0, seconds) * 1_000
    return delayMs > options.maxDelayMs ? null : Math.min(options.maxDelayMs, delayMs + options.random() * (BASE_DELAY_MS + delayMs / 4))
  }

  /** Full jitter, so clients that failed together do not return together. */
  function backoff(attempt: number): number {
    return options.random() * Math.min(options.maxDelayMs, BASE_DELAY_MS * 2 ** attempt)
  }
}

/** Whether sending the request twice does its work only once. */
function isRepeatable({ method, headers, url }: Request): boolean {
  // A repeated refresh gets the same tokens for some seconds.
  return ['GET', 'HEAD', 'PUT', 'DELETE'].includes(method) || headers.has('idempotency-key') || url.endsWith('/auth/refresh')
}

/** Whether the store still processes an earlier sending of the same request. */
async function isInProgress(request: Request, response: Response): Promise<boolean> {
  return response.status === 409 && isRepeatable(request) && (await readProblem(response))?.code === 'request_in_progress'
}

async function isTokenRefused(response: Response): Promise<boolean> {
  return (await readProblem(response))?.code === 'invalid_token'
}

function takesToken(request: Request, baseUrl: string): boolean {
  const path = request.url.slice(baseUrl.length).split('?', 1)[0] ?? ''
  // The catalogue ignores tokens. Without one, its answers can come from a cache, and browsers send no preflight
  // request.
  return !WITHOUT_TOKEN.includes(path) && !/^\/products(\/|$)/.test(path)
}

/**
 * The call's session ended while the call waited: the customer logged out, or another one logged in. Nothing more was
 * sent.
 */
export class SessionChanged extends Error {
  override readonly name = 'SessionChanged'
}

/** Whether both are of one session. A call belongs to one, because its retry must not act for another customer. */
export function isSameSession(before: Tokens | null, now: Tokens | null): boolean {
  const ids = [before, now].map((tokens) => (tokens === null ? 'none' : sessionIdOf(tokens.access_token)))
  // A token that cannot be read is one that the store refuses.
  return ids[0] === ids[1] || ids.includes(null)
}

/** The claim `sid` of an access token (RFC 9068); null if it has none. */
function sessionIdOf(accessToken: string): string | null {
  try {
    const payload = (accessToken.split('.')[1] ?? '').replaceAll('-', '+').replaceAll('_', '/')
    return (JSON.parse(atob(payload)) as { sid?: string }).sid ?? null
  } catch {
    return null
  }
}

/**
 * Refreshes a session, once for all simultaneous calls. Returns null if there are new tokens, otherwise the refusal.
 */
function shareRefresh({ baseUrl, tokens }: SendOptions, send: (request: Request) => Promise<Response>) {
  const running = new Map<string, Promise<Response | null>>()
  return (refreshToken: string): Promise<Response | null> => {
    const shared = running.get(refreshToken) ?? refresh(refreshToken).finally(() => running.delete(refreshToken))
    running.set(refreshToken, shared)
    return shared
  }

  async function refresh(refreshToken: string): Promise<Response | null> {
    // Since this request was sent, another call or tab has refreshed or ended the session.
    if ((await tokens.load())?.refresh_token !== refreshToken) return null
    const response = await send(
      new Request(`${baseUrl}/auth/refresh`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ refresh_token: refreshToken }),
      }),
    )
    const next = response.ok ? await readTokens(response.clone()) : null
    const isRefused = (await readProblem(response))?.code === 'invalid_refresh_token'
    // A logout or another login during the refresh stays. Only the store's own refusal ends a session.
    const isCurrent = (await tokens.load())?.refresh_token === refreshToken
    if (isCurrent && (next !== null || isRefused)) await tokens.save(next)
    return next === null ? response : null
  }
}

async function readTokens(response: Response): Promise<Tokens> {
  const body = (await response.json().catch(() => null)) as Partial<Tokens> | null
  if (typeof body?.access_token !== 'string' || typeof body.refresh_token !== 'string') throw new UnexpectedResponse(response)
  return { access_token: body.access_token, refresh_token: body.refresh_token }
}

function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer)
      reject(signal.reason)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', abort)
      resolve()
    }, ms)
    if (signal.aborted) abort()
    else signal.addEventListener('abort', abort, { once: true })
  })
}
