import { once } from 'node:events'
import http from 'node:http'
import https from 'node:https'
import { PrivateAddress, publicLookup } from './public-address.ts'
import type { SignedHeaders } from './webhook-signature.ts'
import { mayBePublic } from './webhook-url.ts'

export interface WebhookSenderOptions {
  /** Whether loopback, private and other addresses off the public internet may be reached, and plain http be spoken. */
  isPrivateAllowed: boolean
  /** For everything from the name's resolution to the answer's status. */
  timeoutMs?: number
}

export interface WebhookAnswer {
  status: number
  /** The header `Retry-After` as it came. */
  retryAfter: string | null
}

export interface WebhookSender {
  /** Posts once and gives the answer, be it a redirect, which is not followed. Throws when there is none. */
  send(url: string, headers: SignedHeaders, body: string): Promise<WebhookAnswer>
  /** Ends what is still going on. Idempotent. */
  close(): void
}

const TIMEOUT_MS = 15_000
// An answer's body is of no interest; reading a little of it keeps the connection for the next delivery.
const BODY_MAX_BYTES = 16_384
const IDLE_MS = 30_000

/** Sends webhooks over connections that go nowhere but where they may. */
export function createWebhookSender({ isPrivateAllowed, timeoutMs = TIMEOUT_MS }: WebhookSenderOptions): WebhookSender {
  const connecting = { keepAlive: true, timeout: IDLE_MS, maxFreeSockets: 8, ...(isPrivateAllowed ? {} : { lookup: publicLookup }) }
  const agents = { 'http:': new http.Agent(connecting), 'https:': new https.Agent(connecting) }

  async function post(url: URL, headers: SignedHeaders, body: string, signal: AbortSignal): Promise<WebhookAnswer> {
    const options = { method: 'POST', headers: { ...BASIC_HEADERS, ...headers, 'content-length': Buffer.byteLength(body) }, signal }
    const request =
      url.protocol === 'https:'
        ? https.request(url, { ...options, agent: agents['https:'] })
        : http.request(url, { ...options, agent: agents['http:'] })
    request.end(body)
    try {
      const [response] = (await once(request, 'response')) as [http.IncomingMessage]
      // From here on a fault concerns the rest of the body only.
      request.on('error', () => {})
      drain(response)
      return { status: response.statusCode ?? 0, retryAfter: response.headers['retry-after'] ?? null }
    } catch (error) {
      const isStale = request.reusedSocket && (error as { code?: string }).code === 'ECONNRESET'
      // The receiver had closed an idle connection just then: that says nothing about it.
      if (isStale && !signal.aborted) return post(url, headers, body, signal)
      throw signal.aborted ? new Error(`no answer within ${timeoutMs / 1_000} s`) : error
    }
  }

  return {
    async send(text, headers, body) {
      const url = new URL(text)
      // The setting may have changed since the endpoint was added.
      if (!isPrivateAllowed && url.protocol !== 'https:') throw new PrivateAddress('plain http is not allowed')
      // For an address instead of a name, a socket asks no lookup.
      if (!isPrivateAllowed && !mayBePublic(url)) throw new PrivateAddress(`${url.hostname} is not a public address`)
      return post(url, headers, body, AbortSignal.timeout(timeoutMs))
    },
    close() {
      agents['http:'].destroy()
      agents['https:'].destroy()
    },
  }
}

// CloudEvents 1.0, HTTP protocol binding, structured content mode: libraries know the body for an event by this type alone.
const BASIC_HEADERS = { 'content-type': 'application/cloudevents+json; charset=utf-8', 'user-agent': 'Storefront-Webhooks' }

function drain(response: http.IncomingMessage): void {
  let size = 0
  response.on('error', () => {})
  response.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size > BODY_MAX_BYTES) response.destroy()
  })
}
