import { isUtf8 } from 'node:buffer'
import SerializerSelector from '@fastify/fast-json-stringify-compiler'
import type { FastifySchemaCompiler, FastifyServerOptions } from 'fastify'
import type { TSchema } from 'typebox'
import { Compile } from 'typebox/schema'
import { AppError, type ErrorCode, type FieldError } from '../errors.ts'
import { findExcess } from './json-limits.ts'
import { compileNormalizer, trimBlanks } from './normalize-input.ts'
import { invalidBody } from './problem.ts'
import { findUnstorableText, isStorable, UNSTORABLE } from './storable-text.ts'
import { countCodePoints } from './text-length.ts'

const MAX_ERRORS = 100
const MAX_NAME_LENGTH = 100
const MAX_PARAMETERS = 100
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf])
const UNKNOWN_PROPERTY = 'is not a known property'

/** JSON is UTF-8 (RFC 8259 §8.1). `__proto__` stays a property, and the schema refuses it. */
export function parseJson(sent: Buffer): unknown {
  // RFC 8259 §8.1 allows a parser to ignore it.
  const body = sent.subarray(0, 3).equals(BYTE_ORDER_MARK) ? sent.subarray(3) : sent
  if (!isUtf8(body)) throw new AppError('malformed_json', 'The body is not valid UTF-8.')
  const excess = findExcess(body)
  if (excess !== null) throw invalidBody('#', excess)
  try {
    return JSON.parse(body.toString('utf8'))
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new AppError('malformed_json', 'The body is not valid JSON.')
  }
}

/** Replaces a value that cannot be percent-decoded. Validation refuses this lone surrogate. */
const UNDECODABLE = '\ud800'

const UNREAD = Symbol('unread')

/** A repeated name has a list. The validator refuses parameters past the limit. */
export function parseQuery(query: string): Record<string, unknown> {
  const values: Record<string, unknown> = Object.create(null)
  for (const [index, pair] of query.split('&', MAX_PARAMETERS + 1).entries()) {
    const equals = pair.indexOf('=')
    const name = decode(equals < 0 ? pair : pair.slice(0, equals))
    if (index === MAX_PARAMETERS) values[UNREAD as never] = name
    if (pair === '' || index === MAX_PARAMETERS) continue
    const value = equals < 0 ? '' : decode(pair.slice(equals + 1))
    const earlier = values[name]
    if (Array.isArray(earlier)) earlier.push(value)
    else values[name] = earlier === undefined ? value : [earlier, value]
  }
  return values
}

function decode(text: string): string {
  if (!text.includes('%') && !text.includes('+')) return text
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch (error) {
    if (!(error instanceof URIError)) throw error
    return UNDECODABLE
  }
}

const FAULTS: Record<string, { code: ErrorCode; message: string }> = {
  body: { code: 'invalid_body', message: 'The body is not acceptable.' },
  querystring: { code: 'invalid_query', message: 'A query parameter is not valid.' },
  headers: { code: 'invalid_header', message: 'A header is not valid.' },
  params: { code: 'not_found', message: 'There is nothing at this address.' },
}

export const compileValidator: FastifySchemaCompiler<TSchema> = ({ schema, url, httpPart = 'body' }) => {
  const check = Compile(countCodePoints(schema))
  // Programs make these calls, and a reference that became null would end the protection against repeats.
  const fills = httpPart === 'body' && !url.includes('/admin/')
  // Header values have no surrounding blanks.
  const normalize = httpPart === 'headers' ? (value: unknown) => value : compileNormalizer(schema, { fills })
  const { code, message } = FAULTS[httpPart] ?? { code: 'invalid_body', message: '' }
  return (input: unknown) => {
    const value = normalize(httpPart === 'querystring' ? convertQuery(schema, input) : input)
    // The check alone decides. The list of errors explains, but TypeBox truncates it, and it may be empty.
    const isValid = check.Check(value)
    const unread = httpPart === 'querystring' ? (value as { [UNREAD]?: string })[UNREAD] : undefined
    if (isValid && unread === undefined && isStorable(value)) return { value }
    const errors =
      unread !== undefined ? refuseParameters(unread) : isValid ? unstorableText(value) : describe(check.Errors(value)[1], schema)
    if (httpPart === 'params') return { error: new AppError(code, message) }
    return { error: new AppError(code, message, { errors: httpPart === 'body' ? errors : errors.map(asParameter) }) }
  }
}

/** Converts text that is exactly a number or boolean. The check refuses other text. */
function convertQuery(schema: TSchema, input: unknown): unknown {
  const { properties = {} } = schema as { properties?: Record<string, { type?: string }> }
  const values = { ...(input as Record<string, unknown>) }
  for (const [name, given] of Object.entries(values)) {
    const type = Object.hasOwn(properties, name) ? properties[name]?.type : undefined
    const value = typeof given === 'string' && type !== undefined ? trimBlanks(given) : given
    if (type === 'integer' && typeof value === 'string' && /^-?(0|[1-9]\d{0,15})$/.test(value)) values[name] = Number(value)
    if (type === 'array' && typeof value === 'string') values[name] = [value]
    if (type === 'boolean' && (value === 'true' || value === 'false')) values[name] = value === 'true'
  }
  return values
}

function refuseParameters(unread: string): FieldError[] {
  return [{ pointer: `#/${escapePointer(unread)}`, detail: `comes after ${MAX_PARAMETERS} others, which is the limit` }]
}

function describe(errors: readonly SchemaError[], schema: TSchema): FieldError[] {
  const described = describeNamed(errors, schema)
  if (described.length > 0) return described
  // TypeBox truncated the list before the error that names all unknown properties.
  return errors.map(({ instancePath }) => ({ pointer: `#${encodeURI(cut(instancePath))}`, detail: UNKNOWN_PROPERTY }))
}

