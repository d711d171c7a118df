import { hash } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { stripTypeScriptTypes } from 'node:module'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { Type } from 'typebox'
import { notFound } from '../errors.ts'
import { defineRoute } from './define-route.ts'
import type { HttpServer } from './http-server.ts'
import { readOnce } from './read-once.ts'

const TYPES: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  ts: 'text/javascript; charset=utf-8',
}
const INDEX = 'index.html'

/** A file from elsewhere that a page has, too. */
export interface SharedFile {
  /** The name in the page's addresses. */
  name: string
  file: URL | string
  /** The name by which the page's modules import it; absent when they do not. */
  specifier?: string
}

/** A page of the store for browsers: `index.html`, and the modules and styles beside it. */
export interface BrowserPage {
  /** The page's address. Its files are below it. */
  path: `/${string}`
  folder: URL
  shared: readonly SharedFile[]
  /** Directives of the policy besides scripts and calls of this origin, such as `style-src 'self'`. */
  policy: readonly string[]
}

/** Serves a page without a build: files are read, and types removed from them, when somebody asks for them. */
export function servePage(server: HttpServer, { path, folder, shared, policy }: BrowserPage): void {
  const sharedFiles = new Map(shared.map((one) => [one.name, one.file]))
  const security = [
    ...["default-src 'none'", "script-src 'self'", ...policy, "connect-src 'self'"],
    ...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
  ].join('; ')
  const readFileOnce = readOnce(async (file) => {
    const text = await readFile(sharedFiles.get(file) ?? new URL(file, folder), 'utf8')
    // Every browser that the pages support accepts gzip.
    return file === INDEX ? Buffer.from(text) : promisify(gzip)(file.endsWith('.ts') ? toModule(text, shared) : text)
  })
  /** A name never becomes a path: the file is a listed one. */
  const isServed = (file: string) =>
    sharedFiles.has(file) || (readdirSync(folder).includes(file) && /\.(?:ts|css)$/.test(file) && !file.endsWith('.d.ts'))

  defineRoute(server, `GET ${path}`, { access: 'public', cost: 'console_page' }, async (_request, reply) =>
    reply
      .headers({ 'cache-control': 'no-cache', 'content-security-policy': security, 'referrer-policy': 'no-referrer' })
      .type('text/html; charset=utf-8')
      .send((await readFileOnce(INDEX)) as never),
  )

  defineRoute(
    server,
    `GET ${path}/:file`,
    { access: 'public', cost: 'console_page', params: Type.Object({ file: Type.String() }) },
    async (request, reply) => {
      const { file } = request.params
      // People type the slash, too.
      if (file === '') return reply.redirect(`..${path}`, 308)
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

/** Leads imports of shared files to their addresses: an import map would be an inline script. */
function toModule(text: string, shared: readonly SharedFile[]): string {
  return shared.reduce(
    (code, { specifier, name }) => (specifier === undefined ? code : code.replaceAll(` from '${specifier}'`, ` from './${name}'`)),
    stripTypes(text),
  )
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
