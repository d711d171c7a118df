import { randomUUIDv7 } from 'node:crypto'
import swagger from '@fastify/swagger'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import Fastify, { type FastifyBaseLogger, type FastifyReply, type FastifyRequest, LogController } from 'fastify'
import type { Logger } from 'pino'
import { AppError } from '../errors.ts'
import { enforceAccess } from './access.ts'
import type { Authenticate } from './caller.ts'
import { type CorsOrigins, createCors } from './cors.ts'
import { findHostFault, toOriginForm } from './host.ts'
import type { HttpServer } from './http-server.ts'
import { limitChunks } from './limit-chunks.ts'
import { openApiOptions } from './openapi.ts'
import { isBodyOptional } from './optional-body.ts'
import { Problem, sendError } from './problem.ts'
import { RefusalLog } from './refusal-log.ts'
import { refuseConnection } from './refuse-connection.ts'
import { listRoutes } from './route-list.ts'
import type { SessionGuard } from './session-guard.ts'
import { compileValidator, parseJson, parseQuery } from './validation.ts'

export interface HttpServerOptions {
  logger: Logger
  baseUrl: string
  /** The prefix of every route, none by default: `baseUrl` is its public address. */
  basePath?: string
  /** Proxies whose X-Forwarded-For is trusted: addresses and networks, or their number; none by default. */
  trustProxy?: readonly string[] | number | false
  /** Null, the default: browsers use the API from its own origin only. */
  corsOrigins?: CorsOrigins | null
  /** Authenticates the caller of a route that is not public. */
  authenticate: Authenticate
  /** What sessions must have proven besides; none by default. */
  sessionGuard?: SessionGuard
  onAnswered?: OnAnswered
}

/** Called after each answer with the route's pattern, undefined for an unknown address, and the time it took. */
export type OnAnswered = (method: string, route: string | undefined, status: number, ms: number) => void

/** Default of a route with a body: twice the size of a registration with every character escaped. */
const BODY_LIMIT_BYTES = 16_384
/** Of a route without a body: some clients send `{}` with every POST. */
const NO_BODY_LIMIT_BYTES = 1_024
const REQUEST_TIMEOUT_MS = 30_000
const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/

/** The HTTP shell, without a route: parsing, validation, problems, request ids, the log line of each request. */
export async function createHttpServer(options: HttpServerOptions): Promise<HttpServer> {
  const cors = createCors(options.corsOrigins ?? null)
  const problems = { baseUrl: options.baseUrl, refusals: new RefusalLog(options.logger as FastifyBaseLogger) }
  const server: HttpServer = Fastify({
    loggerInstance: options.logger as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'request_id' }),
    bodyLimit: BODY_LIMIT_BYTES,
    trustProxy: trustedProxies(options.trustProxy ?? false),
    requestTimeout: REQUEST_TIMEOUT_MS,
    // Requests on open connections are still answered while the server drains; idle connections are closed.
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    genReqId: requestId,
    // `findHostFault` refuses a request without a host, as a problem.
    http: { requireHostHeader: false },
    rewriteUrl: ({ url = '' }) => toOriginForm(url),
    routerOptions: { querystringParser: parseQuery as never },
    // They occur before any hook.
    frameworkErrors: (error, request, reply) => {
      cors.allow(request, identify(request, reply))
      sendError(error, request, reply, problems)
    },
    clientErrorHandler: (error, socket) => refuseConnection(error, socket, options.baseUrl),
  }).withTypeProvider<TypeBoxTypeProvider>()
  server.addSchema(Problem)
  server.setValidatorCompiler(compileValidator as never)
  server.removeAllContentTypeParsers()
  server.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) => {
    try {
      // Many clients send a content type without a body.
      done(null, body.length === 0 ? undefined : parseJson(body as Buffer))
    } catch (error) {
      done(error as Error)
    }
  })
  server.setErrorHandler((error, request, reply) => sendError(error, request, reply, problems))
  server.addHook('onRoute', (route) => {
    route.bodyLimit ??= route.schema?.body === undefined ? NO_BODY_LIMIT_BYTES : BODY_LIMIT_BYTES
  })
  const { allowedMethods } = listRoutes(server)
  server.addHook('onRequest', (request, reply, done) => {
    cors.allow(request, identify(request, reply))
    if (cors.answerPreflight(request, reply)) return
    // In this hook: a handler runs only after the body was read and validated.
    done(findHostFault(request.raw) ?? (request.is404 ? refuseAddress(allowedMethods(request.url)) : undefined))
  })
  enforceAccess(server, options.authenticate, options.sessionGuard ?? null)
  limitChunks(server)
  server.addHook('preValidation', (request, _reply, done) => {
    const { body: schema } = request.routeOptions.schema ?? {}
    if (request.body !== undefined || schema === undefined) return done()
    // Fastify validates a missing body as null, which would be reported as a wrong type.
    if (!isBodyOptional(schema)) return done(refuseMissingBody(request))
    request.body = {}
    done()
  })
  server.addHook('onResponse', (request, reply, done) => {
    options.onAnswered?.(request.method, request.routeOptions.url, reply.statusCode, reply.elapsedTime)
    if (options.logger.isLevelEnabled('info')) {
      // The route's pattern, not the URL: paths and queries can contain personal data.
      const entry = { method: request.method, route: request.routeOptions.url, status: reply.statusCode, ms: Math.round(reply.elapsedTime) }
      request.log.info(entry, 'request')
    }
    done()
  })
  await server.register(swagger, openApiOptions(options.baseUrl, options.basePath ?? ''))
  return server
}

/** The OpenAPI 3.1 document of every route. */
export function openApiRoute(server: HttpServer): void {
  // Rendered once: it takes milliseconds, and the route is public.
  let document: Buffer | undefined
  server.get(
    '/openapi.json',
    { schema: { hide: true }, config: { access: 'public', isReadableByAnyOrigin: true } },
    async (_request, reply) => {
      document ??= Buffer.from(JSON.stringify(server.swagger()))
      return reply.header('cache-control', 'public, max-age=300').type('application/json; charset=utf-8').send(document)
    },
  )
}

function identify(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  return reply.header('x-request-id', request.id).header('x-content-type-options', 'nosniff')
}

function refuseMissingBody({ headers }: FastifyRequest): AppError {
  if (headers['content-type'] !== undefined) return new AppError('malformed_json', 'The body is empty.')
  return new AppError('unsupported_media_type', 'Send a body as application/json.')
}

function refuseAddress(allowed: readonly string[]): AppError {
  if (allowed.length === 0) return new AppError('not_found', 'There is nothing at this address.')
  const allow = allowed.join(', ')
  return new AppError('method_not_allowed', `Allowed here: ${allow}.`, { headers: { allow } })
}

/** Fastify's setting. Fastify ignores a bare number, because a client that bypasses the proxies could then name any address. */
function trustedProxies(proxies: readonly string[] | number | false) {
  if (typeof proxies === 'number') return (_address: string, hop: number) => hop < proxies
  return proxies === false ? false : [...proxies]
}

/** The client's request id if it has a plain form, else a new one. */
export function requestId(request: { headers: Record<string, unknown> }): string {
  const sent = request.headers['x-request-id']
  return typeof sent === 'string' && REQUEST_ID.test(sent) ? sent : randomUUIDv7()
}
