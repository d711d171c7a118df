import { type Static, Type } from 'typebox'
import type { Pool } from '../db/pool.ts'
import { defineList } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { Instant, PageOf, readInstant } from '../http/pagination.ts'
import { type Activity, listActivities } from './list-activities.ts'
import { SUBJECT_TYPES } from './record-activity.ts'

/** Example bodies of the OpenAPI document. A test checks each against its schema. */

const EXAMPLE_ACTIVITY = {
  id: 4711,
  at: '2026-03-02T09:15:30.000Z',
  actor: { type: 'admin', id: '01997a5e-0c41-7b02-8d1e-5f0f6a3c9b12' },
  action: 'setStock',
  subject: { type: 'product', id: '01997a5e-1f00-7c11-9a02-6b1d2e3f4a55' },
  before: { stock: 7 },
  after: { stock: 25 },
  request_id: '01997a5e-4b1c-7d3a-9f60-2c8a1b0e7d44',
}

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
      id: NullableText('The id of the account or the key. Null for a command.'),
    }),
    action: Type.String({ description: 'The `operationId` of the call, or the command.' }),
    subject: Type.Object({
      type: Type.Enum([...SUBJECT_TYPES]),
      id: NullableText('Null if the activity has many subjects. `after` then counts them.'),
    }),
    before: State('The properties that the change altered, with their values before it. Long texts are cut.'),
    after: State('The same properties with their values after the change.'),
    request_id: NullableText('The `X-Request-Id` of the call. Null for a command.'),
  },
  { title: 'Activity', examples: [EXAMPLE_ACTIVITY] },
)
// The pattern excludes NUL, which the database refuses and no activity can contain.
const Word = (description: string) =>
  Type.String({
    minLength: 1,
    maxLength: 100,
    pattern: '^[\\x20-\\x7e]+$',
    'x-must': 'have only letters, digits and signs of ASCII',
    description,
  })
const Filters = Type.Object({
  actor: Type.Optional(Word('The id of an operator or a key, or `system` for commands.')),
  subject_type: Type.Optional(Type.Enum([...SUBJECT_TYPES])),
  subject_id: Type.Optional(Word('The id of the product, order, account, …')),
  action: Type.Optional(Word('An `operationId`, or a command such as `webhook add`.')),
  from: Instant('Only activities at this time or later. RFC 3339.'),
  to: Instant('Only activities before this time. RFC 3339.'),
})
const Position = Type.Tuple([
  Type.Integer({ minimum: 0, maximum: 8_640_000_000_000, description: 'Milliseconds since 1970.' }),
  Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
])

export function activityRoutes(server: HttpServer, pool: Pool): void {
  defineList(
    server,
    'GET /admin/activities',
    {
      access: 'activities:read',
      operationId: 'listActivities',
      summary: 'What operators, keys and commands have changed, newest first, in pages',
      description:
        'Filters combine with AND. A change and its entry are written in one transaction, so refused calls have no entry. Entries are never changed or deleted. ' +
        'Send the `ETag` as `If-None-Match` to poll.',
      filters: Filters,
      page: PageOf(ActivitySchema),
      answer: 'A page of the activities.',
      position: Position,
    },
    async (request, { limit, after, page }) => {
      const rows = await listActivities(pool, {
        ...{
          actor: request.query.actor,
          action: request.query.action,
          subjectType: request.query.subject_type,
          subjectId: request.query.subject_id,
        },
        from: readInstant('from', request.query.from),
        to: readInstant('to', request.query.to),
        before: after && { at: new Date(after[0]), id: after[1] },
        limit: limit + 1,
      })
      return page(rows, presentActivity, (last) => [last.at.getTime(), last.id])
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
