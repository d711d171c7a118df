import { readFile } from 'node:fs/promises'

/** A JSON Schema of the document. */
export interface Schema {
  [keyword: string]: unknown
  $ref?: string
  type?: string
  const?: unknown
  enum?: unknown[]
  anyOf?: Schema[]
  properties?: Record<string, Schema>
  required?: string[]
  additionalProperties?: boolean | Schema
  propertyNames?: Schema
  items?: Schema
  pattern?: string
  format?: string
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
  minProperties?: number
  maxProperties?: number
}

export interface Parameter {
  name: string
  isRequired: boolean
  schema: Schema
}

export interface Response {
  /** Schemas by media type. Empty if the answer has no body. */
  content: Record<string, Schema>
  /** The codes of the problems with this status. */
  codes: ReadonlySet<string>
}

/** One method of one path, as the document describes it. */
export interface Operation {
  /** The operation's name, such as `POST /orders/{id}/cancel`. */
  name: string
  method: string
  path: string
  pathParameters: Parameter[]
  queryParameters: Parameter[]
  headers: Parameter[]
  /**
   * The request body; null if the operation takes none. `schema` is null if the document describes the body only in
   * words.
   */
  body: { type: string; schema: Schema | null; isRequired: boolean } | null
  isSecured: boolean
  isForOperators: boolean
  responses: ReadonlyMap<number, Response>
}

export interface Contract {
  /** The whole document. Schemas refer to its `components`. */
  document: Schema
  operations: Operation[]
}

interface DocumentOperation {
  parameters?: { name: string; in: string; required?: boolean; schema: Schema }[]
  requestBody?: { required?: boolean; content: Record<string, { schema?: Schema }> }
  security?: object[]
  responses: Record<string, { description: string; content?: Record<string, { schema: Schema }> }>
}

const NDJSON = 'application/x-ndjson'

/** Reads the operations of the committed OpenAPI document. */
export async function readContract(): Promise<Contract> {
  const document = JSON.parse(await readFile(new URL('../openapi.json', import.meta.url), 'utf8'))
  const operations = Object.entries(resolve(document.paths, document) as Record<string, Record<string, DocumentOperation>>).flatMap(
    ([path, item]) => Object.entries(item).map(([method, operation]) => readOperation(method.toUpperCase(), path, operation)),
  )
  return { document, operations }
}

/** Replaces references by their schemas. Each schema is one object at all its places. None refers to itself. */
function resolve(node: unknown, document: Schema, known = new Map<string, unknown>()): unknown {
  if (Array.isArray(node)) return node.map((child) => resolve(child, document, known))
  if (typeof node !== 'object' || node === null) return node
  const { $ref } = node as Schema
  if (typeof $ref === 'string') {
    if (!known.has($ref)) {
      const steps = $ref.slice('#/'.length).split('/')
      const target = steps.reduce((parent, step) => parent[step] as Schema, document)
      known.set($ref, resolve(target, document, known))
    }
    return known.get($ref)
  }
  return Object.fromEntries(Object.entries(node).map(([name, child]) => [name, resolve(child, document, known)]))
}

function readOperation(method: string, path: string, operation: DocumentOperation): Operation {
  const parametersIn = (place: string) =>
    (operation.parameters ?? [])
      .filter((parameter) => parameter.in === place)
      .map(({ name, required = false, schema }) => ({ name, isRequired: required, schema }))
  return {
    name: `${method} ${path}`,
    method,
    path,
    pathParameters: parametersIn('path'),
    queryParameters: parametersIn('query'),
    headers: parametersIn('header'),
    body: readBody(operation),
    isSecured: operation.security !== undefined && operation.security.length > 0,
    isForOperators: path.startsWith('/admin/'),
    responses: new Map(Object.entries(operation.responses).map(([status, response]) => [Number(status), readResponse(response)])),
  }
}

function readBody({ requestBody }: DocumentOperation): Operation['body'] {
  const [content] = Object.entries(requestBody?.content ?? {})
  if (content === undefined) return null
  const [type, { schema }] = content
  // The document describes a line only in words.
  return { type, schema: type === NDJSON ? null : (schema ?? null), isRequired: requestBody?.required ?? false }
}

function readResponse({ description, content = {} }: { description: string; content?: Record<string, { schema: Schema }> }): Response {
  return {
    content: Object.fromEntries(Object.entries(content).map(([type, { schema }]) => [type, schema])),
    codes: new Set([...description.matchAll(/`(\w+)`:/g)].map(([, code = '']) => code)),
  }
}
