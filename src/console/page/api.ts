import type { components } from '../../../client/src/schema.ts'
import { accessToken, addressOf, forgetToken } from './session.ts'

/** The named schemas of the API's document, such as `Schemas['Order']`. */
export type Schemas = components['schemas']

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
    if (!(error instanceof Refusal) || error.problem.code !== 'step_up_required' || !(await askForProof())) throw error
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
