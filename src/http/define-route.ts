import type { FastifyContextConfig, FastifyReply, FastifyRequest } from 'fastify'
import { type Static, type TInteger, type TObject, type TOptional, type TProperties, type TSchema, type TString, Type } from 'typebox'
import type { ErrorCode } from '../errors.ts'
import { entityTag, isKnown } from './cacheable.ts'
import { callerOf } from './caller.ts'
import type { HttpServer } from './http-server.ts'
import { Cursor, Limit, nextLink, type Page, type PageText, type Paging, pagingOf } from './pagination.ts'
import { isIcebergCall, problemResponses } from './problem.ts'
import { isScope } from './scopes.ts'

export interface Route<P = unknown, Q = unknown, H = unknown, B = unknown, A = Answers> extends FastifyContextConfig {
  /** A route without one is not in the document. Activities contain it. */
  operationId?: string
  summary?: string
  description?: string
  params?: P
  query?: Q
  headers?: H
  body?: B
  bodyLimit?: number
  consumes?: string[]
  produces?: string[]
  /** Schema and description by status, or the description alone without a body. The first is the default. */
  answers?: A
  refuses?: readonly ErrorCode[]
  /** Answers browsers with a page instead of a problem. */
  refusalPages?: (error: unknown, request: FastifyRequest, reply: FastifyReply) => void
}

export interface Answers {
  readonly [status: number]: string | readonly [schema: unknown, description: string]
}

export type RequestOf<P, Q, H, B> = FastifyRequest<{
  Params: ValueOf<P>
  Querystring: ValueOf<Q>
  Headers: ValueOf<H>
  Body: ValueOf<B>
}>
type ValueOf<S> = S extends TSchema ? Static<S> : unknown
type AnswerOf<A> = { [Status in keyof A]: A[Status] extends readonly [infer S, string] ? ValueOf<S> : unknown }[keyof A]

/**
 * Adds a route. The handler returns the body, or the reply that it has sent.
 *
 * @example
 * defineRoute(server, 'POST /admin/customers/:id/unblock', {
 *   access: 'customers:write',
 *   operationId: 'unblockCustomer',
 *   summary: 'Unblocks a customer or guest',
 *   params: Params,
 *   answers: { 204: 'The customer is not blocked.' },
 * }, (request) => unblockCustomer(auth, request.params.id, auditContextOf(request)))
 */
export function defineRoute<P = unknown, Q = unknown, H = unknown, B = unknown, A extends Answers = Answers>(
  server: HttpServer,
  path: `${'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'} /${string}`,
  route: Route<P, Q, H, B, A>,
  handler: (request: RequestOf<P, Q, H, B>, reply: FastifyReply) => Promise<AnswerOf<A> | FastifyReply>,
): void {
  const { operationId, summary, description, params, query, headers, body, consumes, produces, answers, ...rest } = route
  const { refuses: _, refusalPages: errorHandler, bodyLimit, ...config } = rest
  const [method, url] = path.split(' ') as [string, string]
  const status = Number(Object.keys(answers ?? { 200: '' })[0])
  const documented =
    operationId === undefined
      ? { hide: true }
      : { operationId, summary, description, response: { ...refusalsOf(method, url, route), ...responsesOf(answers) } }
  server.route({
    method,
    url,
    config,
    ...present({ bodyLimit, errorHandler }),
    schema: { ...documented, ...present({ params, querystring: query, headers, body, consumes, produces }) },
    handler: async (request, reply) => {
      if (status !== 200) reply.code(status)
      const answer = await handler(request as never, reply)
      return status === 204 && answer !== reply ? reply.send(null as never) : (answer as never)
    },
  })
}

export interface List<P, F extends TProperties, S extends TSchema, Position extends TSchema> extends Omit<Route<P>, 'query' | 'answers'> {
  filters?: TObject<F>
  limit?: TInteger
  page: S
  answer: string
  /** The handler reads the cursor itself when this is absent. */
  position?: Position
}

type Paged<F extends TProperties> = TObject<F & { limit: TOptional<TInteger>; cursor: TOptional<TString> }>

/** A cursor is valid for this list and its filters, and with the access `caller` for the account. */
export function defineList<
  S extends TSchema,
  P = unknown,
  F extends TProperties = Record<never, never>,
  Position extends TSchema = TSchema,
