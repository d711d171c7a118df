import { spawn } from 'node:child_process'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { answerFormerFile, makeBundle } from './server/bundle.ts'
import { createPages } from './server/pages.ts'
import { isCurrency } from './view.ts'

// `npm run shop` runs a store and this shop on one machine until Ctrl-C. With API_URL the shop uses a store that is
// already running, which must list the shop's origin in CORS_ORIGINS.
const SHOP_PORT = Number(process.env.SHOP_PORT ?? 3_001)
const PORT = process.env.PORT ?? '3000'
const origin = (process.env.SHOP_URL ?? `http://localhost:${SHOP_PORT}`).replace(/\/+$/, '')
const api = process.env.API_URL ?? `http://localhost:${PORT}`
const publicApi = process.env.PUBLIC_API_URL ?? api
const currencies = (process.env.SHOP_CURRENCIES ?? 'EUR,USD').split(',').map((code) => code.trim().toUpperCase())
const unknown = currencies.find((code) => !isCurrency(code))
if (unknown !== undefined) throw new Error(`SHOP_CURRENCIES: “${unknown}” is no currency. Write codes such as EUR,USD.`)
const FILE_HEADERS = { 'cache-control': 'public, max-age=31536000, immutable', 'x-content-type-options': 'nosniff' }

const bundle = await makeBundle()
const answerOf = createPages({ name: process.env.SHOP_NAME ?? 'Example shop', origin, api, publicApi, bundle }, currencies)

const server = createServer((request, response) => {
  answer(request, response).catch((error: unknown) => {
    console.error('shop:', error)
    if (response.headersSent) response.destroy()
    else response.writeHead(500).end()
  })
})

async function answer({ url = '/', method, headers, socket }: IncomingMessage, response: ServerResponse): Promise<void> {
  if (method !== 'GET' && method !== 'HEAD') return void response.writeHead(405, { allow: 'GET, HEAD' }).end()
  const file = bundle.files.get(url)
  if (file !== undefined) {
    // All browsers that the shop supports accept gzip.
    response.writeHead(200, { ...FILE_HEADERS, 'content-type': file.type, 'content-encoding': 'gzip' }).end(file.body)
    return
  }
  const former = answerFormerFile(bundle, url)
  if (former !== null) return void response.writeHead(former.status, former.headers).end()
  const visitor = visitorOf(headers['x-forwarded-for'], socket.remoteAddress)
  const { status, headers: own, body } = await answerOf(url.replace(/^\/+/, '/'), headers['accept-language'] ?? '', visitor)
  const isZipped = /\bgzip\b/.test(String(headers['accept-encoding']))
  const vary = [own.vary, 'accept-encoding'].filter(Boolean).join(', ')
  response.writeHead(status, { ...own, vary, ...(isZipped && { 'content-encoding': 'gzip' }) })
  response.end(isZipped ? await promisify(gzip)(body) : body)
}

/**
 * The addresses through which a request came, in the form of the next proxy's header. Null for a visitor on this
 * machine.
 */
function visitorOf(forwarded: string | string[] | undefined, peer = ''): string | null {
  if (forwarded !== undefined) return `${forwarded}, ${peer}`
  return /^(::1|(::ffff:)?127\..*|)$/.test(peer) ? null : peer
}

server.on('error', (error) => {
  console.error(`shop: ${origin} cannot be used (${error.message}). Set SHOP_PORT to another port.`)
  process.exitCode = 1
})
server.listen(SHOP_PORT, process.env.SHOP_HOST ?? 'localhost', () => {
  console.log(`shop: ${origin}`)
  const stop = process.env.API_URL === undefined ? startStore() : () => server.close()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, stop)
})

/** Starts a store that ends together with the shop. Returns the function that stops both. */
function startStore(): (signal: NodeJS.Signals) => void {
  const store = spawn(process.execPath, [fileURLToPath(new URL('../../bin/storefront.mjs', import.meta.url)), 'serve'], {
    stdio: 'inherit',
    env: {
      ...process.env,
      ...{ PORT, BASE_URL: publicApi, CORS_ORIGINS: origin, ACCOUNT_URL: origin },
      ...{ SHOP_PRODUCT_URL: `${origin}/products/{slug}`, SHOP_ORDER_URL: `${origin}/order` },
    },
  })
  store.on('exit', (status) => {
    if (status !== 0 && status !== null) {
      console.error(
        `shop: its store ended with status ${status}. To use a store that runs already, start it with CORS_ORIGINS=${origin}, and the shop with API_URL=${api}`,
      )
    }
    server.close()
    server.closeAllConnections()
    process.exitCode = status ?? 1
  })
  // Ctrl-C reaches the store as well. The store finishes its requests in flight, and then this process ends.
  return (signal) => store.kill(signal)
}
