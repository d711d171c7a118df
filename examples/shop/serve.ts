import { spawn } from 'node:child_process'
import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createServer, type ServerResponse } from 'node:http'
import { stripTypeScriptTypes } from 'node:module'
import { fileURLToPath } from 'node:url'

// `npm run shop`: a store and this shop on one machine, until Ctrl-C. With API_URL the shop uses a store that runs already, which must list
// the shop's origin in CORS_ORIGINS.
const ROOT = new URL('../../', import.meta.url)
const SHOP_PORT = Number(process.env.SHOP_PORT ?? 3_001)
const PORT = process.env.PORT ?? '3000'
const origin = `http://localhost:${SHOP_PORT}`
const api = process.env.API_URL ?? `http://localhost:${PORT}`
const TYPES: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  ts: 'text/javascript; charset=utf-8',
}

const server = createServer((request, response) => {
  answer(request.url ?? '/', response).catch(() => response.writeHead(404).end('There is nothing at this address.'))
})

async function answer(address: string, response: ServerResponse): Promise<void> {
  const { pathname } = new URL(address, origin)
  const slug = /^\/products\/([^/]+)$/.exec(pathname)?.[1]
  const found = slug === undefined ? { status: 200 } : await findProduct(slug)
  if (found.movedTo !== undefined) {
    response.writeHead(301, { location: found.movedTo }).end()
    return
  }
  const name = pathname === '/' || slug !== undefined ? '/index.html' : pathname
  if (name === '/settings.json') {
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ api }))
    return
  }
  const text = await readFile(fileOf(name), 'utf8')
  const type = TYPES[name.split('.').at(-1) ?? ''] ?? ''
  const headers = { 'content-type': type, 'cache-control': 'no-cache', 'x-content-type-options': 'nosniff' }
  response.writeHead(found.status, name === '/index.html' ? { ...headers, 'content-security-policy': policyOf(text) } : headers)
  response.end(name.endsWith('.ts') ? stripTypeScriptTypes(text) : text)
}

/** What search engines and links of the past need: 404 for no product, 301 for a former slug. The page itself asks the store again. */
async function findProduct(slug: string): Promise<{ status: number; movedTo?: string }> {
  try {
    const { status, headers, body } = await fetch(new URL(`/products/by-slug/${slug}`, api), { redirect: 'manual' })
    await body?.cancel()
    const movedTo = status === 301 ? headers.get('location')?.split('/').at(-1) : undefined
    if (movedTo !== undefined) return { status, movedTo: `/products/${movedTo}` }
    // 400: the address is no text.
    return { status: [400, 404].includes(status) ? 404 : 200 }
  } catch {
    // The page says that the store cannot be reached.
    return { status: 200 }
  }
}

/** The file of an address. Throws for any other than those of the page: a name has no folder and no two dots. */
function fileOf(name: string): URL {
  if (name === '/openapi-fetch.js') return new URL('node_modules/openapi-fetch/dist/index.mjs', ROOT)
  const [, client, page] = /^\/(?:client\/([a-z]+\.ts)|([a-z-]+\.(?:html|css|js)))$/.exec(name) ?? []
  if (client !== undefined) return new URL(`client/src/${client}`, ROOT)
  if (page !== undefined) return new URL(page, import.meta.url)
  throw new Error(`no file for ${name}`)
}

/** Scripts of this origin and the import map of the page, connections to this origin and the store, nothing else. */
function policyOf(html: string): string {
  const [, importMap = ''] = /<script type="importmap">([\s\S]*?)<\/script>/.exec(html) ?? []
  const scripts = `script-src 'self' 'sha256-${hash('sha256', importMap, 'base64')}'`
  return `default-src 'none'; ${scripts}; style-src 'self'; img-src ${new URL(api).origin} https: data:; connect-src 'self' ${new URL(api).origin}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`
}

server.on('error', (error) => {
  console.error(`shop: ${origin} cannot be used (${error.message}). Set SHOP_PORT to another port.`)
  process.exitCode = 1
})
server.listen(SHOP_PORT, 'localhost', () => {
  console.log(`shop: ${origin}`)
  if (process.env.API_URL === undefined) startStore()
})

function startStore(): void {
  const store = spawn(process.execPath, [fileURLToPath(new URL('bin/storefront.mjs', ROOT)), 'serve'], {
    stdio: 'inherit',
    env: { ...process.env, PORT, BASE_URL: api, CORS_ORIGINS: origin, ACCOUNT_URL: origin, SHOP_PRODUCT_URL: `${origin}/products/{slug}` },
  })
  // Ctrl-C reaches the store as well; it finishes what is in flight, and then this process ends.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => store.kill(signal))
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
}
