import type { Answer } from './connection.ts'
import type { Operation } from './contract.ts'
import type { Judge, Verdict } from './judge.ts'
import type { FuzzRequest } from './request.ts'

/** Codes of refusals because of the request's form. */
const FORM_CODES = new Set([
  ...['malformed_request', 'malformed_json', 'invalid_header', 'invalid_query', 'invalid_cursor', 'invalid_body'],
  ...['payload_too_large', 'unsupported_media_type'],
])
/** Refusals before a route is known, which docs/shop/errors.md allows for any address. */
const ANYWHERE: Record<number, readonly string[]> = {
  400: ['malformed_request'],
  408: ['malformed_request'],
  431: ['malformed_request'],
}
/**
 * Calls whose bodies have rules outside the schemas: lines, parcels and payments belong to the order, only a discount
 * is negative, a reason alone amends nothing, a webhook's URL has a public address, and the customer of an order
 * exists.
 */
const RULES_BESIDE_SCHEMA =
  /^POST \/admin\/orders\/\{id\}\/(shipments|cancellations|returns|adjustments|amendments|refunds)$|^POST \/admin\/orders$|^(POST|PATCH) \/admin\/webhooks(\/\{id\})?$/
/** The length from which the parser may refuse an `Authorization` header as a whole. */
const LONGEST_TOKEN = 8_192
const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/
const INTERNALS = /node_modules|\.ts:\d|\n\s+at |Error:|syntax error|relation "|insert into/

interface Problem {
  type?: unknown
  status?: unknown
  code?: unknown
  title?: unknown
  detail?: unknown
  request_id?: unknown
}

/** Everything in an answer that the document or docs/shop/errors.md does not allow. Empty if nothing is wrong. */
export function checkAnswer(judge: Judge, request: FuzzRequest, verdict: Verdict, answer: Answer): string[] {
  const { status, headers } = answer
  const problem = (status >= 400 ? answer.json() : null) as Problem | null
  const faults: string[] = []
  if (status >= 500 && status !== 503) faults.push(`status ${status}: never for any request`)
  if (verdict.kind === 'invalid' && status < 400) faults.push(`status ${status} for an invalid request (${verdict.because})`)
  const isBesideSchema = problem?.code === 'invalid_body' && RULES_BESIDE_SCHEMA.test(request.operation.name)
  if (verdict.kind === 'valid' && FORM_CODES.has(String(problem?.code)) && !isBesideSchema)
    faults.push(`${problem?.code} for a valid request`)
  if ([429, 503].includes(status) && !/^\d+$/.test(headers.get('retry-after') ?? '')) faults.push('has no Retry-After')
  if (status === 401 && !/^Bearer /.test(headers.get('www-authenticate') ?? '')) faults.push('has no WWW-Authenticate')
  return [...faults, ...checkId(request, answer, problem), ...checkDocumented(judge, request.operation, answer, problem)]
}

function checkId(request: FuzzRequest, { headers, status }: Answer, problem: Problem | null): string[] {
  const id = headers.get('x-request-id')
  if (id === undefined || !REQUEST_ID.test(id)) return [`x-request-id is ${id}`]
  if (problem !== null && 'request_id' in problem && problem.request_id !== id) return ['request_id is not the x-request-id']
  const sent = request.headers.filter(([name]) => name === 'x-request-id')
  const [only] = sent
  // Refusals by Node's own parser, such as for late requests or too long tokens, have no headers yet.
  const isRead = ![400, 408, 431].includes(status) && !(status === 401 && (request.authorization ?? '').length > LONGEST_TOKEN)
  return isRead && sent.length === 1 && only !== undefined && REQUEST_ID.test(only[1]) && only[1] !== id
    ? ['the x-request-id sent is not the one answered']
    : []
}

/** Differences from the document: the status, the body's type and form, and the problem's code. */
export function checkDocumented(
  judge: Judge,
  operation: Operation,
  answer: Pick<Answer, 'status' | 'headers' | 'bytes' | 'json'>,
  problem: Problem | null,
): string[] {
  const { status, headers, bytes } = answer
  const type = headers.get('content-type')?.split(';')[0]?.trim()
  const response = operation.responses.get(status)
  if (status === 304 && operation.method === 'GET') return bytes.length === 0 ? [] : ['304 has a body']
  // Clients of the Iceberg catalogue read only JSON.
  const problemType = operation.path.startsWith('/iceberg/') ? 'application/json' : 'application/problem+json'
  const isOfAnyAddress = status in ANYWHERE && type === 'application/problem+json'
  if ((type === problemType || isOfAnyAddress) && (problem !== null || type !== 'application/json'))
    return checkProblem(judge, operation, answer, problem, type)
  if (response === undefined) return [`status ${status} is not in the document`]
  const content = Object.entries(response.content)
  if (content.length === 0) return bytes.length === 0 ? [] : [`${status} has a body, which is not in the document`]
  const [, schema] = content.find(([documented]) => documented === type) ?? []
  if (schema === undefined) return [`the content type ${type} of ${status} is not in the document`]
  if (type === 'application/x-ndjson') return checkLines(bytes)
  if (type === 'text/html' || type === 'application/xml') return bytes.length > 0 ? [] : ['the page is empty']
  const reason = judge.explain(schema, answer.json())
  return reason === null ? [] : [`the body of ${status} is not as documented: ${reason}`]
}

function checkLines(bytes: Buffer): string[] {
  const lines = bytes.toString('utf8').split('\n').slice(0, -1)
  return lines.every(isJsonObject) ? [] : ['a line is no JSON object']
}

function isJsonObject(line: string): boolean {
  try {
    return typeof JSON.parse(line) === 'object'
  } catch {
    return false
  }
}

function checkProblem(
  judge: Judge,
  operation: Operation,
  { status, headers }: Pick<Answer, 'status' | 'headers'>,
  problem: Problem | null,
  type: string,
): string[] {
  const code = String(problem?.code)
  const response = operation.responses.get(status)
  const isDocumented = response?.codes.has(code) === true && type in response.content
  const reason = judge.explainProblem(code, problem)
  return [
    ...(isDocumented || ANYWHERE[status]?.includes(code) ? [] : [`${status} ${code} is not in the document`]),
    ...(reason === null ? [] : [`the problem is not as documented: ${reason}`]),
    ...(problem?.status === status ? [] : [`the problem's status is ${problem?.status}`]),
    ...(String(problem?.type).endsWith(`/problems/${code}`) ? [] : [`the problem's type is ${problem?.type}`]),
    ...(headers.get('cache-control') === 'no-store' ? [] : ['a problem that caches may keep']),
    // The refusal of an operator's own SQL has DuckDB's message, which may say `syntax error`.
    ...(code !== 'query_refused' && INTERNALS.test(`${problem?.title} ${problem?.detail}`) ? ['the problem shows internals'] : []),
  ]
}
