import type { Operation } from './contract.ts'
import type { Account } from './known.ts'

/** A request as it will be sent, with what the judge needs to know about it. */
export interface FuzzRequest {
  operation: Operation
  method: string
  /** The account whose token it carries; null for none. */
  account: Account | null
  /** Whether the operation needs a token and none, or a wrong one, is sent. */
  isStranger: boolean
  pathValues: Record<string, string>
  /** `value` is null where `raw`, as which the pair is written, cannot be decoded. */
  query: { name: string; value: string | null; raw: string }[]
  /** Headers besides authorization and content-type. */
  headers: [name: string, value: string][]
  authorization: string | null
  contentType: string | null
  bodyText: string | null
  /** What is sent instead of `bodyText`, where that cannot be text. */
  bodyBytes: Buffer | null
  /** Whether something was done to a valid request. */
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
 * `encodeURIComponent` for any text: half a surrogate pair, which has no bytes of its own, as the bytes of a UTF-8
 * that allows it.
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

/** The parsed body where it is JSON. */
export function parsedBody({ bodyText }: Pick<FuzzRequest, 'bodyText'>): unknown {
  if (bodyText === null) return undefined
  try {
    return JSON.parse(bodyText)
  } catch {
    return undefined
  }
}

const SHOWN = 400

/** For people, to send it again by hand; the token is left out. */
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
