import type { SwaggerOptions } from '@fastify/swagger'
import packageJson from '../../package.json' with { type: 'json' }
import { nameSchemas } from './name-schemas.ts'
import { markOptionalBodies } from './optional-body.ts'
import { problemExamples } from './problem.ts'
import { shareResponses } from './share-responses.ts'

const NDJSON = 'application/x-ndjson'

/** Settings of the OpenAPI 3.1 document, which is generated from the routes' schemas. `baseUrl` is the public address of `basePath`. */
export function openApiOptions(baseUrl: string, basePath: string): SwaggerOptions {
  return {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Storefront',
        version: packageJson.version,
        description:
          'A headless backend for an online store: accounts and sessions, a product catalogue, orders. Bodies are JSON with names in snake_case, ' +
          'times RFC 3339 in UTC, amounts of money integers in minor units. Refusals are problem details (RFC 9457) with a stable `code`.',
        license: { name: 'MIT', url: 'https://spdx.org/licenses/MIT.html' },
        contact: { name: 'The operator of this store', url: baseUrl },
      },
      servers: [{ url: baseUrl }],
      tags: TAGS.map(({ name, description }) => ({ name, description })),
      components: {
        securitySchemes: {
          bearer: { type: 'http', scheme: 'bearer', description: BEARER },
        },
        examples: problemExamples(),
      },
    },
    // The transform below takes the prefix off: the plugin would take off the path of `baseUrl`, with which another
    // prefix can begin.
    stripBasePath: false,
    transform: ({ schema, url }) => {
      const path = url.startsWith(`${basePath}/`) ? url.slice(basePath.length) : url
      const tags = TAGS.filter(({ paths }) => paths.test(path)).map(({ name }) => name)
      return { schema: { ...schema, tags, ...(takesLines(schema) ? { body: LINES } : {}) }, url: path }
    },
    transformObject: (result) => {
      if (!('openapiObject' in result)) return result.swaggerObject as never
      markOptionalBodies((result.openapiObject.paths ?? {}) as never)
      return shareResponses(nameSchemas(result.openapiObject as never)) as never
    },
    refResolver: { buildLocalReference: (json, _baseUri, _fragment, index) => (typeof json.$id === 'string' ? json.$id : `def-${index}`) },
  }
}

const BEARER =
  'The access token of a session (RFC 6750), a JWT; where an operation names a scope (`x-required-scope`), an API key that has it (`storefront_key_…`) too. ' +
  'In the header `Authorization` only.'

const TAGS = [
  {
    name: 'accounts',
    description: 'Registration, sessions and the account of the caller.',
    paths: /^\/(?:me|auth|\.well-known)\b/,
  },
  {
    name: 'catalogue',
    description: 'Products, search and stock. Reading needs no token and can be cached; changing needs a scope.',
    paths: /^(?:\/admin)?\/(?:products|categories|stock|feeds)\b/,
  },
  { name: 'orders', description: "The caller's orders: quote, place, follow and cancel.", paths: /^\/orders\b/ },
  { name: 'access', description: 'API keys for machines.', paths: /^\/admin\/(?:api-keys|operators|activities)\b/ },
  {
    name: 'operations',
    description: "Every customer's orders for operators and API keys, and the health of the process.",
    paths: /^\/(?:livez|readyz|iceberg|admin\/(?!api-keys|operators|activities|products|categories|stock))/,
  },
]

/** Calls that read their lines themselves declare no body schema, because a declared one is checked. */
const LINES = { type: 'string', description: 'One JSON object a line; as CSV one record a line, after the names of the columns.' }

function takesLines(schema: { consumes?: readonly string[]; body?: unknown } | undefined): boolean {
  return schema?.consumes?.includes(NDJSON) === true && schema.body === undefined
}
