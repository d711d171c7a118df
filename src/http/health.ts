import { Type } from 'typebox'
import type { HttpServer } from './http-server.ts'
import { problemResponses } from './problem.ts'

/** What is not ready, with a reason for operators; empty when everything is healthy. */
export type ReadinessCheck = () => Promise<{ name: string; reason: string }[]>

const Health = Type.Object(
  {
    status: Type.Union([Type.Literal('ok'), Type.Literal('unavailable')]),
    failing: Type.Optional(Type.Array(Type.Object({ name: Type.String() }), { description: 'The reasons are at the operations port.' })),
  },
  { title: 'Health', examples: [{ status: 'ok' }] },
)

const { 400: malformed } = problemResponses('malformed_request') as Record<number, object>
const BAD_REQUEST = { 400: malformed as never }

/** `/livez`: this process answers. `/readyz`: it can do its work and may get traffic. */
export function healthRoutes(server: HttpServer, check: ReadinessCheck): void {
  server.get(
    '/livez',
    {
      config: { access: 'public', cost: 'health' },
      schema: {
        operationId: 'getLiveness',
        description: 'For a supervisor: restart the process when there is no answer.',
        tags: ['operations'],
        summary: 'Whether the process is alive',
        response: { 200: { ...Health, description: 'The process answers.' }, ...BAD_REQUEST },
      },
    },
    async (_request, reply) => reply.send({ status: 'ok' as const }),
  )
  server.get(
    '/readyz',
    {
      config: { access: 'public', cost: 'health' },
      schema: {
        operationId: 'getReadiness',
        description: 'For a load balancer: send no traffic while it answers 503.',
        tags: ['operations'],
        summary: 'Whether the process can do its work',
        response: {
          200: { ...Health, description: 'The process can do its work.' },
          503: { ...Health, description: 'The process cannot do its work; `failing` names why.' },
          ...BAD_REQUEST,
        },
      },
    },
    async (_request, reply) => {
      const failing = await check()
      if (failing.length === 0) return reply.send({ status: 'ok' as const })
      reply.header('retry-after', '1')
      // Reasons name slots and databases, which are not public.
      return reply.code(503).send({ status: 'unavailable' as const, failing: failing.map(({ name }) => ({ name })) })
    },
  )
}
