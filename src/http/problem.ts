import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type TProperties, Type } from 'typebox'
import { isTemporary } from '../db/failures.ts'
import { loggableError } from '../db/loggable-error.ts'
import { AppError, type ErrorCode } from '../errors.ts'
import { endAtTinyChunks } from './limit-chunks.ts'
import { loadClassOf } from './load-shedder.ts'
import { MEMBER_EXAMPLES, PROBLEM_MEMBERS } from './problem-members.ts'
import type { RefusalLog } from './refusal-log.ts'
import type { LoadClass } from './request-cost.ts'
import { traceIdOfRequest } from './trace-context.ts'

/** A test verifies that `docs/shop/errors.md` lists the same. */
export const PROBLEMS: Record<ErrorCode, { status: number; title: string }> = {
  malformed_request: { status: 400, title: 'The request is not valid HTTP' },
  malformed_json: { status: 400, title: 'The body is not valid JSON' },
  invalid_header: { status: 400, title: 'A header is not valid' },
  invalid_query: { status: 400, title: 'A query parameter is not valid' },
  invalid_cursor: { status: 400, title: 'The cursor is not valid' },
  unauthenticated: { status: 401, title: 'Authentication is required' },
  invalid_token: { status: 401, title: 'The access token is not valid' },
  invalid_credentials: { status: 401, title: 'E-mail address or password is wrong' },
  invalid_sign_in: { status: 401, title: 'The sign-in with a provider is not valid' },
  invalid_refresh_token: { status: 401, title: 'The refresh token is not valid' },
  forbidden: { status: 403, title: 'This is not allowed' },
  invalid_signature: { status: 403, title: 'The signature is wrong' },
  second_factor_required: { status: 403, title: 'The second factor is required' },
  second_factor_setup_required: { status: 403, title: 'A second factor must be set up' },
  step_up_required: { status: 403, title: 'A fresh proof of identity is required' },
  account_blocked: { status: 403, title: 'The account is blocked' },
  not_found: { status: 404, title: 'Not found' },
  method_not_allowed: { status: 405, title: 'The method is not allowed here' },
  email_taken: { status: 409, title: 'The e-mail address is taken' },
  last_admin: { status: 409, title: 'The store needs an admin' },
  address_unproven: { status: 409, title: 'The address is not proven' },
  passkey_taken: { status: 409, title: 'The passkey is registered already' },
  too_many_passkeys: { status: 409, title: 'The account has too many passkeys' },
  totp_active: { status: 409, title: 'The account has an authenticator app' },
  sign_in_taken: { status: 409, title: 'The sign-in belongs to another account' },
  provider_linked: { status: 409, title: 'The account has another sign-in with this provider' },
  last_sign_in: { status: 409, title: 'It is the last way to sign in' },
  insufficient_stock: { status: 409, title: 'There is not enough stock' },
  stock_not_tracked: { status: 409, title: 'The stock is not tracked' },
  adjustment_reference_taken: { status: 409, title: 'The reference belongs to another adjustment' },
  slug_taken: { status: 409, title: 'The slug is taken' },
  sku_taken: { status: 409, title: 'The sku is taken' },
  category_misplaced: { status: 409, title: 'The category cannot be there' },
  category_name_taken: { status: 409, title: 'The name is taken' },
  category_not_empty: { status: 409, title: 'The category is not empty' },
  too_many_categories: { status: 409, title: 'There are too many categories' },
  group_too_large: { status: 409, title: 'The group of variants is too large' },
  total_negative: { status: 409, title: 'The total would be negative' },
  too_many_changes: { status: 409, title: 'The order has too many changes' },
  too_late_to_amend: { status: 409, title: 'It is too late to amend this' },
  order_erased: { status: 409, title: 'The personal data of the order are erased' },
  illegal_transition: { status: 409, title: 'The order cannot make this move' },
  quantity_exceeded: { status: 409, title: 'The order has fewer units' },
  change_reference_taken: { status: 409, title: 'The reference belongs to another change of the order' },
  refund_exceeded: { status: 409, title: 'Less is left to refund' },
  client_reference_taken: { status: 409, title: 'The client reference is taken' },
  probably_placed_already: { status: 409, title: 'The same order was just placed' },
  mail_not_failed: { status: 409, title: 'The mail has not failed' },
  mail_not_sent: { status: 409, title: 'The mail is not sent yet' },
  mail_not_repeatable: { status: 409, title: 'The mail cannot be sent again' },
  price_changed: { status: 409, title: 'The total has changed' },
  too_many_pending_orders: { status: 409, title: 'Too many orders are pending' },
  too_many_addresses: { status: 409, title: 'There are too many addresses' },
  purchase_limit: { status: 409, title: 'The purchase limit is exceeded' },
  request_in_progress: { status: 409, title: 'The same request is in progress' },
  webhook_disabled: { status: 409, title: 'The webhook is disabled' },
  api_key_ended: { status: 409, title: 'The API key has ended' },
  webhook_exists: { status: 409, title: 'Another webhook endpoint has this URL and these events' },
  too_many_webhooks: { status: 409, title: 'There are too many webhook endpoints' },
  too_many_api_keys: { status: 409, title: 'There are too many API keys' },
  misdirected_request: { status: 421, title: 'The store has another address' },
  precondition_failed: { status: 412, title: 'The state is no longer the expected one' },
  payload_too_large: { status: 413, title: 'The body is too large' },
  unsupported_media_type: { status: 415, title: 'The media type of the body is not the one of this call' },
  invalid_body: { status: 422, title: 'The body is not acceptable' },
  password_too_common: { status: 422, title: 'The password is too common' },
  invalid_one_time_token: { status: 422, title: 'The one-time token is not valid' },
  invalid_order_link: { status: 422, title: 'The link to the order is not valid' },
  wrong_postal_code: { status: 422, title: 'The postal code is not the one of the order' },
  invalid_challenge: { status: 422, title: 'The challenge is not valid' },
  invalid_second_factor: { status: 422, title: 'The proof of identity is not valid' },
  unknown_product: { status: 422, title: 'A product does not exist' },
  mixed_currencies: { status: 422, title: 'The order mixes currencies' },
  currency_not_available: { status: 422, title: 'Not sold in this currency' },
  total_too_large: { status: 422, title: 'The total is too large' },
  idempotency_key_reused: { status: 422, title: 'The idempotency key belongs to another request' },
  query_refused: { status: 422, title: 'The query cannot be answered' },
  query_timeout: { status: 422, title: 'The query took too long' },
  idempotency_key_required: { status: 400, title: 'An idempotency key is required' },
  if_match_required: { status: 428, title: 'If-Match is required' },
  rate_limited: { status: 429, title: 'Too many tries' },
  unavailable: { status: 503, title: 'The store cannot answer now' },
  overloaded: { status: 503, title: 'The store has too many requests' },
  internal: { status: 500, title: 'Something went wrong' },
}

