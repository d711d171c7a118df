import { randomUUIDv7 } from 'node:crypto'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import swagger from '@fastify/swagger'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import Fastify, { type FastifyBaseLogger, type FastifyInstance, type FastifyReply, type FastifyRequest, LogController } from 'fastify'
import type { Logger } from 'pino'
import { AppError } from '../errors.ts'
import { type CorsOrigins, createCors } from './cors.ts'
import { openApiOptions } from './openapi.ts'
import { Problem, sendError } from './problem.ts'
import { refuseConnection } from './refuse-connection.ts'
import { compileValidator, parseJson, parseQuery } from './validation.ts'

export type HttpServer = FastifyInstance<Server, IncomingMessage, ServerResponse, FastifyBaseLogger, TypeBoxTypeProvider>

export interface HttpServerOptions {
  logger: Logger
  baseUrl: string
  /** Proxies whose X-Forwarded-For counts: addresses and networks, or how many; none unless said otherwise. */
  trustProxy?: readonly string[] | number | false
  /** Null, which it is unless said otherwise: browsers use the API from its own origin only. */
  corsOrigins?: CorsOrigins | null
  onAnswered?: OnAnswered
}

/** Hears of each answer that was sent: the route's pattern, nothing for an address that has none, and how long it took. */
export type OnAnswered = (method: string, route: string | undefined, status: number, ms: number) => void

const BODY_LIMIT_BYTES = 1_048_576
const REQUEST_TIMEOUT_MS = 30_000
const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/

/** The HTTP shell, without a route: parsing, validation, problems, request ids, the log line of each request. */
export async function createHttpServer(options: HttpServerOptions): Promise<HttpServer> {
  const cors = createCors(options.corsOrigins ?? null)
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
    routerOptions: { querystringParser: parseQuery as never },
    // These come before any hook.
    frameworkErrors: (error, request, reply) => {
      cors.allow(request, identify(request, reply))
      sendError(error, request, reply)
    },
    clientErrorHandler: refuseConnection,
  }).withTypeProvider<TypeBoxTypeProvider>()
  server.addSchema(Problem)
  server.decorateRequest('caller')
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
  server.setErrorHandler((error, request, reply) => sendError(error, request, reply))
  const allowedMethods = collectRoutes(server)
  server.addHook('onRequest', (request, reply, done) => {
    cors.allow(request, identify(request, reply))
    if (cors.answerPreflight(request, reply)) return
    // Here and not in a handler, which would only be asked after the body was read and found good.
    done(request.is404 ? refuseAddress(allowedMethods(request.url)) : undefined)
  })
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
  await server.register(swagger, openApiOptions(options.baseUrl))
  return server
}

/** The OpenAPI 3.1 document of every route. */
export function openApiRoute(server: HttpServer): void {
  server.get('/openapi.json', { schema: { hide: true }, config: { isPublic: true } }, async (_request, reply) =>
    reply.header('cache-control', 'public, max-age=300').send(server.swagger()),
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

/** Watches routes being added; the function it returns tells which methods a path has, to answer 405 with `Allow`. */
function collectRoutes(server: HttpServer): (url: string) => string[] {
  const routes: { pattern: RegExp; isFixed: boolean; methods: string[] }[] = []
  server.addHook('onRoute', ({ url, method }) => {
    const pattern = new RegExp(`^${url.replaceAll('.', '\\.').replace(/:[A-Za-z_]+/g, '[^/]+')}$`)
    routes.push({ pattern, isFixed: !url.includes(':'), methods: [method].flat() })
  })
  return (url) => {
    const path = url.split('?', 1)[0] ?? ''
    const matching = routes.filter(({ pattern }) => pattern.test(path))
    const fixed = matching.filter((route) => route.isFixed)
    // `/orders/quote` is not an order: where a path stands as such, what it would be as a parameter does not count.
    const methods = (fixed.length > 0 ? fixed : matching).flatMap((route) => route.methods)
    return [...new Set(methods)].sort()
  }
}
