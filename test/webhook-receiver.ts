import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import { type Cleanup, onCleanup } from './cleanup.ts'

export interface ReceivedWebhook {
  path: string
  headers: IncomingHttpHeaders
  body: string
}

export interface WebhookReceiver {
  readonly url: string
  readonly port: number
  /** Every request that was received completely, whatever the answer. */
  readonly requests: ReceivedWebhook[]
  /** The number of connections so far. */
  readonly connections: number
  /** Sets the status, or another behaviour, of the answers from now on; initially 204. */
  answer(how: number | ((response: ServerResponse, request: ReceivedWebhook) => void)): void
}

/** A real HTTP server that stores its requests. */
export async function startWebhookReceiver(t: Cleanup): Promise<WebhookReceiver> {
  const requests: ReceivedWebhook[] = []
  let connections = 0
  let respond = (response: ServerResponse, _request: ReceivedWebhook): void => void response.writeHead(204).end()
  const server = createServer((request, response) => {
    readBody(request).then(
      (body) => {
        const received = { path: request.url ?? '', headers: request.headers, body }
        requests.push(received)
        respond(response, received)
      },
      () => {},
    )
  })
  server.on('connection', () => {
    connections++
  })
  const { promise, resolve } = Promise.withResolvers<void>()
  server.listen(0, '127.0.0.1', resolve)
  await promise
  onCleanup(t, () => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as { port: number }
  return {
    url: `http://127.0.0.1:${port}/hooks`,
    port,
    requests,
    get connections() {
      return connections
    },
    answer(how) {
      respond = typeof how === 'number' ? (response) => void response.writeHead(how).end() : how
    },
  }
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}

/** Checks a request as docs/shop/webhooks.md tells receivers to; shares no code with the store. */
export function isAuthentic(secret: string, { headers, body }: ReceivedWebhook, now = Date.now()): boolean {
  const timestamp = Number(headers['webhook-timestamp'])
  if (!(Math.abs(now / 1_000 - timestamp) <= 300)) return false
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const expected = createHmac('sha256', key).update(`${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`).digest()
  return String(headers['webhook-signature'])
    .split(' ')
    .some((entry) => {
      const [version, signature = ''] = entry.split(',')
      const given = Buffer.from(signature, 'base64')
      return version === 'v1' && given.length === expected.length && timingSafeEqual(given, expected)
    })
}
