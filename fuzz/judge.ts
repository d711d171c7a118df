import { isUtf8 } from 'node:buffer'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import type { Contract, Operation, Parameter, Schema } from './contract.ts'
import type { FuzzRequest } from './request.ts'
import { findBrokenRule, hasDoubtfulAddress, hasOwnAddress } from './rules.ts'

/**
 * The verdict on a request by the document. `unsure` means that it fits the schemas but has a part that the document
 * leaves open, such as an odd header, so the store may accept or refuse it.
 */
export type Verdict = { kind: 'valid' } | { kind: 'unsure' } | { kind: 'invalid'; because: string }

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
// The grammar of RFC 3339 §5.6.
const DATE_TIME = /^(\d{4})-(\d\d)-(\d\d)t([01]\d|2[0-3]):([0-5]\d):([0-5]\d|60)(\.\d+)?(z|[+-]([01]\d|2[0-3]):[0-5]\d)$/i
const DOCUMENT = 'document'
const JSON_TYPE = /^application\/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?$/i

/**
 * Judges requests and answers only by `openapi.json`. The validator (Ajv) and the formats share nothing with the
 * store's, because the fuzzer would miss a defect that both have.
 */
export class Judge {
  readonly #ajv: Ajv2020
  readonly #compiled = new Map<Schema, ValidateFunction>()
  readonly #problems: ReadonlyMap<unknown, Schema>

  constructor({ document }: Contract) {
    this.#ajv = new Ajv2020({
      strict: true,
      strictTypes: false,
      strictRequired: false,
      ownProperties: true,
      code: { optimize: false },
      inlineRefs: false,
    })
    this.#ajv.addFormat('uuid', UUID)
    this.#ajv.addFormat('date-time', isDateTime)
    this.#ajv.addFormat('uri', (text: string) => URL.canParse(text))
    // Annotations of OpenAPI, and the part of the document to which schemas refer.
    for (const word of ['example', 'components']) this.#ajv.addKeyword(word)
    this.#ajv.addSchema({ components: document.components }, DOCUMENT, false, false)
    this.#problems = findProblems(document)
  }

  isOf(schema: Schema, value: unknown): boolean {
    return this.explain(schema, value) === null
  }

  /** The reason why a value does not fit a schema; null if it fits. */
  explain(schema: Schema, value: unknown): string | null {
    let validate = this.#compiled.get(schema)
    if (validate === undefined) {
      validate = this.#ajv.compile(absolute(schema) as Schema)
      this.#compiled.set(schema, validate)
    }
    if (validate(value)) return null
    return this.#ajv.errorsText(validate.errors, { dataVar: '' })
  }

  /**
   * The reason why a problem does not have the form of its code. Compiles only the needed schema, because compiling all
   * takes a quarter of a second.
   */
  explainProblem(code: string, problem: unknown): string | null {
    const schema = this.#problems.get(code)
    return schema === undefined ? `no problem has the code ${code}` : this.explain(schema, problem)
  }

  judge(request: FuzzRequest): Verdict {
    const asSent = this.#findFault(request)
    const readings = [asSent, this.#findFault(withTidyTexts(request, '')), this.#findFault(withTidyTexts(request, undefined))]
    if (asSent !== null && !readings.includes(null)) return { kind: 'invalid', because: asSent }
    const isUnsure =
      readings.some((fault) => fault !== null) || request.isOdd || hasDoubtfulAddress(request) || hasOwnAddress(request) || hasMore(request)
    return isUnsure ? { kind: 'unsure' } : { kind: 'valid' }
  }

  #findFault(request: FuzzRequest): string | null {
    if (request.isStranger) return 'it needs a token'
    const ofSchemas = this.#judgePath(request) ?? this.#judgeQuery(request.operation, request.query) ?? this.#judgeBody(request)
    return ofSchemas ?? findBrokenRule(request)
  }

  #judgePath({ operation, pathValues }: FuzzRequest): string | null {
    for (const { name, schema } of operation.pathParameters) {
      const reason = findUnstorable(pathValues[name]) ?? this.explain(schema, pathValues[name])
      if (reason !== null) return `path ${name}: ${reason}`
    }
    return null
  }

  /** Judges a query. A parameter may repeat if it is a list, and every parameter must be in the document. */
  #judgeQuery({ path, queryParameters }: Operation, query: FuzzRequest['query']): string | null {
    const seen = new Set<string>()
    for (const { name, value } of query) {
      const parameter = queryParameters.find((known) => known.name === name)
      // An operation without a query ignores it.
      if (queryParameters.length === 0) continue
      if (parameter === undefined && isOpen(path)) continue
      if (parameter === undefined) return `query: ${JSON.stringify(name)} is not known`
      const isList = parameter.schema.type === 'array'
      if (seen.has(name) && !isList) return `query: ${name} comes twice`
      seen.add(name)
      const all = isList ? query.filter((other) => other.name === name).map((other) => other.value) : value
      const reason = value === null ? 'cannot be decoded' : (findUnstorable(value) ?? this.#judgeText(parameter, all))
      if (reason !== null) return `query ${name}: ${reason}`
    }
    const missing = queryParameters.find(({ name, isRequired }) => isRequired && !seen.has(name))
    return missing === undefined ? null : `query: ${missing.name} is missing`
  }

  #judgeText({ schema }: Parameter, text: unknown): string | null {
    if (typeof text !== 'string') return this.explain(schema, text)
    if (schema.type === 'integer') return /^-?(0|[1-9]\d*)$/.test(text) ? this.explain(schema, Number(text)) : 'is no integer'
    if (schema.type === 'boolean') return text === 'true' || text === 'false' ? null : 'is no boolean'
    return this.explain(schema, text)
  }

  #judgeBody({ operation: { body }, contentType, bodyText, bodyBytes }: FuzzRequest): string | null {
    if (body === null) return null
    if (bodyText === null) return body.isRequired ? 'body: is missing' : null
    if (body.schema === null) return contentType === null ? 'body: has no type' : null
    if (contentType === null || !/^\s*application\/json\b/i.test(contentType)) return 'body: is not said to be JSON'
    if (!JSON_TYPE.test(contentType.trim())) return null
    if (bodyBytes !== null && !isUtf8(bodyBytes)) return 'body: is not UTF-8'
    let value: unknown
    try {
      // A parser may ignore a byte order mark (RFC 8259 §8.1), and this one does.
      value = JSON.parse(bodyText.replace(/^\uFEFF/, ''))
    } catch {
      return 'body: is not JSON'
    }
    const reason = findUnstorable(value) ?? this.explain(body.schema, value)
    return reason === null ? null : `body: ${reason}`
  }
}

