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
import { Problem, sendError } from './problem.ts'
import { RefusalLog } from './refusal-log.ts'
import { refuseConnection } from './refuse-connection.ts'
import { listRoutes } from './route-list.ts'
import { compileValidator, parseJson, parseQuery } from './validation.ts'

export interface HttpServerOptions {
  logger: Logger
  baseUrl: string
  /** The prefix of every route, none unless said otherwise: `baseUrl` is its public address. */
  basePath?: string
  /** Proxies whose X-Forwarded-For counts: addresses and networks, or how many; none unless said otherwise. */
  trustProxy?: readonly string[] | number | false
  /** Null, which it is unless said otherwise: browsers use the API from its own origin only. */
  corsOrigins?: CorsOrigins | null
  /** Tells who calls a route that is not public. */
  authenticate: Authenticate
  onAnswered?: OnAnswered
}

/** Hears of each answer that was sent: the route's pattern, nothing for an address that has none, and how long it took. */
export type OnAnswered = (method: string, route: string | undefined, status: number, ms: number) => void

/** Of a body that a route takes and sets no limit for: twice what an account needs with every character escaped. */
const BODY_LIMIT_BYTES = 16_384
/** Of a route that takes none: some clients send `{}` with every POST. */
const NO_BODY_LIMIT_BYTES = 1_024
const REQUEST_TIMEOUT_MS = 30_000
const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/

/** The HTTP shell, without a route: parsing, validation, problems, request ids, the log line of each request. */
export async function createHttpServer(options: HttpServerOptions): Promise<HttpServer> {
  const cors = createCors(options.corsOrigins ?? null)
  const refusals = new RefusalLog(options.logger as FastifyBaseLogger)
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
    // `findHostFault` refuses a request without one, as a problem.
    http: { requireHostHeader: false },
    rewriteUrl: ({ url = '' }) => toOriginForm(url),
    routerOptions: { querystringParser: parseQuery as never },
    // These come before any hook.
    frameworkErrors: (error, request, reply) => {
      cors.allow(request, identify(request, reply))
      sendError(error, request, reply, refusals)
    },
    clientErrorHandler: refuseConnection,
  }).withTypeProvider<TypeBoxTypeProvider>()
  server.addSchema(Problem)
  server.setValidatorCompiler(compileValidator as never)
  server.removeAllContentTypeParsers()
  server.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) => {
    try {
      // Many clients name a type even where they send no body, such as with a call that takes none.
      done(null, body.length === 0 ? undefined : parseJson(body as Buffer))
    } catch (error) {
      done(error as Error)
    }
  })
  server.setErrorHandler((error, request, reply) => sendError(error, request, reply, refusals))
  server.addHook('onRoute', (route) => {
    route.bodyLimit ??= route.schema?.body === undefined ? NO_BODY_LIMIT_BYTES : BODY_LIMIT_BYTES
  })
  const { allowedMethods } = listRoutes(server)
  server.addHook('onRequest', (request, reply, done) => {
    cors.allow(request, identify(request, reply))
    if (cors.answerPreflight(request, reply)) return
    // Here and not in a handler, which would only be asked after the body was read and found good.
    done(findHostFault(request.raw) ?? (request.is404 ? refuseAddress(allowedMethods(request.url)) : undefined))
  })
  enforceAccess(server, options.authenticate)
  limitChunks(server)
  server.addHook('preValidation', (request, _reply, done) => {
    // Fastify has a body that was not sent checked as null, which would read as one of the wrong type.
    const isMissing = request.body === undefined && request.routeOptions.schema?.body !== undefined
    done(isMissing ? refuseMissingBody(request) : undefined)
  })
  server.addHook('onResponse', (request, reply, done) => {
    options.onAnswered?.(request.method, request.routeOptions.url, reply.statusCode, reply.elapsedTime)
    if (options.logger.isLevelEnabled('info')) {
      // The route's pattern, not the URL: paths and queries can hold personal data.
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
  // Made once: it takes milliseconds, and anybody may ask for it.
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

/** Fastify's setting. By a number alone it trusts nobody, for a client that comes past the proxies could then name any address. */
function trustedProxies(proxies: readonly string[] | number | false) {
  if (typeof proxies === 'number') return (_address: string, hop: number) => hop < proxies
  return proxies === false ? false : [...proxies]
}

/** The id that the client gave the request, if it is a plain one, or a new one. */
export function requestId(request: { headers: Record<string, unknown> }): string {
  const sent = request.headers['x-request-id']
  return typeof sent === 'string' && REQUEST_ID.test(sent) ? sent : randomUUIDv7()
}