>(
  server: HttpServer,
  path: `GET /${string}`,
  list: List<P, F, S, Position>,
  handler: (request: RequestOf<P, Paged<F>, unknown, unknown>, paging: Paging<Static<Position>>) => Promise<Static<S> | PageText>,
): void {
  const { filters, limit: Limited = Limit, page, answer, position, ...route } = list
  const paged = { limit: Type.Optional(Limited), cursor: Type.Optional(Cursor) }
  const query = Type.Object({ ...paged, ...filters?.properties }, { additionalProperties: false })
  defineRoute<P, TSchema>(server, path, { ...route, query, answers: { 200: [page, answer] } }, async (request, reply) => {
    const { limit, cursor, ...filtered } = request.query as { limit?: number; cursor?: string }
    const params = Object.entries((request.params ?? {}) as Record<string, string>)
    const owner = route.access === 'caller' ? [callerOf(request).userId] : []
    const sorted = Object.entries(filtered).sort(([a], [b]) => (a < b ? -1 : 1))
    const scope = [route.operationId, ...owner, ...params.map(([, value]) => value.toLowerCase()), ...sorted]
    const paging = pagingOf(scope, position === undefined ? { limit } : { limit, cursor }, position ?? Type.Unknown())
    const found = await handler(request as never, paging as never)
    const address = params.reduce((url, [name, value]) => url.replace(`:${name}`, encodeURIComponent(value)), path.slice('GET '.length))
    const { next_cursor: next, ...rest } = found as Page<unknown> | PageText
    const link = nextLink(server.baseUrl, address, request.query as Record<string, unknown>, next)
    if (link !== undefined) reply.header('link', link)
    return 'text' in rest ? sendPolledText(request, reply, rest.text) : sendPolled(request, reply, found)
  })
}

function responsesOf(answers: Answers = {}) {
  return Object.fromEntries(
    Object.entries(answers).map(([status, answer]) => {
      if (typeof answer === 'string') return [status, Type.Null({ description: answer })]
      const [schema, description] = answer
      return [status, { ...(schema as object), description }]
    }),
  )
}

const JSON_BODY = ['malformed_json', 'payload_too_large', 'unsupported_media_type', 'invalid_body'] as const
/** `rate_limited` is for too many requests with wrong API keys. */
const CALLER = ['unauthenticated', 'invalid_token', 'forbidden', 'rate_limited'] as const
const ANY_ROUTE = ['unavailable', 'overloaded', 'internal'] as const

function refusalsOf(method: string, url: string, route: Route) {
  const { access = '', stepUp, params, query, headers, consumes, cost, refuses = [] } = route
  const codes: ErrorCode[] = [...refuses]
  if (access !== 'public') codes.push(...CALLER)
  if (isScope(access)) codes.push('second_factor_setup_required')
  if (stepUp !== undefined) codes.push('step_up_required')
  if (consumes !== undefined) codes.push('unsupported_media_type')
  else if (method !== 'GET') codes.push(...JSON_BODY)
  if (params !== undefined) codes.push('not_found')
  if (query !== undefined) codes.push('invalid_query')
  if (has(query, 'cursor')) codes.push('invalid_cursor')
  if (headers !== undefined) codes.push('invalid_header')
  if (has(headers, 'if-match')) codes.push('precondition_failed')
  if (cost !== 'health') codes.push(...ANY_ROUTE)
  const responses = problemResponses(isIcebergCall(url, '') ? 'application/json' : 'application/problem+json', codes)
  for (const { content } of Object.values(route.refusalPages === undefined ? {} : responses))
    content['text/html'] = { schema: Type.String() }
  return responses
}

function has(schema: unknown, name: string): boolean {
  return Object.hasOwn((schema as { properties?: object } | undefined)?.properties ?? {}, name)
}

/** Fastify treats a member that is undefined as a schema. */
function present<T extends object>(members: T): Partial<T> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as Partial<T>
}

/** Sends 304 if the caller has the answer (RFC 9110 §13.1.2). No cache may keep the answer. */
export function sendPolled<T>(request: FastifyRequest, reply: FastifyReply, answer: T): T {
  return isPolledAgain(request, reply, JSON.stringify(answer)) ? (reply.code(304).send() as T) : answer
}

/** The same for a text that is JSON already. */
export function sendPolledText(request: FastifyRequest, reply: FastifyReply, json: string): never {
  if (isPolledAgain(request, reply, json)) return reply.code(304).send() as never
  return reply.type('application/json; charset=utf-8').send(json as never) as never
}

function isPolledAgain({ headers }: FastifyRequest, reply: FastifyReply, json: string): boolean {
  const etag = entityTag(json)
  reply.headers({ etag: `"${etag}"` })
  return isKnown(headers['if-none-match'], etag)
}
