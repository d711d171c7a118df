import type { FastifyReply, FastifyRequest } from 'fastify'
import { auditContextOf } from '../activity/record-activity.ts'
import { assertMayUse } from '../http/access.ts'
import { actorOf } from '../http/caller.ts'
import { readIfMatch } from '../http/if-match.ts'
import { traceparentOf } from '../http/trace-context.ts'
import { type Move, moveOrder, type TransitionContext } from './move-orders.ts'
import type { Order } from './order.ts'
import { type AdminOrder, presentForAdmin } from './search-orders.ts'

export interface AdminTransitionContext extends TransitionContext {
  now: () => Date
}

type MoveRequest = FastifyRequest<{ Params: { id: string }; Querystring: { preview?: boolean }; Headers: { 'if-match'?: string } }>

type Asked<M = Move> = M extends Move ? Pick<M, 'to' | 'change'> & Partial<M> : never

/**
 * Makes the requested change at the version of `If-Match` and returns the order. A repeat gets `Idempotency-Replayed`.
 */
export async function answerMove(
  context: AdminTransitionContext,
  request: MoveRequest,
  reply: FastifyReply,
  asked: Asked,
): Promise<AdminOrder> {
  const { order } = await makeMove(context, request, reply, asked)
  return presentForAdmin(order)
}

export async function makeMove(
  { now, ...context }: AdminTransitionContext,
  request: MoveRequest,
  reply: FastifyReply,
  asked: Asked,
): Promise<{ order: Order; isRepeat: boolean }> {
  const { preview: isPreview = false } = request.query
  // A preview shows the order, and the audit log does not record it.
  if (isPreview) assertMayUse(request, 'orders:read')
  const move = {
    orderId: request.params.id,
    actor: actorOf(request),
    reason: null,
    traceparent: traceparentOf(request),
    isPreview,
    ...(request.routeOptions.schema?.headers === undefined ? {} : { versions: readIfMatch(request.headers['if-match']) }),
    ...asked,
  } as Move
  const made = await moveOrder({ ...context, auditContext: auditContextOf(request) }, move, now())
  if (made.isRepeat) reply.header('idempotency-replayed', 'true')
  return made
}
