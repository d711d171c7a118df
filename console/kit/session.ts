import type { components } from '../../client/src/operators.ts'
import { t } from './language.ts'
import { answerWithPasskey } from './passkey-ceremony.ts'
import { setTimeZone } from './times.ts'

/** The base address of the console and the API. */
export const ROOT = new URL('.', location.href)
/** Time before the expiry at which a token is refreshed, so that no request is refused. */
const MARGIN_MS = 60_000
/** Longest wait for an answer about the session. Other tabs wait meanwhile. */
const ANSWER_MS = 10_000

/** The signed-in operator, and what the role may do. */
export type Operator = Pick<components['schemas']['User'], 'id' | 'role' | 'scopes'>

interface Access {
  access_token: string
  /** Lifetime in seconds. */
  expires_in: number
  /** The shop's time zone. */
  time_zone: string
  operator: Operator
}

let current: { token: string; renewAt: number; operator: Operator } | null = null
/** The operator of the page. Another one can sign in in another tab, which has the same cookie. */
let owner: string | null = null
let renewal: Promise<boolean> | null = null
/** Whether the operator is signing out. Nothing renews the session until the store has ended it. */
let isEnding = false

/** The store did not answer, or a proxy in front of it did. */
export class NoAnswer extends Error {}

/** Like `fetch`, but throws NoAnswer in place of the browser's errors, except for an aborted request. */
export async function send(request: Request | URL, init: RequestInit = {}): Promise<Response> {
  const answer = await fetch(request, init).catch((error: unknown) => {
    throw error instanceof DOMException && error.name === 'AbortError' ? error : new NoAnswer(t`The store does not answer.`)
  })
  const isOfStore = answer.ok || answer.status === 304 || answer.headers.get('content-type')?.startsWith('application/problem+json')
  if (!isOfStore) throw new NoAnswer(t`Something in front of the store answered ${answer.status}.`)
  return answer
}

/** The URL of an API path below the console's base address. */
export function addressOf(path: string): URL {
  return new URL(path.replace(/^\//, ''), ROOT)
}

/** The store's question after the password. */
export interface SecondFactorQuestion {
  challenge: string
  methods: string[]
  passkey_options: object | null
}

/** A sign-in that is not complete. `question` is null when the store has refused it. */
export interface Unfinished {
  code: string
  detail: string
  question: SecondFactorQuestion | null
}

/** Returns null after a sign-in. */
export function signIn(email: string, password: string): Promise<Unfinished | null> {
  return openSession('console/session', { email, password })
}

/** Returns null after a sign-in. */
export function sendSecondFactor(challenge: string, proof: object): Promise<Unfinished | null> {
  return openSession('console/session/second-factor', { challenge, ...proof })
}

/** Returns null after a sign-in. */
export async function signInWithPasskey(): Promise<Unfinished | null> {
  const answer = await send(addressOf('auth/passkey/options'), { method: 'POST' })
  const begun = await answer.json()
  if (!answer.ok) return { ...begun, question: null }
  return openSession('console/session/passkey', { passkey: await answerWithPasskey(begun.options) })
}

async function openSession(path: string, body: object): Promise<Unfinished | null> {
  const answer = await send(addressOf(path), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const result = await answer.json()
  if (!answer.ok) return { ...result, question: result.code === 'second_factor_required' ? result : null }
  isEnding = false
  keep(result)
  return null
}

/** Throws NoAnswer or the store's refusal when the session has not ended. */
export async function signOut(): Promise<void> {
  isEnding = true
  current = null
  // A renewal replaces the cookie when its answer comes, so signing out waits for it.
  await renewal?.catch(() => {})
  const answer = await withLock(() => send(addressOf('console/session'), { method: 'DELETE', signal: AbortSignal.timeout(ANSWER_MS) }))
  if (!answer.ok) throw new Error((await answer.json()).detail)
  isEnding = false
  current = null
}

/** The page is that of this operator, or of nobody. */
export function setOwner(id: string | null): void {
  owner = id
}

export function ownerOfPage(): string | null {
  return owner
}

/** Starts the page again if the session is that of another operator. Resolves to false otherwise. */
export function startAgainForAnother(): Promise<boolean> {
  if (current === null || current.operator.id === owner) return Promise.resolve(false)
  location.reload()
  // The page ends, and nothing else is to happen on it.
  return new Promise(() => {})
}

/**
 * The valid access token, renewed if needed, or null without a session of the operator `of`. Throws NoAnswer or the
 * store's refusal.
 */
export async function accessToken(of = owner): Promise<string | null> {
  const found = await session()
  return of === null || found?.operator.id === of ? (found?.token ?? null) : null
}

/** The signed-in operator, or null without a session. Throws like `accessToken`. */
export async function findOperator(): Promise<Operator | null> {
  return (await session())?.operator ?? null
}

async function session(): Promise<typeof current> {
  if (isEnding) return null
  if (current !== null && Date.now() < current.renewAt) return current
  return (await renew()) ? current : null
}

/** Call it after the store has refused the token. */
export function forgetToken(): void {
  current = null
}

/** Renewals of all tabs run one after the other, because each one replaces the cookie. */
async function renew(): Promise<boolean> {
  renewal ??= withLock(async () => {
    const answer = await send(addressOf('console/session/refresh'), { method: 'POST', signal: AbortSignal.timeout(ANSWER_MS) })
    if (answer.status === 204) {
      current = null
      return false
    }
    // The store limits requests or is overloaded, so a later request will be answered.
    if (answer.status === 429 || answer.status >= 500) throw new NoAnswer(t`The store does not answer.`)
    if (!answer.ok) throw new Error((await answer.json()).detail)
    keep(await answer.json())
    return true
  }).finally(() => {
    renewal = null
  })
  return renewal
}

/** Browsers have locks only for pages with TLS and on localhost. */
function withLock<T>(work: () => Promise<T>): Promise<T> {
  return navigator.locks === undefined ? work() : navigator.locks.request('storefront-console', work)
}

function keep({ access_token, expires_in, time_zone, operator }: Access): void {
  setTimeZone(time_zone)
  const lifetimeMs = expires_in * 1_000
  current = { token: access_token, renewAt: Date.now() + Math.max(lifetimeMs - MARGIN_MS, lifetimeMs / 2), operator }
}
