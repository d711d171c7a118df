import { timingSafeEqual } from 'node:crypto'
import { AppError } from '../../errors.ts'
import type { KeyCaller } from '../../http/caller.ts'
import { siteOf } from '../../http/client-address.ts'
import type { Client } from '../client.ts'
import { hashToken } from '../tokens/opaque-token.ts'
import { KeyLimits, REFUSED_KEYS, REQUESTS_OF_KEY } from './key-limits.ts'
import { parseKey } from './key-text.ts'
import type { LastUses } from './last-uses.ts'
import type { LiveKey, LiveKeys } from './live-keys.ts'

interface KeyAuthenticationOptions {
  liveKeys: LiveKeys
  lastUses: LastUses
  isThrottled: boolean
  /** Whether wrong keys count for the network of their sender. */
  isByNetwork: boolean
  now: () => Date
}

/** The caller of a key. Throws `invalid_token`, the same for every wrong key, and `rate_limited`. */
export type AuthenticateKey = (token: string, client: Client) => Promise<KeyCaller>

/** Authenticates keys in memory. A right key is never refused because of wrong ones from the same address. */
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

/** The error for a key in an address, where every log and proxy on its way keeps it. */
export function keyInAddress(): AppError {
  const message = 'An API key was sent in the address, where logs keep it. Revoke it, and send keys as Authorization: Bearer … only.'
  return new AppError('invalid_token', message)
}
