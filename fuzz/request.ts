import type { Operation } from './contract.ts'
import type { Account } from './known.ts'

/** A request to send, with the information that the judge needs. */
export interface FuzzRequest {
  operation: Operation
  method: string
  /** The account whose token it contains; null if none. */
  account: Account | null
  /** Whether the operation needs a token, and none or a wrong one is sent. */
  isStranger: boolean
  pathValues: Record<string, string>
  /** `raw` is the pair as sent. `value` is null if it cannot be decoded. */
  query: { name: string; value: string | null; raw: string }[]
  /** Headers besides authorization and content-type. */
  headers: [name: string, value: string][]
  authorization: string | null
  contentType: string | null
  bodyText: string | null
  /** Bytes to send instead of `bodyText`, if the body cannot be text. */
  bodyBytes: Buffer | null
  /** Whether a mutation was applied to a valid request. */
  isOdd: boolean
}

function pathOf({ operation, pathValues }: Pick<FuzzRequest, 'operation' | 'pathValues'>): string {
  return operation.path.replace(/\{(\w+)\}/g, (_, name) => encodePart(pathValues[name] ?? ''))
}

export function targetOf(request: FuzzRequest): string {
  const query = request.query.map(({ raw }) => raw).join('&')
  return `${pathOf(request)}${query === '' ? '' : `?${query}`}`
}

/**
 * Like `encodeURIComponent`, for any text. A lone surrogate, which has no UTF-8 bytes, gets those of a UTF-8 that would
 * allow it.
 */
export function encodePart(text: string): string {
  return [...text]
    .map((character) => (/\p{Surrogate}/u.test(character) ? encodeSurrogate(character) : encodeURIComponent(character)))
    .join('')
}

function encodeSurrogate(character: string): string {
  const unit = character.charCodeAt(0)
  const bytes = [0xe0 | (unit >> 12), 0x80 | ((unit >> 6) & 0x3f), 0x80 | (unit & 0x3f)]
  return bytes.map((byte) => `%${byte.toString(16)}`).join('')
}

export function queryPair(name: string, value: string): FuzzRequest['query'][number] {
  const isWritable = !/\p{Surrogate}/u.test(value)
  return { name, value: isWritable ? value : null, raw: `${encodePart(name)}=${encodePart(value)}` }
}

/** The parsed body, if it is JSON. */
export function parsedBody({ bodyText }: Pick<FuzzRequest, 'bodyText'>): unknown {
  if (bodyText === null) return undefined
  try {
    return JSON.parse(bodyText)
  } catch {
    return undefined
  }
}

const SHOWN = 400

/** Describes a request for a person who resends it by hand. Omits the token. */
export function describeRequest(request: FuzzRequest): string {
  const { method, headers, contentType, bodyText, bodyBytes, account, authorization } = request
  const cut = (text: string) => (text.length > SHOWN ? `${text.slice(0, SHOWN)}… (${text.length} characters)` : text)
  return [
    `${method} ${cut(targetOf(request))}`,
    ...(authorization !== null ? [`authorization: ${JSON.stringify(cut(authorization))}`] : []),
    ...(authorization === null && account !== null ? [`authorization: Bearer <token of ${account.email}, ${account.role}>`] : []),
    ...headers.map(([name, value]) => `${name}: ${JSON.stringify(cut(value))}`),
    ...(contentType === null ? [] : [`content-type: ${contentType}`]),
    ...(bodyBytes === null ? [] : [`(bytes) ${cut(bodyBytes.toString('latin1'))}`]),
    ...(bodyBytes === null && bodyText !== null ? ['', cut(bodyText)] : []),
  ].join('\n')
}
