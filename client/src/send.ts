import { readProblem } from './problem.ts'
import type { TokenStore } from './tokens.ts'

export interface SendOptions {
  baseUrl: string
  tokens: TokenStore
  fetch: (request: Request) => Promise<Response>
  /** How often a request is sent at most, the first time included. */
  maxAttempts: number
  /** The longest wait before one retry, in milliseconds. A `Retry-After` above it is not waited for. */
  maxDelayMs: number
  random: () => number
}

const BASE_DELAY_MS = 200
/** Calls that open or renew a session: they carry no access token. */
const WITHOUT_TOKEN = [
  '/auth/register',
  '/auth/login',
  '/auth/refresh',
  '/auth/verify-email',
  '/auth/password-reset',
  '/auth/password-reset/confirm',
]

/**
 * Sends requests with the access token of the session. A token that has expired is refreshed once for all calls that wait for it. A request
 * is sent again after a lost connection, 429 or 503 if that cannot do its work twice, after the time that `Retry-After` names.
 */
export function createSend(options: SendOptions): (request: Request) => Promise<Response> {
  const { tokens, maxAttempts } = options
  const refreshSession = shareRefresh(options)

  return async (request) => {
    let hasRefreshed = false
    for (let attempt = 1; ; attempt++) {
      const session = takesToken(request, options.baseUrl) ? await tokens.load() : null
      const response = await sendOnce(request, session?.access_token).catch((error: unknown) => {
        if (attempt >= maxAttempts || request.signal.aborted || !isRepeatable(request)) throw error
        return null
      })
      if (response?.status === 401 && session !== null && !hasRefreshed && (await isTokenRefused(response))) {
        hasRefreshed = true
        if (await refreshSession(session.refresh_token)) continue
        return response
      }
      const delayMs = response === null ? backoff(attempt) : await retryDelay(request, response, attempt)
      if (delayMs === null || attempt >= maxAttempts) return response as Response
      await wait(delayMs, request.signal)
    }
  }

  function sendOnce(request: Request, accessToken: string | undefined): Promise<Response> {
    // A copy: the body of a request can be read once.
    const copy = request.clone()
    if (accessToken !== undefined) copy.headers.set('authorization', `Bearer ${accessToken}`)
    return options.fetch(copy)
  }

  /** Milliseconds until the request may be sent again, null when it must not be. */
  async function retryDelay(request: Request, response: Response, attempt: number): Promise<number | null> {
    const isBusy = response.status === 429 || (response.status === 503 && isRepeatable(request)) || (await isInProgress(request, response))
    if (!isBusy) return null
    const seconds = Number(response.headers.get('retry-after') ?? Number.NaN)
    if (Number.isNaN(seconds)) return backoff(attempt)
    const delayMs = seconds * 1_000
    return delayMs > options.maxDelayMs ? null : Math.min(options.maxDelayMs, delayMs + options.random() * (BASE_DELAY_MS + delayMs / 4))
  }

  /** Full jitter: clients that failed together do not return together. */
  function backoff(attempt: number): number {
    return options.random() * Math.min(options.maxDelayMs, BASE_DELAY_MS * 2 ** attempt)
  }
}

/** Whether sending the request twice does its work once. */
function isRepeatable({ method, headers }: Request): boolean {
  return ['GET', 'HEAD', 'PUT', 'DELETE'].includes(method) || headers.has('idempotency-key')
}

/** Whether an earlier sending of the same request is still being worked on. */
async function isInProgress(request: Request, response: Response): Promise<boolean> {
  return response.status === 409 && isRepeatable(request) && (await readProblem(response))?.code === 'request_in_progress'
}

async function isTokenRefused(response: Response): Promise<boolean> {
  return (await readProblem(response))?.code === 'invalid_token'
}

function takesToken(request: Request, baseUrl: string): boolean {
  const path = request.url.slice(baseUrl.length).split('?', 1)[0] ?? ''
  // The catalogue looks at no token; without one its answers can come from a cache, and browsers ask no permission first.
  return !WITHOUT_TOKEN.includes(path) && !/^\/products(\/|$)/.test(path)
}

/** Refreshes a session, once for all calls that ask at the same time. Answers whether there are tokens to continue with. */
function shareRefresh({ baseUrl, tokens, fetch }: SendOptions): (refreshToken: string) => Promise<boolean> {
  let running: Promise<boolean> | null = null
  return (refreshToken) => {
    running ??= refresh(refreshToken).finally(() => {
      running = null
    })
    return running
  }

  async function refresh(refreshToken: string): Promise<boolean> {
    const current = await tokens.load()
    // Another call, or another tab, has refreshed it since this one was sent.
    if (current !== null && current.refresh_token !== refreshToken) return true
    const response = await fetch(
      new Request(`${baseUrl}/auth/refresh`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ refresh_token: refreshToken }),
      }),
    )
    if (response.ok) await tokens.save((await response.json()) as { access_token: string; refresh_token: string })
    // Only the store's own refusal ends a session: a proxy's error page or an overload does not.
    else if ((await readProblem(response))?.code === 'invalid_refresh_token') await tokens.save(null)
    return response.ok
  }
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
