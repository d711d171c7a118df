import { timingSafeEqual } from 'node:crypto'
import { AppError } from '../../errors.ts'
import type { KeyCaller } from '../../http/caller.ts'
import { siteOf } from '../../http/client-address.ts'
import type { Client } from '../client.ts'
import { hashToken } from '../tokens/opaque-token.ts'
import { parseKey } from './key-text.ts'
import type { LastUses } from './last-uses.ts'
import type { LiveKey, LiveKeys } from './live-keys.ts'

interface KeyAuthenticationOptions {
  liveKeys: LiveKeys
  lastUses: LastUses
  isThrottled: boolean
  /** Whether wrong keys are counted by the sender's network. */
  isByNetwork: boolean
  now: () => Date
}

/** Returns a key's caller. Throws the same `invalid_token` for every wrong key, and `rate_limited`. */
export type AuthenticateKey = (token: string, client: Client) => Promise<KeyCaller>

/** Authenticates keys in memory. Wrong keys from an address never block a correct key from the same address. */
export function createAuthenticateKey({ liveKeys, lastUses, isThrottled, isByNetwork, now }: KeyAuthenticationOptions): AuthenticateKey {
  const requests = new KeyLimits(REQUESTS_OF_KEY)
  const refused = new KeyLimits(REFUSED_KEYS)

  const refuse = (client: Client, reason: string, keyId?: string): AppError => {
    const count = isThrottled && isByNetwork ? refused.count(siteOf(client.address)) : 1
    if (count <= REFUSED_KEYS.points) client.record('api_key_refused', { reason, ...(keyId === undefined ? {} : { key_id: keyId }) })
    if (count === REFUSED_KEYS.points + 1) client.record('throttled', { limit: REFUSED_KEYS.name })
    return count > REFUSED_KEYS.points ? refused.refusal() : wrongKey()
  }

  return async (token, client) => {
    const text = parseKey(token)
    if (text === null) throw refuse(client, 'malformed')
    const key = await liveKeys.find(text.id)
    if (key === undefined) throw refuse(client, 'unknown_or_revoked', text.id)
    const nowMs = now().getTime()
    if (!hasSecret(key, text.secret, nowMs)) throw refuse(client, 'wrong_secret', key.id)
    if (key.expiresAtMs !== null && key.expiresAtMs <= nowMs) throw refuse(client, 'expired', key.id)
    if (isThrottled) {
      const count = requests.count(key.id)
      if (count === REQUESTS_OF_KEY.points + 1) client.record('throttled', { limit: REQUESTS_OF_KEY.name, key_id: key.id })
      if (count > REQUESTS_OF_KEY.points) throw requests.refusal()
    }
    lastUses.note(key.id)
    return { kind: 'key', keyId: key.id, scopes: key.scopes }
  }
}

function hasSecret({ secretHash, previous }: LiveKey, secret: string, nowMs: number): boolean {
  const presented = hashToken(secret)
  if (timingSafeEqual(presented, secretHash)) return true
  return previous !== null && nowMs < previous.expiresAtMs && timingSafeEqual(presented, previous.secretHash)
}

function wrongKey(): AppError {
  return new AppError('invalid_token', 'The API key is not complete, is unknown, has expired or was revoked.')
}

/** The error for a key in a URL, which logs and proxies store. */
export function keyInAddress(): AppError {
  const message = 'An API key was sent in the address, where logs keep it. Revoke it, and send keys as Authorization: Bearer … only.'
  return new AppError('invalid_token', message)
}

/** `points` of one client in `seconds`. */
interface Limit {
  name: string
  points: number
  seconds: number
}

/** A hundred requests a second on average. This slows a client that loops without a pause. */
export const REQUESTS_OF_KEY: Limit = { name: 'api-key', points: 1_000, seconds: 10 }
/** Machines do not mistype. More refusals mean a wrong configuration or guessing. */
export const REFUSED_KEYS: Limit = { name: 'api-key-refused', points: 60, seconds: 60 }
const MAX_CLIENTS = 10_000

/**
 * Counts in fixed windows in this process's memory, so a check needs no query. Clients beyond `MAX_CLIENTS` are not
 * counted.
 */
class KeyLimits {
  readonly #limit: Limit
  readonly #counts = new Map<string, number>()
  #startedAt = Number.NEGATIVE_INFINITY

  constructor(limit: Limit) {
    this.#limit = limit
  }

  /** The count in this window, including this call. */
  count(client: string): number {
    if (performance.now() - this.#startedAt >= this.#limit.seconds * 1000) {
      this.#startedAt = performance.now()
      this.#counts.clear()
    }
    const count = (this.#counts.get(client) ?? 0) + 1
    if (count > 1 || this.#counts.size < MAX_CLIENTS) this.#counts.set(client, count)
    return count
  }

  /** `rate_limited`, with header fields by draft-ietf-httpapi-ratelimit-headers. */
  refusal(): AppError {
    const { name, points, seconds } = this.#limit
    const waitSeconds = Math.max(1, Math.ceil(seconds - (performance.now() - this.#startedAt) / 1000))
    return new AppError('rate_limited', `Too many requests. Try again in ${waitSeconds} seconds.`, {
      headers: {
        'retry-after': String(waitSeconds),
        ratelimit: `"${name}";r=0;t=${waitSeconds}`,
        'ratelimit-policy': `"${name}";q=${points};w=${seconds}`,
      },
    })
  }
}