export const REALM = 'Bearer realm="storefront"'
const RETRY_AFTER_SECONDS = '1'

const PLAIN_CODES = Object.keys(PROBLEMS).filter((code) => !Object.hasOwn(PROBLEM_MEMBERS, code))

function problemSchema($id: string, codes: string[], members: TProperties) {
  return Type.Object(
    {
      type: Type.String({ format: 'uri', description: 'The page that explains the problem: `/problems/<code>` of this store.' }),
      title: Type.String({ description: 'A text for people, in English. Its wording may change.' }),
      status: Type.Integer(),
      detail: Type.String(),
      code: Type.Enum(codes, { description: 'Stable. docs/shop/errors.md lists all codes.' }),
      request_id: Type.String(),
      trace_id: Type.String({ description: 'The W3C trace id of the request, from its header `traceparent` if that was valid.' }),
      errors: Type.Optional(
        Type.Array(
          Type.Object(
            {
              pointer: Type.Optional(Type.String({ description: 'RFC 6901 JSON pointer as a URI fragment.' })),
              parameter: Type.Optional(Type.String()),
              detail: Type.String(),
            },
            { title: 'ProblemFault' },
          ),
        ),
      ),
      error: Type.Optional(
        Type.Object(
          { message: Type.String(), type: Type.String(), code: Type.Integer() },
          { title: 'IcebergError', description: "Only below `/iceberg/`: the error model of Iceberg's REST catalogue." },
        ),
      ),
      ...members,
    },
    { $id },
  )
}

