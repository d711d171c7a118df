import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { Type } from 'typebox'
import { notFound } from '../errors.ts'
import { defineRoute } from './define-route.ts'
import type { HttpServer } from './http-server.ts'
import { readOnce } from './read-once.ts'

const TYPES: Readonly<Record<string, string>> = { css: 'text/css; charset=utf-8', js: 'text/javascript; charset=utf-8' }

interface BrowserPage {
  path: `/${string}`
  folder: URL
  policy: readonly string[]
}

/** The console's inline styles are those of mails, in frames without scripts. */
export const CONSOLE_PAGE: BrowserPage = {
  path: '/console',
  folder: new URL('../../console/', import.meta.url),
  policy: ["style-src 'self' 'unsafe-inline'", "frame-src 'self'", "img-src 'self' https: data:"],
}

interface Bundle {
  index: string
  etag: string
  files: ReadonlyMap<string, Buffer>
}

/** Bundles are made at the first request, once per process. */
const bundles = readOnce(makeBundle)

export function servePage(server: HttpServer, { path, folder, policy }: BrowserPage): void {
  const security = [
    ...["default-src 'none'", "script-src 'self'", ...policy, "connect-src 'self'"],
    ...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
  ].join('; ')

  defineRoute(server, `GET ${path}`, { access: 'public', cost: 'console_page' }, async (request, reply) => {
    const { index, etag } = await bundles(fileURLToPath(folder))
    reply.headers({ 'cache-control': 'no-cache', etag, 'content-security-policy': security, 'referrer-policy': 'no-referrer' })
    if (request.headers['if-none-match'] === etag) return reply.code(304).send()
    return reply.type('text/html; charset=utf-8').send(index as never)
  })

  defineRoute(
    server,
    `GET ${path}/:file`,
    { access: 'public', cost: 'console_page', params: Type.Object({ file: Type.String() }) },
    async (request, reply) => {
      const { file } = request.params
      // People also type the slash.
      if (file === '') return reply.redirect(`..${path}`, 308)
      const { files } = await bundles(fileURLToPath(folder))
      const bytes = files.get(file)
      if (bytes === undefined) {
        // During an update, `index.html` can come from a process of another release than its files.
        const [, name, type] = /^([a-z]+)-[A-Z0-9]+\.(css|js)$/.exec(file) ?? []
        const own = [...files.keys()].find((each) => each.startsWith(`${name}-`) && each.endsWith(`.${type}`))
        if (own === undefined) throw notFound('file')
        return reply.header('cache-control', 'no-store').redirect(own, 307)
      }
      return (
        reply
          // Every browser that the pages support accepts gzip.
          .headers({ 'cache-control': 'public, max-age=31536000, immutable', 'content-encoding': 'gzip' })
          .type(TYPES[file.slice(file.lastIndexOf('.') + 1)] ?? '')
          .send(bytes as never)
      )
    },
  )
}

/** esbuild runs as a separate process, which ends with the last bundle. */
let making: Promise<unknown> = Promise.resolve()

function makeBundle(folder: string): Promise<Bundle> {
  const made = making.then(async (): Promise<Bundle> => {
    const { build, stop } = await import('esbuild')
    try {
      const { outputFiles } = await build({
        absWorkingDir: folder,
        entryPoints: ['main.ts', 'main.css'],
        entryNames: '[name]-[hash]',
        chunkNames: '[name]-[hash]',
        splitting: true,
        outdir: '.',
        bundle: true,
        write: false,
        minify: true,
        format: 'esm',
        target: 'es2022',
        logLevel: 'silent',
      })
      let index = await readFile(`${folder}/index.html`, 'utf8')
      const files = new Map<string, Buffer>()
      for (const { path, contents } of outputFiles) {
        const name = basename(path)
        index = index.replace(name.replace(/-[^-.]+\./, '.'), name)
        files.set(name, await promisify(gzip)(contents))
      }
      return { index, etag: `"${hash('sha256', index, 'base64url').slice(0, 22)}"`, files }
    } finally {
      await stop()
    }
  })
  making = made.catch(() => {})
  return made
}
