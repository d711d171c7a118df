import type { FastifyReply, FastifyRequest } from 'fastify'
import { entityTag, isKnown } from './cacheable.ts'

/** Sends an answer that pages poll, or 304 when the caller has it (RFC 9110 §13.1.2). No cache may keep it. */
export function sendPolled<T>({ headers }: FastifyRequest, reply: FastifyReply, answer: T): T {
  const etag = entityTag(JSON.stringify(answer))
  reply.headers({ 'cache-control': 'no-store', etag: `"${etag}"` })
  return isKnown(headers['if-none-match'], etag) ? (reply.code(304).send() as T) : answer
}
