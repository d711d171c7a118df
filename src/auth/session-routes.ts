import { Type } from 'typebox'
import { callerOf } from '../http/caller.ts'
import type { HttpServer } from '../http/http-server.ts'
import { Cursor, Limit, PageOf } from '../http/pagination.ts'
import { NEEDLESS_BODY, problemResponses } from '../http/problem.ts'
import { clientOf } from './client.ts'
import type { AuthContext } from './context.ts'
import { EXAMPLE_SESSION } from './examples.ts'
import { badToken, strict, tags } from './schemas.ts'
import { endSession, listSessions } from './sessions.ts'

const SessionSchema = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    created_at: Type.String({ format: 'date-time' }),
    last_used_at: Type.String({ format: 'date-time', description: 'The last login or refresh.' }),
    user_agent: Type.Union([Type.String(), Type.Null()]),
    current: Type.Boolean({ description: 'Whether it is the session of this request.' }),
  },
  { title: 'Session', examples: [EXAMPLE_SESSION] },
)
const SessionQuery = Type.Object({ limit: Type.Optional(Limit), cursor: Type.Optional(Cursor) }, strict)
const SessionParams = Type.Object({ id: Type.String({ format: 'uuid', description: 'The id of the session.' }) })

/** The caller's sessions. */
export function sessionRoutes(server: HttpServer, context: AuthContext): void {
  server.get(
    '/auth/sessions',
    {
      config: { access: 'caller' },
      schema: {
        operationId: 'listSessions',
        description: 'One entry for each device or browser that is logged in. Pages: follow `next_cursor` until `has_more` is false.',
        tags,
        summary: "The caller's open sessions, newest first",
        querystring: SessionQuery,
        response: {
          200: { ...PageOf(SessionSchema), description: 'A page of the open sessions.' },
          ...problemResponses('invalid_query', 'invalid_cursor', ...badToken),
        },
      },
    },
    async (request, reply) => {
      const page = await listSessions(context.pool, callerOf(request), request.query, context.now())
      return reply.header('cache-control', 'no-store').send(page)
    },
  )

  server.delete(
    '/auth/sessions/:id',
    {
      config: { access: 'caller' },
      schema: {
        operationId: 'endSession',
        description: 'Access and refresh tokens of the session stop working at once.',
        tags,
        summary: "Ends one of the caller's sessions",
        params: SessionParams,
        response: {
          204: Type.Null({ description: 'The session and all its tokens are dead.' }),
          ...problemResponses(...badToken, 'not_found', ...NEEDLESS_BODY),
        },
      },
    },
    async (request, reply) => {
      const { userId } = callerOf(request)
      const { id } = request.params
      await endSession(context.pool, userId, id, context.now())
      context.revocations.add(id)
      clientOf(request).record('session_ended', { user_id: userId, session_id: id })
      return reply.code(204).send(null)
    },
  )
}
