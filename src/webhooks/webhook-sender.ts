import { once } from 'node:events'
import http from 'node:http'
import https from 'node:https'
import { PrivateAddress, publicLookup } from './public-address.ts'
import type { SignedHeaders } from './webhook-signature.ts'
import { mayBePublic } from './webhook-url.ts'

export interface WebhookSenderOptions {
  /** Whether plain http and non-public addresses, such as loopback and private ones, are allowed. */
  isPrivateAllowed: boolean
  /** The timeout from name resolution to the status of the response. */
  timeoutMs?: number
}

export interface WebhookAnswer {
  status: number
  /** The `Retry-After` header as text. */
  retryAfter: string | null
}

/** The signature, and the W3C trace context for the receiver. */
type WebhookHeaders = SignedHeaders & { traceparent?: string }

export interface WebhookSender {
  /** Posts once and returns the response. Redirects are returned and not followed. Throws if no response arrives. */
  send(url: string, headers: WebhookHeaders, body: string): Promise<WebhookAnswer>
  /** Aborts requests in flight. Idempotent. */
  close(): void
}

const TIMEOUT_MS = 15_000
// The response's body is ignored, but reading a small body keeps the connection for the next delivery.
const BODY_MAX_BYTES = 16_384
const IDLE_MS = 30_000

export function createWebhookSender({ isPrivateAllowed, timeoutMs = TIMEOUT_MS }: WebhookSenderOptions): WebhookSender {
  const connecting = { keepAlive: true, timeout: IDLE_MS, maxFreeSockets: 8, ...(isPrivateAllowed ? {} : { lookup: publicLookup }) }
  let isClosed = false
  const agents = { 'http:': new http.Agent(connecting), 'https:': new https.Agent(connecting) }

  async function post(url: URL, headers: WebhookHeaders, body: string, signal: AbortSignal): Promise<WebhookAnswer> {
    const options = { method: 'POST', headers: { ...BASIC_HEADERS, ...headers, 'content-length': Buffer.byteLength(body) }, signal }
    const request =
      url.protocol === 'https:'
        ? https.request(url, { ...options, agent: agents['https:'] })
        : http.request(url, { ...options, agent: agents['http:'] })
    request.end(body)
    try {
      const [response] = (await once(request, 'response')) as [http.IncomingMessage]
      // Later errors concern only the rest of the body.
      request.on('error', () => {})
      drain(response)
      return { status: response.statusCode ?? 0, retryAfter: response.headers['retry-after'] ?? null }
    } catch (error) {
      const isStale = request.reusedSocket && (error as { code?: string }).code === 'ECONNRESET'
      // The receiver closed an idle connection just then, which is not its failure.
      if (isStale && !signal.aborted && !isClosed) return post(url, headers, body, signal)
      throw signal.aborted ? new Error(`no answer within ${timeoutMs / 1_000} s`) : error
    }
  }

  return {
    async send(text, headers, body) {
      const url = new URL(text)
      // The setting may have changed since the endpoint was added.
      if (!isPrivateAllowed && url.protocol !== 'https:')
        throw new PrivateAddress('plain http is not allowed without WEBHOOK_ALLOW_PRIVATE=on')
      // Sockets call no lookup function for an IP address.
      if (!isPrivateAllowed && !mayBePublic(url)) throw new PrivateAddress(`${url.hostname} is not a public address`)
      return post(url, headers, body, AbortSignal.timeout(timeoutMs))
    },
    close() {
      isClosed = true
      agents['http:'].destroy()
      agents['https:'].destroy()
    },
  }
}

// CloudEvents 1.0, HTTP protocol binding in structured content mode. Libraries recognize an event by this type.
const BASIC_HEADERS = { 'content-type': 'application/cloudevents+json; charset=utf-8', 'user-agent': 'Storefront-Webhooks' }

function drain(response: http.IncomingMessage): void {
  let size = 0
  response.on('error', () => {})
  response.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size > BODY_MAX_BYTES) response.destroy()
  })
}