export const PROBLEM_SCHEMAS = [
  problemSchema('PlainProblem', PLAIN_CODES, {}),
  ...Object.entries(PROBLEM_MEMBERS).map(([code, members]) => problemSchema(schemaNameOf(code), [code], members)),
]

const PROBLEM_NAMES = ['PlainProblem', ...Object.keys(PROBLEM_MEMBERS).map(schemaNameOf)]

export const Problem = {
  $id: 'Problem',
  description: 'RFC 9457 problem details. `code` tells which members follow.',
  oneOf: PROBLEM_NAMES.map((name) => ({ $ref: `${name}#` })),
}

function schemaNameOf(code: string): string {
  return `${code.replaceAll(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase())}Problem`
}

export function invalidBody(pointer: string, detail: string, message = 'The body is not acceptable.'): AppError {
  return new AppError('invalid_body', message, { errors: [{ pointer, detail }] })
}

export function problemResponses(mediaType: string, codes: readonly ErrorCode[]) {
  const listed = (Object.keys(PROBLEMS) as ErrorCode[]).filter((code) => codes.includes(code))
  const byStatus = Map.groupBy(listed, (code) => PROBLEMS[code].status)
  const responses: Record<number, { description: string; content: Record<string, object> }> = {}
  for (const [status, group] of byStatus) {
    responses[status] = {
      description: group.map((code) => `\`${code}\`: ${PROBLEMS[code].title}.`).join(' '),
      content: {
        [mediaType]: {
          schema: { $ref: 'Problem#' },
          examples: Object.fromEntries(group.map((code) => [code, { $ref: `#/components/examples/${code}` }])),
        },
      },
    }
  }
  return responses
}

export function problemExamples() {
  return Object.fromEntries(
    Object.entries(PROBLEMS).flatMap(([code, { status, title }]) => {
      // No documented call answers with these codes.
      if (code === 'method_not_allowed' || code === 'misdirected_request') return []
      const value = {
        type: `${EXAMPLE_BASE_URL}/problems/${code}`,
        title,
        status,
        detail: `${title}.`,
        code,
        request_id: EXAMPLE_REQUEST_ID,
        trace_id: EXAMPLE_TRACE_ID,
        ...MEMBER_EXAMPLES[code as ErrorCode],
      }
      return [[code, { summary: title, value }]]
    }),
  )
}

const EXAMPLE_BASE_URL = 'https://shop.example'
const EXAMPLE_REQUEST_ID = '01997a5e-4b1c-7d3a-9f60-2c8a1b0e7d44'
const EXAMPLE_TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736'

/** The refusal in the log and the metrics. No client receives the answer. */
const BROKEN_OFF = new AppError('malformed_request', 'The connection ended before the body did.')

/** A broken database connection has the same codes. */
export function isBrokenOff(error: unknown, { raw }: Pick<FastifyRequest, 'raw'>): boolean {
  return error instanceof Error && error === raw.errored
}

export interface ProblemContext {
  baseUrl: string
  basePath: string
  refusals: RefusalLog
  onOverloaded?: ((loadClass: LoadClass) => void) | undefined
}

/** Logs an unknown error once and reveals nothing. The log of 503 answers is sampled. */
export function sendError(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  { baseUrl, basePath, refusals, onOverloaded }: ProblemContext,
): FastifyReply {
  const known = isBrokenOff(error, request) ? BROKEN_OFF : toAppError(error, request)
  const { status, title } = PROBLEMS[known.code]
  const traceId = traceIdOfRequest(request.raw)
  if (status === 503) refusals.add(error, { request_id: request.id, trace_id: traceId })
  else if (status >= 500) request.log.error({ trace_id: traceId, err: loggableError(error), code: known.code }, 'request failed')
  if (known.code === 'overloaded') onOverloaded?.(loadClassOf(request))
  const { errors, members, headers } = known.details
  const isIceberg = isIcebergCall(request.url, basePath)
  const problem = {
    type: `${baseUrl}/problems/${known.code}`,
    title,
    status,
    detail: known.message,
    code: known.code,
    request_id: request.id,
    trace_id: traceId,
    ...(errors === undefined ? {} : { errors }),
    ...(isIceberg ? icebergErrorOf(status, known.message) : {}),
    ...members,
  }
  if (status === 401) reply.header('www-authenticate', known.code === 'invalid_token' ? `${REALM}, error="invalid_token"` : REALM)
  if (status === 503) reply.header('retry-after', RETRY_AFTER_SECONDS)
  if (headers !== undefined) reply.headers(headers)
  reply
    .code(status)
    .headers({ 'cache-control': 'no-store', 'content-language': 'en' })
    .type(isIceberg ? 'application/json' : 'application/problem+json')
    .serializer((payload: unknown) => payload as string)
  const send = () => {
    reply.send(JSON.stringify(problem))
  }
  if (isUnread(request.raw, reply.raw)) discardBody(request.raw, reply, send)
  else send()
  return reply
}

