import { readFileSync } from 'node:fs'
import type { SwaggerOptions } from '@fastify/swagger'

const NDJSON = 'application/x-ndjson'

/** Settings of the OpenAPI 3.1 document, which is made from the routes' own schemas. `baseUrl` is where the routes under `basePath` are. */
export function openApiOptions(baseUrl: string, basePath: string): SwaggerOptions {
  return {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Storefront',
        version: readVersion(),
        description: 'A headless backend for an online store: accounts and sessions, a product catalogue, orders.',
      },
      servers: [{ url: baseUrl }],
      tags: [{ name: 'accounts' }, { name: 'catalogue' }, { name: 'orders' }, { name: 'operations' }],
      components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } } },
    },
    // By the prefix below: the plugin would take the path of `baseUrl` off, which another prefix can begin with.
    stripBasePath: false,
    transform: ({ schema, url }) => ({
      schema: takesLines(schema) ? { ...schema, body: LINES } : schema,
      url: url.startsWith(`${basePath}/`) ? url.slice(basePath.length) : url,
    }),
    refResolver: { buildLocalReference: (json, _baseUri, _fragment, index) => (typeof json.$id === 'string' ? json.$id : `def-${index}`) },
  }
}

/** Calls that read their lines themselves have no schema of the body: it would be checked. */
const LINES = { type: 'string', description: 'One JSON object a line.' }

function takesLines(schema: { consumes?: readonly string[]; body?: unknown } | undefined): boolean {
  return schema?.consumes?.includes(NDJSON) === true && schema.body === undefined
}

/** That of the package, as `storefront --version` prints it. */
function readVersion(): string {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  return version
}
