import { Type } from 'typebox'
import { defineRoute } from './define-route.ts'
import type { HttpServer } from './http-server.ts'

/** `process` is the process's number, if one command started several. */
export interface Failing {
  name: string
  reason: string
  process?: number
}

export type ReadinessCheck = () => Promise<Failing[]>

const Health = Type.Object(
  {
    status: Type.Union([Type.Literal('ok'), Type.Literal('unavailable')]),
    failing: Type.Optional(
      Type.Array(Type.Object({ name: Type.String() }), { description: 'What is failing. The operations port shows the reasons.' }),
    ),
  },
  { title: 'Health', examples: [{ status: 'ok' }] },
)

/** `/livez` says that this process answers, and `/readyz` that it may get traffic. */
export function healthRoutes(server: HttpServer, check: ReadinessCheck): void {
  defineRoute(
    server,
    'GET /livez',
    {
      access: 'public',
      cost: 'health',
      operationId: 'getLiveness',
      summary: 'Whether the process is alive',
      description: 'For a supervisor: restart the process when there is no answer.',
      answers: { 200: [Health, 'The process answers.'] },
      refuses: ['malformed_request'],
    },
    async () => ({ status: 'ok' as const }),
  )
  defineRoute(
    server,
    'GET /readyz',
    {
      access: 'public',
      cost: 'health',
      operationId: 'getReadiness',
      summary: 'Whether the process can do its work',
      description: 'For a load balancer: send no traffic while it answers 503.',
      answers: {
        200: [Health, 'The process can do its work.'],
        503: [Health, 'The process cannot do its work. `failing` names the reasons.'],
      },
      refuses: ['malformed_request'],
    },
    async (_request, reply) => {
      const failing = await check()
      if (failing.length === 0) return { status: 'ok' as const }
      reply.header('retry-after', '1')
      // Reasons name slots and databases, which are not public.
      return reply.code(503).send({ status: 'unavailable' as const, failing: failing.map(({ name }) => ({ name })) })
    },
  )
}
