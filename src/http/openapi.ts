import type { SwaggerOptions } from '@fastify/swagger'
import packageJson from '../../package.json' with { type: 'json' }
import { problemExamples } from './problem.ts'

const NDJSON = 'application/x-ndjson'

export function openApiOptions(baseUrl: string, basePath: string): SwaggerOptions {
  return {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Storefront',
        version: packageJson.version,
        description:
          'A headless backend for an online store: accounts and sessions, a product catalogue, and orders. Bodies are JSON with names in snake_case. ' +
          'Times are RFC 3339 in UTC. Amounts of money are integers in minor units of the currency, such as cents. Errors are problem details (RFC 9457) with a stable `code`.',
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
    // The transform below removes the prefix. The plugin would remove a path that another prefix can begin with.
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
  'The access token of a session, which is a JWT (RFC 6750). An operation that names a scope (`x-required-scope`) also accepts an API key with this scope (`storefront_key_…`). ' +
  'Send it only in the header `Authorization`.'

const TAGS = [
  {
    name: 'accounts',
    description: 'Registration, sessions and the account of the caller.',
    paths: /^\/(?:me|auth|\.well-known)\b/,
  },
  {
    name: 'catalogue',
    description: 'Products, search and stock. Reading needs no token and can be cached. Changing needs a scope.',
    paths: /^(?:\/admin)?\/(?:products|categories|stock|feeds)\b/,
  },
  { name: 'orders', description: "The caller's orders: quote, place, follow and cancel.", paths: /^\/orders\b/ },
  {
    name: 'access',
    description: 'API keys for machines, operators with their roles, and the record of activities.',
    paths: /^\/admin\/(?:api-keys|operators|activities)\b/,
  },
  {
    name: 'operations',
    description: "Every customer's orders for operators and API keys, and the health of the process.",
    paths: /^\/(?:livez|readyz|iceberg|mail-events|admin\/(?!api-keys|operators|activities|products|categories|stock))/,
  },
]

/** A declared body schema would be checked, and these calls read their lines themselves. */
const LINES = { type: 'string', description: 'One JSON object per line. In CSV the first line names the columns.' }

function takesLines(schema: { consumes?: readonly string[]; body?: unknown } | undefined): boolean {
  return schema?.consumes?.includes(NDJSON) === true && schema.body === undefined
}

type Node = Record<string, unknown>
type Operations = Record<string, Record<string, { responses?: Record<string, Node> }>>

function shareResponses(document: Node): Node {
  const operations = Object.values(document.paths as Operations).flatMap((item) => Object.values(item))
  const uses = new Map<string, Node[]>()
  for (const { responses = {} } of operations)
    for (const response of Object.values(responses)) {
      const name = nameOf(response)
      if (name !== null) uses.set(name, [...(uses.get(name) ?? []), response])
    }
  const shared = [...uses].flatMap(([name, [first = {}, ...others]]) =>
    others.length > 0 && others.every(isSameAs(first)) ? [[name, first] as const] : [],
  )
  const names = new Set(shared.map(([name]) => name))
  for (const { responses = {} } of operations)
    for (const [status, response] of Object.entries(responses)) {
      const name = nameOf(response)
      if (name !== null && names.has(name)) responses[status] = { $ref: `#/components/responses/${name}` }
    }
  const sorted = shared.toSorted(([a], [b]) => (a < b ? -1 : 1))
  return { ...document, components: { ...(document.components as Node), responses: Object.fromEntries(sorted) } }
}

const isSameAs = (one: Node) => (other: Node) => JSON.stringify(one) === JSON.stringify(other)

function nameOf({ description, content }: Node): string | null {
  if (content === undefined || !('application/problem+json' in (content as Node))) return null
  const codes = [...String(description).matchAll(/`(\w+)`:/g)].map(([, code = '']) => code)
  const words = codes.map((code) => code.replace(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase()))
  return words.length === 0 ? null : words.join('Or')
}

/** A body is never optional if an empty one means everything: a lost body would cancel a whole order. */
export function isBodyOptional(schema: unknown): boolean {
  return 'default' in (schema as object)
}

interface DocumentOperation {
  requestBody?: { required?: boolean; content: Record<string, { schema?: unknown }> }
}

/** The generator of the document takes each body for required. */
function markOptionalBodies(paths: Readonly<Record<string, Record<string, DocumentOperation>>>): void {
  for (const { requestBody } of Object.values(paths).flatMap(Object.values<DocumentOperation>)) {
    if (requestBody !== undefined) requestBody.required = !Object.values(requestBody.content).every(({ schema }) => isBodyOptional(schema))
  }
}

const NAME = /^[A-Z][A-Za-z]*$/

/** Throws when two different schemas have one `title`. */
function nameSchemas(document: Node): Node {
  const components = document.components as Node
  const schemas: Node = {}
  for (const [name, schema] of Object.entries(components.schemas as Node)) schemas[name] = hoist(schema, schemas)
  const paths = hoist(document.paths, schemas)
  const sorted = Object.entries(schemas).sort(([a], [b]) => (a < b ? -1 : 1))
  return { ...document, paths, components: { ...components, schemas: Object.fromEntries(sorted) } }
}

function hoist(node: unknown, schemas: Node): unknown {
  if (Array.isArray(node)) return node.map((child) => hoist(child, schemas))
  if (!isNode(node)) return node
  const copy: Node = {}
  for (const [key, child] of Object.entries(node)) {
    if (key === 'x-input' || key === 'x-must') continue
    // An example is data, whatever the names of its properties.
    copy[key] = key === 'example' || key === 'examples' ? child : hoist(key === 'schema' ? withoutDescription(child) : child, schemas)
  }
  // Client generators omit the type of an enum that declares none.
  if (isEnumOfStrings(copy)) copy.type ??= 'string'
  return typeof copy.title === 'string' && NAME.test(copy.title) ? refer(copy.title, copy, schemas) : copy
}

function isEnumOfStrings({ enum: values }: Node): boolean {
  return Array.isArray(values) && values.every((value) => typeof value === 'string')
}

function withoutDescription(schema: unknown): unknown {
  if (!isNode(schema) || typeof schema.title !== 'string') return schema
  const { description: _, ...rest } = schema
  return rest
}

function refer(name: string, { title: _, examples: __, ...schema }: Node, schemas: Node): Node {
  const known = schemas[name] as Node | undefined
  if (known !== undefined && !isSameType(known, schema)) throw new Error(`two schemas are named ${name}`)
  schemas[name] = { ...known, ...schema }
  return { $ref: `#/components/schemas/${name}` }
}

function isSameType({ description: _, ...one }: Node, { description: __, ...other }: Node): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null
}
