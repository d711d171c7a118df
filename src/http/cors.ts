import type { FastifyReply, FastifyRequest } from 'fastify'

/** Origins whose scripts may use the API, compared byte by byte; `*` allows all. */
export type CorsOrigins = readonly string[] | '*'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The answer is equal for every caller, so any origin may read it, and it needs no `Vary`. */
    isReadableByAnyOrigin?: boolean
  }
}

const METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE'
const REQUEST_HEADERS = 'Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, X-Request-Id, Traceparent'
const EXPOSED = 'ETag, Link, Location, Idempotency-Replayed, Retry-After, RateLimit, RateLimit-Policy, X-Request-Id'
// The maximum of Chromium: two hours.
const MAX_AGE_SECONDS = 7_200

const PUBLIC = { 'access-control-allow-origin': '*', 'access-control-expose-headers': EXPOSED }

/** Headers for answers that every origin may read. Empty if CORS is off. */
export function publicCorsHeaders(origins: CorsOrigins | null): readonly string[] {
  return origins === null ? [] : Object.entries(PUBLIC).flat()
}

/**
 * `answerPreflight` returns whether it answered. Credentials are never allowed, since `Authorization` has the token.
 */
export function createCors(origins: CorsOrigins | null) {
  const mayUse = (origin: string | undefined) => origin !== undefined && (origins === '*' || origins?.includes(origin) === true)

  return {
    allow({ headers: { origin }, routeOptions }: FastifyRequest, reply: FastifyReply): void {
      if (origins === null) return
      if (origins === '*' || routeOptions?.config?.isReadableByAnyOrigin === true) reply.headers(PUBLIC)
      else {
        reply.header('vary', 'Origin')
        if (mayUse(origin)) reply.headers({ ...PUBLIC, 'access-control-allow-origin': origin })
      }
    },

    answerPreflight({ method, headers }: FastifyRequest, reply: FastifyReply): boolean {
      if (method !== 'OPTIONS' || headers['access-control-request-method'] === undefined || !mayUse(headers.origin)) return false
      reply
        .code(204)
        .headers({ 'access-control-allow-methods': METHODS, 'access-control-allow-headers': REQUEST_HEADERS })
        .header('access-control-max-age', String(MAX_AGE_SECONDS))
        .send()
      return true
    },
  }
}
