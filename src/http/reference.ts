import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { Type } from 'typebox'
import { notFound } from '../errors.ts'
import { defineRoute } from './define-route.ts'
import type { HttpServer } from './http-server.ts'
import { readOnce } from './read-once.ts'

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; " +
  "frame-ancestors 'none'"
const PAGE = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Storefront API</title>
<link rel="icon" href="data:,"><link rel="stylesheet" href="docs/swagger-ui.css"><main id="reference"></main>
<script src="docs/swagger-ui-bundle.js"></script><script src="docs/start.js"></script></html>`
// The page sends the document to no validator, and does not store an entered token.
const START = `SwaggerUIBundle({ url: 'openapi.json', dom_id: '#reference', deepLinking: true, validatorUrl: null, persistAuthorization: false })\n`

const TYPES: Readonly<Record<string, string>> = {
  'swagger-ui.css': 'text/css; charset=utf-8',
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
  'start.js': 'text/javascript; charset=utf-8',
}

/** Adds `GET /docs`: Swagger UI with local files, which are read at the first request. */
export function referenceRoutes(server: HttpServer): void {
  const readCompressed = readOnce(compress)

  defineRoute(server, 'GET /docs', { access: 'public', cost: 'memory' }, async (_request, reply) =>
    reply
      .headers({ 'cache-control': 'public, max-age=3600', 'content-security-policy': POLICY })
      .type('text/html; charset=utf-8')
      .send(PAGE),
  )

  defineRoute(
    server,
    'GET /docs/:file',
    { access: 'public', cost: 'memory', params: Type.Object({ file: Type.String() }) },
    async (request, reply) => {
      const { file } = request.params
      const type = Object.hasOwn(TYPES, file) ? TYPES[file] : undefined
      if (type === undefined) throw notFound('file')
      return reply
        .headers({ 'cache-control': 'public, max-age=86400', 'content-encoding': 'gzip' })
        .type(type)
        .send((await readCompressed(file)) as never)
    },
  )
}

async function compress(file: string): Promise<Buffer> {
  const { resolve } = createRequire(import.meta.url)
  return promisify(gzip)(file === 'start.js' ? START : await readFile(resolve(`@fastify/swagger-ui/static/${file}`)))
}
