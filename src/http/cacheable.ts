import { createHash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'

/** How long browsers and shared caches may keep an answer. RFC 9111, RFC 5861, RFC 9213. */
const BROWSER = 'public, max-age=15, stale-while-revalidate=60'
const SHARED = 'max-age=60, stale-while-revalidate=300, stale-if-error=86400'

/**
 * Sends an answer that any cache may keep, under `tags` it can be purged by, or 304 when the client has it already.
 * Only for answers that do not depend on who asks.
 */
export function sendCacheable(request: FastifyRequest, reply: FastifyReply, body: unknown, tags: readonly string[]): FastifyReply {
  const bytes = reply.serialize(body) as string
  const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 27)}"`
  reply.headers({
    etag,
    'cache-control': BROWSER,
    'cdn-cache-control': SHARED,
    'surrogate-key': tags.join(' '),
    'cache-tag': tags.join(','),
  })
  if (matches(request.headers['if-none-match'], etag)) return reply.code(304).send()
  return reply.type('application/json; charset=utf-8').send(bytes)
}

/** RFC 9110 §13.1.2: a list of entity tags, compared weakly, or `*`. */
function matches(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false
  return ifNoneMatch.split(',').some((candidate) => ['*', etag, `W/${etag}`].includes(candidate.trim()))
}
