import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'

const PREFIX = 'whsec_'
const SECRET_BYTES = 32

/** Generates a signing secret: `whsec_` and 256 random bits in base64. */
export function generateWebhookSecret(): string {
  return PREFIX + randomBytes(SECRET_BYTES).toString('base64')
}

export interface SignedHeaders {
  'webhook-id': string
  'webhook-timestamp': string
  'webhook-signature': string
}

/**
 * The headers of a request by Standard Webhooks 1.0.0 (standardwebhooks.com), with a `v1` signature for each secret.
 */
export function signWebhook(secrets: readonly string[], id: string, sentAt: Date, body: string): SignedHeaders {
  const timestamp = String(Math.floor(sentAt.getTime() / 1_000))
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.slice(PREFIX.length), 'base64')
    return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`
  })
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures.join(' ') }
}

/** The most that a signed request's time may differ from now. */
const TOLERANCE_MS = 300_000

/** Whether this secret made one of the request's signatures, and the request's time is now. */
export function isSignedWebhook(secret: string, headers: Readonly<Record<string, unknown>>, body: string, now: Date): boolean {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures } = headers
  if (typeof id !== 'string' || typeof signatures !== 'string' || !/^\d{1,12}$/.test(String(timestamp))) return false
  const sentAt = new Date(Number(timestamp) * 1_000)
  if (Math.abs(now.getTime() - sentAt.getTime()) > TOLERANCE_MS) return false
  const expected = Buffer.from(signWebhook([secret], id, sentAt, body)['webhook-signature'])
  return signatures.split(' ').some((signature) => {
    const given = Buffer.from(signature)
    return given.length === expected.length && timingSafeEqual(given, expected)
  })
}
