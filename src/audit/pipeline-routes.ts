import { Type } from 'typebox'
import { defineRoute, sendPolled } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { EPOCH_SEQUENCES, epochOf } from '../topic/topic.ts'
import type { Pipeline, PipelineStatus } from './pipeline-status.ts'
import { AuditRunSchema, presentRun } from './routes.ts'

const EXAMPLE_PIPELINE = {
  slot: { name: 'storefront_orders', is_active: true, lag_bytes: 0, retained_bytes: 1_048_576, lost_reason: null },
  topic: { store: 'postgres', epoch: 0, newest_sequence: 20_143 },
  subscribers: [
    { name: 'email', position: 20_143, lag_events: 0, is_active: true, state: null },
    { name: 'webhook', position: 20_143, lag_events: 0, is_active: true, state: null },
    { name: 'lake', position: 20_120, lag_events: 23, is_active: true, state: null },
  ],
  queues: [{ name: 'email', queued: 2, oldest_untried_seconds: 0 }],
  dead_letters: { count: 0, newest: [] },
  lake: { place: 's3://storefront/lake/', files: 214, size_bytes: 18_874_368, newest_file_at: '2026-03-04T18:05:00.000Z' },
  last_verify: null,
  unavailable: [],
}

const Nullable = <T extends Parameters<typeof Type.Union>[0][number]>(schema: T) => Type.Union([schema, Type.Null()])
const Count = (description: string) => Type.Integer({ description })
const NullableCount = (description: string) => Type.Union([Type.Integer(), Type.Null()], { description })

const PARTS = {
  slot: 'slot',
  topic: 'topic',
  subscribers: 'subscribers',
  queues: 'queues',
  deadLetters: 'dead_letters',
  lake: 'lake',
  lastVerify: 'last_verify',
} as const

const PipelineSchema = Type.Object(
  {
    slot: Nullable(
      Type.Object(
        {
          name: Type.String(),
          is_active: Type.Boolean({ description: 'Whether a change stream reads the slot.' }),
          lag_bytes: NullableCount('WAL after the confirmed position: unpublished changes, and everything else that was written.'),
          retained_bytes: NullableCount('WAL that PostgreSQL retains for the slot.'),
          lost_reason: Type.Union([Type.String(), Type.Null()], {
            description: 'Why the slot is lost and the change stream cannot continue.',
          }),
        },
        { title: 'PipelineSlot', description: 'The replication slot of the orders.' },
      ),
    ),
    topic: Nullable(
      Type.Object(
        {
          store: Type.Enum(['postgres', 'nats']),
          epoch: Count('0 for the topic in PostgreSQL. 1, 2 … for streams of the broker.'),
          newest_sequence: Count('The sequence of the newest message of the epoch. 0 if there is none.'),
        },
        { title: 'PipelineTopic' },
      ),
    ),
    subscribers: Nullable(
      Type.Array(
        Type.Object(
          {
            name: Type.String(),
            position: NullableCount(
              'The last sequence that the subscriber has handled. Null before the first one, and if it cannot be read.',
            ),
            lag_events: NullableCount('An upper bound of the number of messages that wait for the subscriber.'),
            is_active: Type.Boolean({ description: 'Whether some process reads the topic as this subscriber.' }),
            state: Type.Union([Type.Enum(['stopped', 'standby', 'active', 'failing']), Type.Null()], {
              description:
                'The state in the process that answers, or in another process of the same command. Null if none of them runs the subscriber, or if that process does not answer.',
            }),
          },
          { title: 'PipelineSubscriber' },
        ),
      ),
    ),
    queues: Nullable(
      Type.Array(
        Type.Object(
          {
            name: Type.String(),
            queued: Count('The number of queued deliveries.'),
            oldest_untried_seconds: Count(
              'How long the oldest due delivery to a receiver that is not failing has waited for its first attempt.',
            ),
          },
          { title: 'PipelineQueue' },
        ),
      ),
    ),
    dead_letters: Nullable(
      Type.Object(
        {
          count: Count('The number of changes that cannot become events until somebody repairs their rows.'),
          newest: Type.Array(
            Type.Object({ event_id: Type.String(), reason: Type.String(), recorded_at: Type.String({ format: 'date-time' }) }),
            { description: 'At most five.' },
          ),
        },
        { title: 'PipelineDeadLetters' },
      ),
    ),
    lake: Nullable(
      Type.Object(
        {
          place: Type.String({ description: 'The folder, or the address in the object store.' }),
          files: Count('The number of current files. Files that a merge has replaced do not count.'),
          size_bytes: Count('The total size of these files.'),
          newest_file_at: Type.Union([Type.String({ format: 'date-time' }), Type.Null()]),
        },
        { title: 'PipelineLake', description: 'Read at most once every ten seconds.' },
      ),
    ),
    last_verify: Nullable(AuditRunSchema),
    unavailable: Type.Array(Type.Object({ part: Type.Enum(Object.values(PARTS)), reason: Type.String() }, { title: 'PipelineGap' }), {
      description: 'The parts that could not be read, whose properties are null. `last_verify` is also null if no run has ended yet.',
    }),
  },
  { title: 'Pipeline', examples: [EXAMPLE_PIPELINE] },
)

export function pipelineRoutes(server: HttpServer, { pipeline }: { pipeline: Pipeline }): void {
  defineRoute(
    server,
    'GET /admin/pipeline',
    {
      access: 'pipeline:read',
      operationId: 'getPipeline',
      summary: 'The state of the pipeline from the replication slot to mails, webhooks and lake',
      description:
        'Any process of the API can answer. Each part is read for at most two seconds, and a part that fails does not affect the others. Send the `ETag` as `If-None-Match` to poll.',
      answers: { 200: [PipelineSchema, 'The state now.'] },
    },
    async (request, reply) => sendPolled(request, reply, present(await pipeline.read())),
  )
}

function present({ slot, topic, subscribers, queues, deadLetters, lake, lastVerify, unavailable }: PipelineStatus) {
  return {
    slot: slot && {
      name: slot.name,
      is_active: slot.active,
      lag_bytes: slot.lagBytes,
      retained_bytes: slot.retainedBytes,
      lost_reason: slot.lostReason,
    },
    topic: topic && {
      store: topic.isOutside ? ('nats' as const) : ('postgres' as const),
      epoch: epochOf(topic.newestSequence),
      newest_sequence: topic.newestSequence % EPOCH_SEQUENCES,
    },
    subscribers:
      subscribers?.map(({ name, position, lag, isActive, state }) => ({
        name,
        position: position === null ? null : position % EPOCH_SEQUENCES,
        lag_events: lag,
        is_active: isActive,
        state,
      })) ?? null,
    queues:
      queues?.map(({ name, queued, oldestUntriedSeconds }) => ({
        name,
        queued,
        oldest_untried_seconds: Math.floor(oldestUntriedSeconds),
      })) ?? null,
    dead_letters: deadLetters && {
      count: deadLetters.count,
      newest: deadLetters.newest.map(({ recorded_at, ...letter }) => ({ ...letter, recorded_at: recorded_at.toISOString() })),
    },
    lake: lake && {
      place: lake.place,
      files: lake.files,
      size_bytes: lake.sizeBytes,
      newest_file_at: lake.newestFileAt?.toISOString() ?? null,
    },
    last_verify: lastVerify && presentRun(lastVerify),
    unavailable: unavailable.map(({ part, reason }) => ({ part: PARTS[part], reason })),
  }
}
