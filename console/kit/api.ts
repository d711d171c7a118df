import { createStorefront, ProblemError, type Schemas, UnexpectedResponse } from '../../client/src/index.ts'
import { type components, operatorApi } from '../../client/src/operators.ts'
import { t } from './language.ts'
import { accessToken, forgetToken, NoAnswer, ownerOfPage, ROOT, send } from './session.ts'

export { isProblem, ProblemError } from '../../client/src/index.ts'
export { NoAnswer } from './session.ts'
export type { Schemas }
export type Scope = components['schemas']['User']['scopes'][number]

/** The session has ended or does not exist. The operator must sign in again. */
export class SignedOut extends Error {}

let onAway: (isAway: boolean) => void = () => {}
let askForProof: () => Promise<boolean> = async () => false
let signInAgain: () => Promise<boolean> = async () => false

/**
 * Sets the page's listeners. `away` hears whether the store answers. `proof` is called when the store wants recent
 * authentication, and `signedOut` when the session has ended: a request is repeated if they resolve to true.
 */
export function listenToApi(listeners: {
  away: (isAway: boolean) => void
  proof: () => Promise<boolean>
  signedOut: () => Promise<boolean>
}): void {
  onAway = listeners.away
  signInAgain = listeners.signedOut
  askForProof = listeners.proof
}

/** The typed client of the API. Calls throw `ProblemError` for a refusal, `SignedOut` or `NoAnswer`. */
export const api = operatorApi(createStorefront({ baseUrl: ROOT.href, fetch: sendWithSession, maxAttempts: 1 }))

/** The client for requests without a session, for people who are not signed in. */
export const anonymousApi = operatorApi(createStorefront({ baseUrl: ROOT.href, fetch: send, maxAttempts: 1 }))

export interface Answer<T> {
  data?: T
  response: Response
}

/** The body of the answer: `await read(api.GET('/me'))`. */
export async function read<T>(answer: Promise<Answer<T>>): Promise<T> {
  return (await answer).data as T
}

/** The body of the answer, and its entity tag, which a later change sends as `If-Match`. */
export async function readTagged<T>(answer: Promise<Answer<T>>): Promise<{ data: T; etag: string }> {
  const { data, response } = await answer
  return { data: data as T, etag: response.headers.get('etag') ?? '' }
}

async function sendWithSession(request: Request): Promise<Response> {
  const owner = ownerOfPage()
  const sendOnce = () => sendAs(owner, request)
  try {
    let answer = await sendOnce()
    if (answer?.status === 401) {
      forgetToken()
      answer = await sendOnce()
    }
    // A request of an operator whose page has ended concerns nobody.
    if ((answer === null || answer.status === 401) && owner === ownerOfPage() && (await signInAgain())) answer = await sendOnce()
    if (answer?.status === 403 && (await answer.clone().json()).code === 'step_up_required' && (await askForProof()))
      answer = await sendOnce()
    if (answer === null || answer.status === 401) throw new SignedOut(t`Your session has ended. Sign in again.`)
    onAway(false)
    return answer
  } catch (error) {
    if (error instanceof NoAnswer) onAway(true)
    throw error
  }
}

/** Returns null when there is no session of this operator. */
async function sendAs(owner: string | null, request: Request): Promise<Response | null> {
  const token = await accessToken(owner)
  if (token === null) return null
  // The copy lets the request be repeated: a body can be read only once.
  const copy = new Request(request.clone(), { cache: 'no-store' })
  copy.headers.set('authorization', `Bearer ${token}`)
  return send(copy)
}

/** The text that tells a person about an error. */
export function explain(error: unknown): string {
  if (error instanceof ProblemError) return [error.problem.detail, ...(error.problem.errors ?? []).map(({ detail }) => detail)].join(' ')
  if (error instanceof NoAnswer)
    return t`The store did not answer. It may have done this all the same: look before you send it again. Nothing you have entered is lost.`
  return error instanceof Error ? error.message : String(error)
}

/** Wait after a request without an answer. */
const RETRY_MS = 2_000
const MAX_RETRY_AFTER_MS = 300_000

interface PollOptions<T> {
  seconds: number
  signal: AbortSignal
  /** Called with each answer that differs from the previous one. */
  onChange: (data: T) => void
  /** Called with an error, and with null and that error when a later request succeeds. */
  onError: (error: unknown, ended?: unknown) => void
  /** Statuses of lasting refusals, such as of wrong filters, which end the polling. None by default. */
  endsAt?: readonly number[]
}

/**
 * Asks at once and then every `seconds`, with the last answer's entity tag (RFC 9110 §13.1.2), while the page is
 * visible and until `signal` aborts. `ask` gets the options of the call: `(init) => api.GET('/admin/pipeline', init)`.
 */
export async function poll<T>(
  ask: (init: { signal: AbortSignal; headers: Record<string, string> }) => Promise<Answer<T>>,
  { seconds, signal, onChange, onError, endsAt = [] }: PollOptions<T>,
): Promise<void> {
  let headers: Record<string, string> = {}
  let fault: unknown = null
  while (!signal.aborted) {
    let pauseMs = seconds * 1_000
    try {
      const answer = await ask({ signal, headers }).catch((error: unknown) => {
        if (error instanceof UnexpectedResponse && error.response.status === 304) return null
        throw error
      })
      if (fault !== null) onError(null, fault)
      fault = null
      if (answer !== null) {
        const etag = answer.response.headers.get('etag')
        headers = etag === null ? {} : { 'if-none-match': etag }
        if (!signal.aborted) onChange(answer.data as T)
      }
    } catch (error) {
      if (signal.aborted) return
      fault = error
      onError(error)
      if (error instanceof ProblemError && endsAt.includes(error.status)) return
      pauseMs = pauseAfter(error, pauseMs)
    }
    await pause(pauseMs, signal)
  }
}

/**
 * Returns a function that calls `begin` with a signal. The signal aborts at the next call, at `stop`, or with `signal`.
 */
export function restartable<A extends unknown[]>(
  signal: AbortSignal,
  begin: (signal: AbortSignal, ...given: A) => void,
): ((...given: A) => void) & { stop(): void } {
  let current = new AbortController()
  const stop = () => current.abort()
  const start = (...given: A) => {
    stop()
    current = new AbortController()
    begin(AbortSignal.any([signal, current.signal]), ...given)
  }
  return Object.assign(start, { stop })
}

/** A refusal usually lasts, so it has the usual pause unless the store names one (RFC 9110 §10.2.3). */
function pauseAfter(error: unknown, usualMs: number): number {
  if (!(error instanceof ProblemError)) return Math.min(usualMs, RETRY_MS)
  const seconds = Number(error.response.headers.get('retry-after'))
  return seconds > 0 ? Math.min(seconds * 1_000, MAX_RETRY_AFTER_MS) : usualMs
}

/** Waits for this time, and then until the page is visible. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await first(signal, (resolve) => setTimeout(resolve, ms))
  if (document.hidden) await first(signal, (resolve) => document.addEventListener('visibilitychange', resolve, { once: true }))
}

/** Resolves when `begin` calls back or `signal` aborts. */
async function first(signal: AbortSignal, begin: (resolve: () => void) => void): Promise<void> {
  const ended = new AbortController()
  await new Promise<void>((resolve) => {
    signal.addEventListener('abort', () => resolve(), { signal: ended.signal })
    begin(resolve)
  })
  ended.abort()
}
