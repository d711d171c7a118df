import { answerWithPasskey } from './passkey-ceremony.ts'
import { setTimeZone } from './times.ts'

/** A session of the console. The refresh token is in a cookie that no script can read; the access token is in memory only. */
const ROOT = new URL('.', location.href)
/** Refreshed this long before it expires, so that no request is refused. */
const MARGIN_MS = 60_000
/** For an answer to signing out. */
const SIGN_OUT_MS = 10_000

interface Access {
  access_token: string
  /** Seconds. */
  expires_in: number
  /** The shop's. */
  time_zone: string
}

let current: { token: string; renewAt: number } | null = null
let renewal: Promise<boolean> | null = null
/** Whether the operator is signing out, until the store has ended the session: nothing renews it in between. */
let isEnding = false

/** The address of a path of the API, which may have a prefix. */
export function addressOf(path: string): URL {
  return new URL(path.replace(/^\//, ''), ROOT)
}

/** What the store asks for after the password. */
export interface SecondFactorQuestion {
  challenge: string
  methods: string[]
  passkey_options: object | null
}

/** A sign-in that is not complete: `question` is null for a refusal. */
export interface Unfinished {
  code: string
  detail: string
  question: SecondFactorQuestion | null
}

/** Returns null after a sign-in. */
export function signIn(email: string, password: string): Promise<Unfinished | null> {
  return openSession('console/session', { email, password })
}

/** Returns null after a sign-in. `proof` has one of `totp_code`, `recovery_code` and `passkey`. */
export function sendSecondFactor(challenge: string, proof: object): Promise<Unfinished | null> {
  return openSession('console/session/second-factor', { challenge, ...proof })
}

/** Returns null after a sign-in. Throws DOMException when the operator cancels. */
export async function signInWithPasskey(): Promise<Unfinished | null> {
  const answer = await fetch(addressOf('auth/passkey/options'), { method: 'POST' })
  const begun = await answer.json()
  if (!answer.ok) return { ...begun, question: null }
  return openSession('console/session/passkey', { passkey: await answerWithPasskey(begun.options) })
}

async function openSession(path: string, body: object): Promise<Unfinished | null> {
  const answer = await fetch(addressOf(path), {
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

/** Throws when the store has not ended the session. */
export async function signOut(): Promise<void> {
  isEnding = true
  current = null
  // A renewal's answer replaces the cookie, so it comes first.
  await renewal?.catch(() => {})
  const signal = AbortSignal.timeout(SIGN_OUT_MS)
  const answer = await withLock(() => fetch(addressOf('console/session'), { method: 'DELETE', signal }))
  if (answer.status !== 204) throw new TypeError(`the store answered ${answer.status}`)
  isEnding = false
  current = null
}

/** The access token, a new one if need be; null without a session. Throws TypeError while the store does not answer. */
export async function accessToken(): Promise<string | null> {
  if (isEnding) return null
  if (current !== null && Date.now() < current.renewAt) return current.token
  return (await renew()) ? (current?.token ?? null) : null
}

/** Called after a refusal of the token. */
export function forgetToken(): void {
  current = null
}

/** One at a time, in all tabs: each renewal replaces the cookie. */
async function renew(): Promise<boolean> {
  renewal ??= withLock(async () => {
    const answer = await fetch(addressOf('console/session/refresh'), { method: 'POST' })
    if (answer.status === 204) {
      current = null
      return false
    }
    if (!answer.ok) throw new TypeError(`the store answered ${answer.status}`)
    keep(await answer.json())
    return true
  }).finally(() => {
    renewal = null
  })
  return renewal
}

/** Locks exist on pages with TLS and on this machine only. */
function withLock<T>(work: () => Promise<T>): Promise<T> {
  return navigator.locks === undefined ? work() : navigator.locks.request('storefront-console', work)
}

function keep({ access_token, expires_in, time_zone }: Access): void {
  setTimeZone(time_zone)
  const lifetimeMs = expires_in * 1_000
  current = { token: access_token, renewAt: Date.now() + Math.max(lifetimeMs - MARGIN_MS, lifetimeMs / 2) }
}
