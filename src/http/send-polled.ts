import type { FastifyReply, FastifyRequest } from 'fastify'
import { entityTag, isKnown } from './cacheable.ts'

/** Sends an answer that pages poll, or 304 when the caller has it (RFC 9110 §13.1.2). No cache may keep it. */
export function sendPolled<T>(request: FastifyRequest, reply: FastifyReply, answer: T): T {
  return isPolledAgain(request, reply, JSON.stringify(answer)) ? (reply.code(304).send() as T) : answer
}

/** Like `sendPolled`, for an answer that is JSON already. */
export function sendPolledText(request: FastifyRequest, reply: FastifyReply, json: string): never {
  if (isPolledAgain(request, reply, json)) return reply.code(304).send() as never
  return reply.type('application/json; charset=utf-8').send(json as never) as never
}

function isPolledAgain({ headers }: FastifyRequest, reply: FastifyReply, json: string): boolean {
  const etag = entityTag(json)
  reply.headers({ etag: `"${etag}"` })
  return isKnown(headers['if-none-match'], etag)
}