function describeNamed(errors: readonly SchemaError[], schema: TSchema): FieldError[] {
  return withoutAnyOfNoise(errors)
    .filter((error) => error.keyword !== 'boolean')
    .flatMap((error): FieldError[] => {
      const { additionalProperties, requiredProperties } = error.params as Record<string, string[] | undefined>
      const named = additionalProperties ?? requiredProperties
      if (named === undefined) return [{ pointer: `#${cut(error.instancePath)}`, detail: detailOf(error, schema) }]
      const detail = additionalProperties === undefined ? 'is required' : UNKNOWN_PROPERTY
      return named.slice(0, MAX_ERRORS).map((name) => ({ pointer: `#${cut(error.instancePath)}/${escapePointer(name)}`, detail }))
    })
    .slice(0, MAX_ERRORS)
}

function detailOf({ keyword, schemaPath, params, message }: SchemaError, schema: TSchema): string {
  const { allowedValues, format = '' } = params as { allowedValues?: unknown[]; format?: string }
  if (keyword === 'enum' && allowedValues !== undefined) return `must be one of ${allowedValues.join(', ')}`
  if (keyword === 'format') return FORMATS[format] ?? 'is not written as it must be'
  const part = findPart(schema, schemaPath)
  if (keyword === 'pattern') return describePattern(part)
  return part['x-must'] === undefined || part.type === 'string' || keyword === '~refine' ? message : describePattern(part)
}

const FORMATS: Record<string, string> = {
  'date-time': 'must be a time such as 2026-11-26T08:30:00Z',
  uuid: 'must be an id such as 0193a5c0-7e3b-7c54-9a1e-2f6d8b4c1a90',
}

interface Part {
  type?: string
  'x-must'?: string
  examples?: readonly unknown[]
}

/** `x-must` continues "must". Examples are the next best. */
function describePattern({ 'x-must': must, examples = [] }: Part): string {
  if (must !== undefined) return `must ${must}`
  return examples.length === 0 ? 'is not written as it must be' : `must be written like ${examples.join(' or ')}`
}

function findPart(schema: TSchema, path: string): Part {
  const names = path.split('/').slice(1)
  const part = names.reduce<unknown>((value, name) => (value as Record<string, unknown> | undefined)?.[unescapePointer(name)], schema)
  return (part ?? {}) as Part
}

function unstorableText(value: unknown): FieldError[] {
  return findUnstorableText(value).map((path) => ({ pointer: ['#', ...path.map(escapePointer)].join('/'), detail: UNSTORABLE }))
}

// A URI fragment percent-encodes reserved characters after the pointer's own escapes (RFC 6901 §6).
function escapePointer(name: string): string {
  return encodeURIComponent(cut(name).replaceAll('~', '~0').replaceAll('/', '~1'))
}

function unescapePointer(name: string): string {
  return name.replaceAll('~1', '/').replaceAll('~0', '~')
}

function cut(name: string): string {
  return (name.length > MAX_NAME_LENGTH ? `${name.slice(0, MAX_NAME_LENGTH)}…` : name).toWellFormed()
}

function asParameter({ pointer = '#', detail }: FieldError): FieldError {
  return {
    parameter: unescapePointer(decodeURIComponent(pointer.slice(2).split('/')[0] ?? '')),
    detail,
  }
}

/** Compiles each schema at its first request: see docs/decisions/operations-processes.md. */
export const compilersWhenUsed: NonNullable<FastifyServerOptions['schemaController']>['compilersFactory'] = {
  buildValidator: () => compileValidatorWhenUsed as never,
  buildSerializer(sharedSchemas, options) {
    const compile = SerializerSelector()(sharedSchemas, options)
    return (route) => whenUsed(() => compile(route))
  },
}

const compileValidatorWhenUsed: FastifySchemaCompiler<TSchema> = (route) => whenUsed(() => compileValidator(route))

function whenUsed<A, R>(compile: () => (input: A) => R): (input: A) => R {
  let compiled: ((input: A) => R) | undefined
  return (input) => {
    compiled ??= compile()
    return compiled(input)
  }
}

interface SchemaError {
  keyword: string
  schemaPath: string
  instancePath: string
  params: object
  message: string
}

const BRANCH = /\/anyOf\/\d+$/

/** A wrong object in a nullable value is not reported as "must be null". A value of no allowed type gets one error. */
function withoutAnyOfNoise(errors: readonly SchemaError[]): SchemaError[] {
  return errors.flatMap((error): SchemaError[] => {
    if (error.keyword === 'anyOf') return errors.some((other) => isInside(other, error.schemaPath, error.instancePath)) ? [] : [error]
    if (!isOtherType(error)) return [error]
    const { instancePath } = error
    const anyOf = error.schemaPath.replace(BRANCH, '')
    const siblings = errors.filter((other) => isInside(other, anyOf, instancePath))
    const types = siblings.filter((other) => isOtherType(other) && other.instancePath === instancePath && !isNested(other, anyOf))
    if (types.length < siblings.length || types[0] !== error) return []
    return [{ ...error, message: `must be ${types.map(({ params }) => (params as { type?: string }).type).join(' or ')}` }]
  })
}

function isOtherType({ keyword, schemaPath }: SchemaError): boolean {
  return keyword === 'type' && BRANCH.test(schemaPath)
}

function isInside({ keyword, schemaPath, instancePath: path }: SchemaError, anyOf: string, instancePath: string): boolean {
  return keyword !== 'anyOf' && schemaPath.startsWith(`${anyOf}/anyOf/`) && (path === instancePath || path.startsWith(`${instancePath}/`))
}

function isNested({ schemaPath }: SchemaError, anyOf: string): boolean {
  return schemaPath.replace(BRANCH, '') !== anyOf
}
