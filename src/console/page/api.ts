import type { components } from '../../../client/src/schema.ts'
import { accessToken, addressOf, forgetToken } from './session.ts'

/** The named schemas of the API's document, such as `Schemas['Order']`. */
export type Schemas = components['schemas']
export type Scope = Schemas['User']['scopes'][number]

/** A refusal by the store: RFC 9457 problem details. */
export class Refusal extends Error {
  readonly problem: Schemas['Problem']
  /** When the same request may be accepted; null when the store does not say. */
  readonly retryAfterSeconds: number | null

  constructor(problem: Schemas['Problem'], retryAfter: string | null) {
    super(problem.errors === undefined ? problem.detail : `${problem.detail} ${problem.errors.map((error) => error.detail).join(' ')}`)
    this.problem = problem
    this.retryAfterSeconds = Number(retryAfter) > 0 ? Number(retryAfter) : null
  }
}

/** Whether the store has refused a call with one of these codes. */
export function isRefusal(error: unknown, ...codes: readonly string[]): error is Refusal {
  return error instanceof Refusal && codes.includes(error.problem.code)
}

/** There is no session, or it has ended: the operator signs in again. */
export class SignedOut extends Error {}

export interface CallOptions {
  /** Sent as JSON; text is sent as it is, with `contentType`. */
  body?: unknown
  contentType?: string
  ifMatch?: string
  headers?: Readonly<Record<string, string>>
  signal?: AbortSignal
}

const listeners = new Set<(isAway: boolean) => void>()

/** Calls `listener` whenever the store is known to answer, or not to. */
export function onAway(listener: (isAway: boolean) => void): void {
  listeners.add(listener)
}

let askForProof: () => Promise<boolean> = async () => false

/** Calls `ask` when the store wants a fresh proof of who is here; the request is repeated after it resolves to true. */
export function onProofNeeded(ask: () => Promise<boolean>): void {
  askForProof = ask
}

/** Sends a request with the operator's token. Throws Refusal, SignedOut, or TypeError while the store does not answer. */
export async function send(method: string, path: string, options: CallOptions = {}): Promise<Response> {
  try {
    return await sendWithToken(method, path, options)
  } catch (error) {
    if (!isRefusal(error, 'step_up_required') || !(await askForProof())) throw error
    return sendWithToken(method, path, options)
  }
}

async function sendWithToken(method: string, path: string, options: CallOptions): Promise<Response> {
  try {
    let answer = await sendOnce(method, path, options)
    if (answer.status === 401) {
      forgetToken()
      answer = await sendOnce(method, path, options)
    }
    for (const listener of listeners) listener(false)
    if (answer.status === 401) throw new SignedOut('Your session has ended. Sign in again.')
    if (answer.ok || answer.status === 304) return answer
    if (answer.headers.get('content-type')?.startsWith('application/problem+json'))
      throw new Refusal(await answer.json(), answer.headers.get('retry-after'))
    throw new TypeError(`the store answered ${answer.status}`)
  } catch (error) {
    if (error instanceof TypeError) for (const listener of listeners) listener(true)
    throw error
  }
}

async function sendOnce(
  method: string,
  path: string,
  { body, contentType, ifMatch, headers = {}, signal }: CallOptions,
): Promise<Response> {
  const token = await accessToken()
  if (token === null) throw new SignedOut('Sign in.')
  const isText = typeof body === 'string' || body instanceof Blob
  return fetch(addressOf(path), {
    method,
    cache: 'no-store',
    headers: {
      authorization: `Bearer ${token}`,
      ...(body === undefined ? {} : { 'content-type': contentType ?? 'application/json' }),
      ...(ifMatch === undefined ? {} : { 'if-match': ifMatch }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: isText ? body : JSON.stringify(body) }),
    ...(signal === undefined ? {} : { signal }),
  })
}

/** Sends a request and reads the JSON of its answer; undefined without a body. */
export async function call<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
  const answer = await send(method, path, options)
  return (answer.status === 204 ? undefined : await answer.json()) as T
}

/** Writes a path whose values, such as an id from the address, stay one segment each: no `/`, `?` or `..` of them leads elsewhere. */
export function pathOf(fixed: TemplateStringsArray, ...values: readonly string[]): string {
  // Browsers read `%2E%2E` as `..`, too.
  const segments = values.map((value) => (/^\.{1,2}$/.test(value) ? value.replaceAll('.', '%252E') : encodeURIComponent(value)))
  return String.raw({ raw: fixed }, ...segments)
}

/** A path with these query parameters; empty ones are left out. */
export function withQuery(path: string, query: Readonly<Record<string, string | number | boolean | null | undefined>>): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== '')
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString()
  return text === '' ? path : `${path}?${text}`
}

/** A request that got no answer is repeated soon. */
const RETRY_MS = 2_000
const MAX_RETRY_AFTER_MS = 300_000

interface PollOptions<T> {
  seconds: number
  signal: AbortSignal
  /** Called with each answer that differs from the one before. */
  onChange: (data: T) => void
  /** Called with an error, and with null when a request succeeds after one. While the store does not answer, the page has its own line for that. */
  onError: (error: Error | null) => void
  /** Statuses of refusals that stay, such as of filters that are wrong: none unless given. */
  endsAt?: readonly number[]
}

/** Asks for `path` now and every `seconds` with the entity tag of the last answer (RFC 9110 §13.1.2), while the page is visible, until `signal`. */
export async function poll<T>(path: string, { seconds, signal, onChange, onError, endsAt = [] }: PollOptions<T>): Promise<void> {
  let etag: string | null = null
  let hasFailed = false
  while (!signal.aborted) {
    let pauseMs = seconds * 1_000
    try {
      const answer = await send('GET', path, { signal, headers: etag === null ? {} : { 'if-none-match': etag } })
      if (hasFailed) onError(null)
      hasFailed = false
      if (answer.status !== 304) {
        etag = answer.headers.get('etag')
        const data = (await answer.json()) as T
        if (!signal.aborted) onChange(data)
      }
    } catch (error) {
      if (signal.aborted) return
      hasFailed = true
      onError(error as Error)
      if (error instanceof SignedOut || (error instanceof Refusal && endsAt.includes(error.problem.status))) return
      pauseMs = pauseAfter(error, pauseMs)
    }
    await pause(pauseMs, signal)
  }
}

/** Returns a function that calls `begin` with a signal, which aborts at the next call and with `signal`. */
export function restartable<A extends unknown[]>(
  signal: AbortSignal,
  begin: (signal: AbortSignal, ...given: A) => void,
): (...given: A) => void {
  let current = new AbortController()
  return (...given) => {
    current.abort()
    current = new AbortController()
    begin(AbortSignal.any([signal, current.signal]), ...given)
  }
}

/** A refusal will not change soon, unless the store says when (RFC 9110 §10.2.3). */
function pauseAfter(error: unknown, usualMs: number): number {
  if (!(error instanceof Refusal)) return Math.min(usualMs, RETRY_MS)
  return error.retryAfterSeconds === null ? usualMs : Math.min(error.retryAfterSeconds * 1_000, MAX_RETRY_AFTER_MS)
}

/** Ends early when the page becomes visible after the time has passed; a hidden page waits. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve()
    })
  })
  if (!document.hidden) return
  await new Promise<void>((resolve) => {
    document.addEventListener('visibilitychange', () => resolve(), { once: true })
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