/** The schema of each code's problem. */
function findProblems({ components }: Schema): Map<unknown, Schema> {
  const { schemas } = components as { schemas: Record<string, Schema> }
  const forms = (schemas.Problem?.oneOf ?? []) as { $ref: string }[]
  return new Map(
    forms.flatMap((form) => {
      const { properties } = schemas[form.$ref.slice('#/components/schemas/'.length)] ?? {}
      return (properties?.code?.enum ?? []).map((code) => [code, form] as const)
    }),
  )
}

/**
 * The request without blanks around its texts, and with `empty` for a field that was left empty. The store may read it
 * like this, or as it was sent.
 */
function withTidyTexts(request: FuzzRequest, empty: '' | undefined): FuzzRequest {
  const query = request.query.map((pair) => (pair.value === null ? pair : { ...pair, value: tidyText(pair.value) }))
  return { ...request, query, bodyText: request.bodyText === null ? null : tidyJson(request.bodyText, empty) }
}

function tidyJson(text: string, empty: '' | undefined): string {
  try {
    const tidy = (_: string, value: unknown) => (typeof value === 'string' ? tidyText(value) || empty : value)
    return JSON.stringify(JSON.parse(text.replace(/^\ufeff/, ''), tidy)) ?? text
  } catch {
    return text
  }
}

function tidyText(text: string): string {
  return text.normalize('NFC').replace(/^[\s\p{Z}\p{Cf}]+|[\s\p{Z}\p{Cf}]+$/gu, '')
}

/**
 * Whether the path allows unknown parameters. Later Iceberg clients may send others than the document's, and mails add
 * some to links of products.
 */
function isOpen(path: string): boolean {
  return path.startsWith('/iceberg/') || path.startsWith('/products/{') || path.startsWith('/products/by-slug/')
}

function hasMore({ operation: { path, queryParameters }, query }: FuzzRequest): boolean {
  return isOpen(path) && query.some(({ name }) => queryParameters.every((known) => known.name !== name))
}

/** The reason if a value contains NUL or a lone surrogate, which docs/shop/errors.md refuses anywhere. */
function findUnstorable(value: unknown): string | null {
  const isUnstorable = (text: string) => text.includes('\0') || /\p{Surrogate}/u.test(text)
  // An explicit stack, because a value may be nested deeper than calls can be.
  const waiting = [value]
  while (waiting.length > 0) {
    const next = waiting.pop()
    if (typeof next === 'string' && isUnstorable(next)) return 'has NUL or half a surrogate pair'
    if (typeof next !== 'object' || next === null) continue
    for (const child of Array.isArray(next) ? next : Object.values(next)) waiting.push(child)
  }
  return null
}

function isDateTime(text: string): boolean {
  const [, year, month, day] = DATE_TIME.exec(text) ?? []
  if (year === undefined || month === undefined || day === undefined) return false
  const date = new Date(0)
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day))
  return date.getUTCMonth() === Number(month) - 1 && date.getUTCDate() === Number(day)
}

/** The schema with absolute references into the document. */
function absolute(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(absolute)
  if (typeof node !== 'object' || node === null) return node
  return Object.fromEntries(
    Object.entries(node).map(([name, child]) => [
      name,
      name === '$ref' && typeof child === 'string' ? `${DOCUMENT}${child}` : absolute(child),
    ]),
  )
}
