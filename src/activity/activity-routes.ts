import { type Static, Type } from 'typebox'
import type { Pool } from '../db/pool.ts'
import { AppError } from '../errors.ts'
import { defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { Cursor, DEFAULT_LIMIT, decodeCursor, encodeCursor, Limit, nextLink, PageOf, toPage } from '../http/pagination.ts'
import { sendPolled } from '../http/send-polled.ts'
import { EXAMPLE_ACTIVITY } from './examples.ts'
import { type Activity, listActivities } from './list-activities.ts'
import { SUBJECT_TYPES } from './record-activity.ts'

const NullableText = (description: string) => Type.Union([Type.String(), Type.Null()], { description })
const State = (description: string) => Type.Union([Type.Object({}, { additionalProperties: true }), Type.Null()], { description })

const ActivitySchema = Type.Object(
  {
    id: Type.Integer(),
    at: Type.String({ format: 'date-time' }),
    actor: Type.Object({
      type: Type.Enum(['admin', 'key', 'system'], {
        description: '`admin`: an operator of any role. `key`: an API key. `system`: a command on the machine of the store.',
      }),
      id: NullableText('The id of the account or the key; null: a command.'),
    }),
    action: Type.String({ description: 'The `operationId` of the call, or the command.' }),
    subject: Type.Object({ type: Type.Enum([...SUBJECT_TYPES]), id: NullableText('Null: many, which `after` counts.') }),
    before: State('What differs, before the change. Long texts are cut.'),
    after: State('What differs, after the change.'),
    request_id: NullableText('The `X-Request-Id` of the call; null: a command.'),
  },
  { title: 'Activity', examples: [EXAMPLE_ACTIVITY] },
)
// A text that no activity can have would reach the database: NUL is refused there.
const Word = (description: string) =>
  Type.String({
    minLength: 1,
    maxLength: 100,
    pattern: '^[\\x20-\\x7e]+$',
    'x-must': 'have only letters, digits and signs of ASCII',
    description,
  })
const ActivityQuery = Type.Object(
  {
    actor: Type.Optional(Word('The id of an operator or a key, or `system` for commands.')),
    subject_type: Type.Optional(Type.Enum([...SUBJECT_TYPES])),
    subject_id: Type.Optional(Word('The id of the product, order, account, …')),
    action: Type.Optional(Word('An `operationId`, or a command such as `webhook add`.')),
    from: Type.Optional(Type.String({ format: 'date-time', maxLength: 40, description: 'Not before this time.' })),
    to: Type.Optional(Type.String({ format: 'date-time', maxLength: 40, description: 'Before this time.' })),
    limit: Type.Optional(Limit),
    cursor: Type.Optional(Cursor),
  },
  { additionalProperties: false },
)
const Position = Type.Tuple([
  Type.Integer({ minimum: 0, maximum: 8_640_000_000_000, description: 'Milliseconds since 1970.' }),
  Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
])

/** What operators, keys and commands have changed. */
export function activityRoutes(server: HttpServer, { pool, baseUrl }: { pool: Pool; baseUrl: string }): void {
  defineRoute(
    server,
    'GET /admin/activities',
    {
      access: 'activities:read',
      operationId: 'listActivities',
      summary: 'What operators, keys and commands have changed, newest first, in pages',
      description:
        'Filters combine with AND. Each change is recorded in its own transaction: what was refused is not here. Nothing changes or deletes a row. ' +
        'Send the `ETag` as `If-None-Match` to poll.',
      query: ActivityQuery,
      answers: { 200: [PageOf(ActivitySchema), 'A page of the activities.'] },
    },
    async (request, reply) => {
      const { limit = DEFAULT_LIMIT, cursor, ...filters } = request.query
      const scope = ['activities', ...Object.entries(filters).sort(([a], [b]) => (a < b ? -1 : 1))]
      const position = cursor === undefined ? undefined : decodeCursor(scope, cursor, Position)
      const rows = await listActivities(pool, {
        ...{ actor: filters.actor, action: filters.action, subjectType: filters.subject_type, subjectId: filters.subject_id },
        from: readInstant('from', filters.from),
        to: readInstant('to', filters.to),
        before: position && { at: new Date(position[0]), id: position[1] },
        limit: limit + 1,
      })
      const page = toPage(rows, limit, presentActivity, (last) => encodeCursor(scope, [last.at.getTime(), last.id]))
      const link = nextLink(baseUrl, '/admin/activities', request.query, page.next_cursor)
      if (link !== undefined) reply.header('link', link)
      return sendPolled(request, reply, page)
    },
  )
}

function presentActivity({ id, at, actor_type, actor_id, action, subject_type, subject_id, ...rest }: Activity) {
  const { before, after, request_id } = rest
  return {
    id,
    at: at.toISOString(),
    actor: { type: actor_type, id: actor_id },
    action,
    subject: { type: subject_type as Static<typeof ActivitySchema>['subject']['type'], id: subject_id },
    ...{ before, after, request_id },
  }
}

/** The schema's `date-time` allows leap seconds, and `Date` does not. */
function readInstant(parameter: string, text: string | undefined): Date | undefined {
  if (text === undefined) return undefined
  const time = new Date(text)
  if (!Number.isNaN(time.getTime())) return time
  throw new AppError('invalid_query', 'A query parameter is not valid.', { errors: [{ parameter, detail: 'is not a time' }] })
}
