import { randomUUIDv7 } from 'node:crypto'
import swagger from '@fastify/swagger'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import Fastify, { type FastifyBaseLogger, type FastifyReply, type FastifyRequest, LogController } from 'fastify'
import type { Logger } from 'pino'
import { Type } from 'typebox'
import { AppError } from '../errors.ts'
import { enforceAccess, type SessionGuard } from './access.ts'
import type { Admission } from './admission.ts'
import { dropAdvertisingParameters } from './advertising-parameters.ts'
import type { Authenticate } from './caller.ts'
import { ClientAddresses, type ProxyReports, type TrustedProxies } from './client-address.ts'
import { type CorsOrigins, createCors } from './cors.ts'
import { defineRoute } from './define-route.ts'
import { findHostFault, toOriginForm } from './host.ts'
import type { HttpServer } from './http-server.ts'
import { limitChunks } from './limit-chunks.ts'
import type { LoadShedder } from './load-shedder.ts'
import { isBodyOptional, openApiOptions } from './openapi.ts'
import { PROBLEM_SCHEMAS, Problem, sendError } from './problem.ts'
import { RefusalLog } from './refusal-log.ts'
import { refuseConnection } from './refuse-connection.ts'
import { enforceCosts, type LoadClass } from './request-cost.ts'
import type { RequestLog } from './request-log.ts'
import { listRoutes } from './route-list.ts'
import { addTracing, type RequestTracing, traceIdOfRequest } from './trace-context.ts'
import { compilersWhenUsed, compileValidator, parseJson, parseQuery } from './validation.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Signed calls keep the body as it was sent. */
    isSigned?: boolean
  }
  interface FastifyRequest {
    signedBody: string | null
  }
}

export interface HttpServerOptions {
  logger: Logger
  baseUrl: string
  basePath?: string
  trustProxy?: TrustedProxies
  onUntrustedProxy?: (() => void) | undefined
  /** The default null lets browsers use the API from its own origin only. */
  corsOrigins?: CorsOrigins | null
  authenticate: Authenticate
  sessionGuard?: SessionGuard
  requestLog?: RequestLog
  onAnswered?: OnAnswered
  tracing?: RequestTracing
  admission?: Admission
  shedder?: LoadShedder
  onOverloaded?: ((loadClass: LoadClass) => void) | undefined
}

export type OnAnswered = (method: string, route: string | undefined, status: number, ms: number) => void

/** Twice the size of a registration in which every character is escaped. */
const BODY_LIMIT_BYTES = 16_384
/** The limit for a route without a body, because some clients send `{}` with every POST. */
const NO_BODY_LIMIT_BYTES = 1_024
/** A request that takes longer to arrive ends its connection, at most one check interval later. */
const REQUEST_TIMEOUT_MS = 30_000
const HEADERS_TIMEOUT_MS = 20_000
const TIMEOUT_CHECKS_MS = 2_000
/**
 * Longer than the usual 60 s of proxies, so a proxy never sends a request on a connection that the store has closed.
 */
const KEEP_ALIVE_TIMEOUT_MS = 75_000
/** The longest time without traffic on a connection, such as with a client that reads nothing. */
const IDLE_TIMEOUT_MS = 120_000
const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/

