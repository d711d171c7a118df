import { hash } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createRequire, stripTypeScriptTypes } from 'node:module'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { Type } from 'typebox'
import { notFound } from '../errors.ts'
import { defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { readOnce } from '../http/read-once.ts'

const FOLDER = new URL('page/', import.meta.url)
/** The name in the page's addresses, and the file. */
const SHARED_FILES = new Map<string, URL | string>([
  ['currency.ts', new URL('../currency.ts', import.meta.url)],
  ['order-status.ts', new URL('../orders/order-status.ts', import.meta.url)],
  ['product-rules.ts', new URL('../catalogue/product-rules.ts', import.meta.url)],
  ['scopes.ts', new URL('../http/scopes.ts', import.meta.url)],
  ['spreadsheet-guard.ts', new URL('../spreadsheet-guard.ts', import.meta.url)],
  ['subscribers.ts', new URL('../subscribers.ts', import.meta.url)],
  [
    'uplot.js',
    createRequire(import.meta.url)
      .resolve('uplot')
      .replace('uPlot.cjs.js', 'uPlot.esm.js'),
  ],
  [
    'uqr.js',
    createRequire(import.meta.url)
      .resolve('uqr')
      .replace('index.cjs', 'index.mjs'),
  ],
  ['uplot.css', createRequire(import.meta.url).resolve('uplot/dist/uPlot.min.css')],
])
const TYPES: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  ts: 'text/javascript; charset=utf-8',
}
const INDEX = 'index.html'

interface Page {
  html: Buffer
  /** Scripts of this origin and the page's import map. Inline styles are those of mails, which are shown in frames without scripts. */
  policy: string
}

/** `GET /console`: the page for operators, and its modules. Files are read, and types removed from them, when somebody asks for them. */
export function consolePageRoutes(server: HttpServer): void {
  const readPageOnce = readOnce(readPage)
  const readFileOnce = readOnce(readFileOfPage)

  defineRoute(server, 'GET /console', { access: 'public', cost: 'console_page' }, async (_request, reply) => {
    const { html, policy } = await readPageOnce(INDEX)
    return reply
      .headers({ 'cache-control': 'no-cache', 'content-security-policy': policy, 'referrer-policy': 'no-referrer' })
      .type('text/html; charset=utf-8')
      .send(html as never)
  })

  defineRoute(
    server,
    'GET /console/:file',
    { access: 'public', cost: 'console_page', params: Type.Object({ file: Type.String() }) },
    async (request, reply) => {
      const { file } = request.params
      // `/console/` is what people type.
      if (file === '') return reply.redirect('../console', 308)
      if (!isServed(file)) throw notFound('file')
      const bytes = await readFileOnce(file)
      const etag = `"${hash('sha256', bytes, 'base64url')}"`
      reply.headers({ 'cache-control': 'no-cache', etag })
      if (request.headers['if-none-match'] === etag) return reply.code(304).send()
      return reply
        .header('content-encoding', 'gzip')
        .type(TYPES[file.slice(file.lastIndexOf('.') + 1)] ?? '')
        .send(bytes as never)
    },
  )
}

/** Whether the file is a listed one: a name never becomes a path. */
function isServed(file: string): boolean {
  return SHARED_FILES.has(file) || (readdirSync(FOLDER).includes(file) && /\.(?:ts|css)$/.test(file) && !file.endsWith('.d.ts'))
}

/** Every browser that the page supports accepts gzip. */
async function readFileOfPage(file: string): Promise<Buffer> {
  const text = await readFile(SHARED_FILES.get(file) ?? new URL(file, FOLDER), 'utf8')
  return promisify(gzip)(file.endsWith('.ts') ? stripTypes(text) : text)
}

/** Suppresses the warning that this function of the pinned Node.js is experimental. */
function stripTypes(text: string): string {
  const { emitWarning } = process
  process.emitWarning = () => {}
  try {
    return stripTypeScriptTypes(text)
  } finally {
    process.emitWarning = emitWarning
  }
}

async function readPage(file: string): Promise<Page> {
  const html = await readFile(fileURLToPath(new URL(file, FOLDER)), 'utf8')
  const [, importMap = ''] = /<script type="importmap">([\s\S]*?)<\/script>/.exec(html) ?? []
  const policy =
    `default-src 'none'; script-src 'self' 'sha256-${hash('sha256', importMap, 'base64')}'; style-src 'self' 'unsafe-inline'; ` +
    "img-src 'self' data:; connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
  return { html: Buffer.from(html), policy }
}