const MUCH_BYTES = 16_384
const MAX_DISCARDED_BYTES = 1_048_576
const MAX_DISCARDING_MS = 2_000

/** Whether the client is still sending a body that the server will not read. */
function isUnread({ complete, destroyed, headers }: IncomingMessage, { shouldKeepAlive }: ServerResponse): boolean {
  if (complete || destroyed) return false
  return !shouldKeepAlive || headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > MUCH_BYTES
}

/** Closing a connection with unread bytes resets it, and a proxy that is still sending then answers 502. */
function discardBody(raw: IncomingMessage, reply: FastifyReply, answer: () => void): void {
  let bytes = 0
  const end = () => {
    clearTimeout(timer)
    raw.off('data', count).off('end', end).off('close', end)
    if (!raw.complete) reply.header('connection', 'close')
    answer()
  }
  const count = (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > MAX_DISCARDED_BYTES) end()
  }
  const timer = setTimeout(end, MAX_DISCARDING_MS)
  raw.unpipe()
  if (raw.headers['transfer-encoding'] !== undefined) raw.on('data', endAtTinyChunks(raw))
  raw.on('data', count).once('end', end).once('close', end).resume()
}

const FASTIFY_CODES: Record<string, AppError> = {
  FST_ERR_CTP_BODY_TOO_LARGE: new AppError('payload_too_large', 'The body is larger than this call accepts.'),
  FST_ERR_MAX_PARAM_LENGTH: new AppError('not_found', 'There is nothing at this address.'),
  FST_ERR_BAD_URL: new AppError('malformed_request', 'The path is not a valid URL.'),
}

const NDJSON = 'application/x-ndjson'
const CSV = 'text/csv'

function toAppError(error: unknown, { server }: Pick<FastifyRequest, 'server'>): AppError {
  if (error instanceof AppError) return error
  // Anything can be thrown, also null.
  const { code, statusCode } = (error ?? {}) as { code?: string; statusCode?: number }
  if (code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE') {
    const lines = [NDJSON, CSV].filter((type) => server.hasContentTypeParser(type))
    return new AppError('unsupported_media_type', `Send the body as ${lines.length === 0 ? 'application/json' : lines.join(' or ')}.`)
  }
  const known = FASTIFY_CODES[code ?? '']
  if (known !== undefined) return known
  if (isTemporary(error)) return new AppError('unavailable', 'The store cannot answer now. Retry in a moment.')
  // Fastify's other refusals, such as that of a body shorter than its content-length.
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    return new AppError('malformed_request', 'The request could not be read.')
  }
  return new AppError('internal', 'Something went wrong on our side. The request id helps to find it.')
}

/** Iceberg clients read `application/json` only. */
export function isIcebergCall(url: string, basePath: string): boolean {
  return url.startsWith(`${basePath}/iceberg/`)
}

/** The exception names that Iceberg's own servers send. Clients decide by the status. */
const TYPES: Readonly<Record<number, string>> = {
  400: 'BadRequestException',
  401: 'NotAuthorizedException',
  403: 'ForbiddenException',
  404: 'NotFoundException',
  405: 'UnsupportedOperationException',
  503: 'ServiceUnavailableException',
}

/** The `ErrorModel` of https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml */
function icebergErrorOf(status: number, message: string) {
  return { error: { message, type: TYPES[status] ?? 'RESTException', code: status } }
}