export async function createHttpServer(options: HttpServerOptions): Promise<HttpServer> {
  const cors = createCors(options.corsOrigins ?? null)
  const problems = {
    baseUrl: options.baseUrl,
    basePath: options.basePath ?? '',
    refusals: new RefusalLog(options.logger as FastifyBaseLogger),
    onOverloaded: options.onOverloaded,
  }
  const clientAddresses = new ClientAddresses(options.trustProxy ?? false, reportProxies(options))
  const server: HttpServer = Fastify({
    loggerInstance: options.logger as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'request_id' }),
    bodyLimit: BODY_LIMIT_BYTES,
    trustProxy: (address, hop) => clientAddresses.isTrusted(address, hop),
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    connectionTimeout: IDLE_TIMEOUT_MS,
    // The server still answers requests on open connections while it drains.
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    genReqId: requestId,
    // `findHostFault` refuses a request without a host, as a problem.
    http: { requireHostHeader: false, headersTimeout: HEADERS_TIMEOUT_MS, connectionsCheckingInterval: TIMEOUT_CHECKS_MS },
    rewriteUrl: ({ url = '' }) => toOriginForm(url),
    schemaController: { compilersFactory: compilersWhenUsed },
    // A slug of 100 characters, percent-encoded.
    routerOptions: { querystringParser: parseQuery as never, maxParamLength: 1_200 },
    // These errors occur before any hook.
    frameworkErrors: (error, request, reply) => {
      cors.allow(request, identify(request, reply))
      sendError(error, request, reply, problems)
    },
    clientErrorHandler: (error, socket) => refuseConnection(error, socket, options),
  }).withTypeProvider<TypeBoxTypeProvider>()
  server.decorate('clientAddresses', clientAddresses)
  server.decorateRequest('signedBody', null)
  server.decorate('baseUrl', options.baseUrl)
  for (const schema of [...PROBLEM_SCHEMAS, Problem]) server.addSchema(schema)
  server.removeAllContentTypeParsers()
  // This runs once the whole body has arrived, so a slow body takes no turn.
  server.addContentTypeParser('application/json', { parseAs: 'buffer' }, async (request: FastifyRequest, body: Buffer) => {
    await options.admission?.takeBodyTurn(request, body.length)
    if (request.routeOptions.config.isSigned) request.signedBody = body.toString()
    // Many clients send a content type without a body.
    return body.length === 0 ? undefined : parseJson(body)
  })
  server.setErrorHandler((error, request, reply) => sendError(error, request, reply, problems))
  server.addHook('onRoute', (route) => {
    route.bodyLimit ??= route.schema?.body === undefined ? NO_BODY_LIMIT_BYTES : BODY_LIMIT_BYTES
  })
  const { allowedMethods } = listRoutes(server)
  // First, because the other hooks may refuse the request.
  if (options.tracing !== undefined) addTracing(server, options.tracing)
  server.addHook('onRequest', (request, reply, done) => {
    cors.allow(request, identify(request, reply))
    clientAddresses.watch(request.raw)
    if (cors.answerPreflight(request, reply)) return
    // This hook decides, because a handler runs only after the body was read and validated.
    if (request.is404) done(findHostFault(request.raw) ?? refuseAddress(allowedMethods(request.url)))
    else done(findHostFault(request.raw) ?? refuseEncodedBody(request) ?? options.shedder?.refusalOf(request))
  })
  options.shedder?.watch(server)
  enforceAccess(server, options.authenticate, options.sessionGuard ?? null, options.admission)
  enforceCosts(server)
  options.admission?.guard(server)
  limitChunks(server)
  let checkNoMembers: ReturnType<typeof compileValidator> | undefined
  server.addHook('preValidation', (request, _reply, done) => {
    const { body: schema, consumes } = request.routeOptions.schema ?? {}
    // Links to public pages are advertised and mailed. Elsewhere an unknown parameter is a mistake.
    if ((request.method === 'GET' || request.method === 'HEAD') && request.routeOptions.config.access === 'public')
      dropAdvertisingParameters(request.query as never)
    // A call without a body refuses members, which it would drop silently. Some clients send `{}` with every POST.
    if (schema === undefined && consumes === undefined && request.body !== undefined) {
      checkNoMembers ??= compileValidator({ schema: Type.Object({}, { additionalProperties: false }), method: '', url: '' })
      return done((checkNoMembers(request.body) as { error?: AppError }).error)
    }
    if (request.body !== undefined || schema === undefined) return done()
    // Fastify validates a missing body as null, which would be reported as a wrong type.
    if (!isBodyOptional(schema)) return done(refuseMissingBody(request))
    request.body = {}
    done()
  })
  server.addHook('onResponse', (request, reply, done) => {
    const { id, method, routeOptions, raw } = request
    const [route, status, ms] = [routeOptions.url, reply.statusCode, reply.elapsedTime]
    options.onAnswered?.(method, route, status, ms)
    options.requestLog?.add({ method, route, status, ms }, () => ({ request_id: id, trace_id: traceIdOfRequest(raw) }))
    done()
  })
  await server.register(swagger, openApiOptions(options.baseUrl, options.basePath ?? ''))
  return server
}

export function openApiRoute(server: HttpServer): void {
  // Rendered once, because that takes milliseconds, and the route is public.
  let document: Buffer | undefined
  defineRoute(server, 'GET /openapi.json', { access: 'public', cost: 'memory', isReadableByAnyOrigin: true }, async (_request, reply) => {
    document ??= Buffer.from(JSON.stringify(server.swagger()))
    return reply.header('cache-control', 'public, max-age=300').type('application/json; charset=utf-8').send(document)
  })
}

function identify(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  return reply.header('x-request-id', request.id).header('x-content-type-options', 'nosniff').header('cache-control', 'no-store')
}

/** A compressed body would be read as broken JSON, or as damaged import lines. */
function refuseEncodedBody({ headers, method }: FastifyRequest): AppError | undefined {
  const encoding = headers['content-encoding']?.trim().toLowerCase() ?? ''
  if (encoding === '' || encoding === 'identity' || method === 'GET' || method === 'HEAD') return undefined
  return new AppError('unsupported_media_type', 'Send the body without Content-Encoding.', { headers: { 'accept-encoding': 'identity' } })
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

/** Warns once of each such proxy, whose clients share one rate limit, or are refused. */
function reportProxies({ logger, onUntrustedProxy }: HttpServerOptions): ProxyReports {
  const warned = new Set<string>()
  const warnOnce = (fields: object, message: string) => {
    if (!warned.has(message)) logger.warn(fields, message)
    warned.add(message)
  }
  return {
    onUntrusted(peer) {
      onUntrustedProxy?.()
      warnOnce(
        { peer },
        'a proxy forwards the requests of clients, and TRUST_PROXY does not name it: all clients behind it share one rate limit; set TRUST_PROXY to the addresses of the proxies, or to their number',
      )
    },
    onUnreadable(header, address) {
      warnOnce(
        { header, address: address.slice(0, MAX_LOGGED_ADDRESS) },
        'a trusted proxy names no client address that can be read: requests that need one are refused; make it send X-Forwarded-For or Forwarded with the address of the client',
      )
    },
    onUnread(header) {
      warnOnce(
        { header },
        'a trusted proxy names the client in a header that is not read: all clients behind it share one rate limit; make it send X-Forwarded-For or Forwarded with the address of the client',
      )
    },
  }
}

const MAX_LOGGED_ADDRESS = 60

/** The client's request id if it has a plain form, otherwise a new one. */
export function requestId(request: { headers: Record<string, unknown> }): string {
  const sent = request.headers['x-request-id']
  return typeof sent === 'string' && REQUEST_ID.test(sent) ? sent : randomUUIDv7()
}
