import { isUtf8 } from 'node:buffer'
import type { FastifySchemaCompiler } from 'fastify'
import type { TSchema } from 'typebox'
import { Compile } from 'typebox/compile'
import { AppError, type ErrorCode, type FieldError } from '../errors.ts'
import { countCodePoints } from './text-length.ts'

const MAX_ERRORS = 100

/** Parses a JSON body. JSON is UTF-8 (RFC 8259 §8.1); `__proto__` stays a property and is refused by the schema. */
export function parseJson(body: Buffer): unknown {
  if (!isUtf8(body)) throw new AppError('malformed_json', 'The body is not valid UTF-8.')
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    throw new AppError('malformed_json', 'The body is not valid JSON.')
  }
}

/** A value that percent-decoding cannot make sense of becomes this lone surrogate, which validation then refuses. */
const UNDECODABLE = '\ud800'

/** Query string → names and values, all text; a name that comes twice has a list. */
export function parseQuery(query: string): Record<string, unknown> {
  const values: Record<string, unknown> = Object.create(null)
  for (const pair of query.split('&')) {
    if (pair === '') continue
    const equals = pair.indexOf('=')
    const name = decode(equals < 0 ? pair : pair.slice(0, equals))
    const value = equals < 0 ? '' : decode(pair.slice(equals + 1))
    values[name] = name in values ? [values[name], value].flat() : value
  }
  return values
}

function decode(text: string): string {
  if (!text.includes('%') && !text.includes('+')) return text
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    return UNDECODABLE
  }
}

const FAULTS: Record<string, { code: ErrorCode; message: string }> = {
  body: { code: 'invalid_body', message: 'The body is not acceptable.' },
  querystring: { code: 'invalid_query', message: 'A query parameter is not valid.' },
  headers: { code: 'invalid_header', message: 'A header is not valid.' },
  params: { code: 'not_found', message: 'There is nothing at this address.' },
}

/** Compiles a route's TypeBox schema. Bodies are taken as they are; query values are first converted from text. */
export const compileValidator: FastifySchemaCompiler<TSchema> = ({ schema, httpPart = 'body' }) => {
  const check = Compile(countCodePoints(schema))
  const { code, message } = FAULTS[httpPart] ?? { code: 'invalid_body', message: '' }
  return (input: unknown) => {
    const value = httpPart === 'querystring' ? convertQuery(schema, input) : input
    const errors = check.Check(value) ? (isStorable(value) ? [] : findUnstorableText(value)) : describe(check.Errors(value))
    if (errors.length === 0) return { value }
    if (httpPart === 'params') return { error: new AppError(code, message) }
    return { error: new AppError(code, message, { errors: httpPart === 'body' ? errors : errors.map(asParameter) }) }
  }
}

/** Text → number or boolean where the schema wants one and the text is exactly that; anything else stays for the check to refuse. */
function convertQuery(schema: TSchema, input: unknown): unknown {
  const { properties = {} } = schema as { properties?: Record<string, { type?: string }> }
  const values = { ...(input as Record<string, unknown>) }
  for (const [name, value] of Object.entries(values)) {
    const type = Object.hasOwn(properties, name) ? properties[name]?.type : undefined
    if (type === 'integer' && typeof value === 'string' && /^-?(0|[1-9]\d{0,15})$/.test(value)) values[name] = Number(value)
    if (type === 'boolean' && (value === 'true' || value === 'false')) values[name] = value === 'true'
  }
  return values
}

type SchemaError = { keyword: string; instancePath: string; params: object; message: string }

function describe(errors: readonly SchemaError[]): FieldError[] {
  return errors
    .filter((error) => error.keyword !== 'boolean')
    .flatMap((error): FieldError[] => {
      const { additionalProperties, requiredProperties } = error.params as Record<string, string[] | undefined>
      const named = additionalProperties ?? requiredProperties
      if (named === undefined) return [{ pointer: `#${error.instancePath}`, detail: error.message }]
      const detail = additionalProperties === undefined ? 'is required' : 'is not a known property'
      return named.map((name) => ({ pointer: `#${error.instancePath}/${escapePointer(name)}`, detail }))
    })
    .slice(0, MAX_ERRORS)
}

/** Whether PostgreSQL and UTF-8 can hold every text in a value: they know neither NUL nor lone surrogates. */
function isStorable(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed() && !value.includes('\0')
  return typeof value !== 'object' || value === null || Object.values(value).every(isStorable)
}

function findUnstorableText(value: unknown, pointer = '#'): FieldError[] {
  if (typeof value === 'string') return isStorable(value) ? [] : [{ pointer, detail: 'must be well-formed Unicode without NUL' }]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, child]) => findUnstorableText(child, `${pointer}/${escapePointer(key)}`))
}

// A URI fragment: characters that cannot stand there are percent-encoded after the pointer's own escapes (RFC 6901 §6).
function escapePointer(name: string): string {
  return encodeURIComponent(name.toWellFormed().replaceAll('~', '~0').replaceAll('/', '~1'))
}

function asParameter({ pointer = '#', detail }: FieldError): FieldError {
  return {
    parameter: decodeURIComponent(pointer.slice(2).split('/')[0] ?? '')
      .replaceAll('~1', '/')
      .replaceAll('~0', '~'),
    detail,
  }
}
