import { Type } from 'typebox'
import { auditContextOf } from '../activity/record-activity.ts'
import type { Pool } from '../db/pool.ts'
import { AppError, notFound } from '../errors.ts'
import { defineList, defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { IdPosition, PageOf } from '../http/pagination.ts'
import { type ListedWebhook, listDeliveries, redeliver } from '../webhooks/webhook-deliveries.ts'
import { findEndpoint, type ListedEndpoint, listEndpoints } from '../webhooks/webhook-endpoints.ts'
import { toPrintableUrl, WebhookRefused } from '../webhooks/webhook-url.ts'
import { EXAMPLE_WEBHOOK, EXAMPLE_WEBHOOK_DELIVERY } from './pipeline-examples.ts'

/** About five seconds of work. */
const MAX_REDELIVERED = 10_000
const NullableTime = (description: string) => Type.Union([Type.String({ format: 'date-time' }), Type.Null()], { description })
const NullableText = (description: string) => Type.Union([Type.String(), Type.Null()], { description })
const EventId = Type.String({
  pattern: '^[0-9a-f-]{36}(\\.stock)?\\.[0-9]{1,10}$',
  'x-must': 'be the id of an event, as the list of deliveries has it',
  description: '`<order id>.<version>`, `<product id>.<version>` or `<product id>.stock.<version>`.',
})
const Status = Type.Enum(['queued', 'delivered', 'failed'], { title: 'WebhookStatus' })

const WebhookSchema = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    url: Type.String({ description: 'Without its query, where receivers keep their tokens.' }),
    event_types: Type.Union([Type.Array(Type.String()), Type.Null()], { description: 'Null: every type of order event.' }),
    state: Type.Enum(['enabled', 'failing', 'disabled'], { description: '`failing`: no delivery has succeeded since `since`.' }),
    since: NullableTime('When it began to fail or was disabled.'),
    reason: NullableText('Why it was disabled, or why it took nothing last.'),
    queued: Type.Integer({ description: 'Deliveries that wait.' }),
    failed: Type.Integer({ description: 'Deliveries that have failed.' }),
  },
  { title: 'Webhook', examples: [EXAMPLE_WEBHOOK] },
)
const DeliverySchema = Type.Object(
  {
    event_id: Type.String(),
    type: Type.String(),
    status: Status,
    attempts: Type.Integer(),
    queued_at: Type.String({ format: 'date-time' }),
    delivered_at: NullableTime('When the receiver accepted it.'),
    last_error: NullableText('Why the last attempt failed.'),
  },
  { title: 'WebhookDelivery', examples: [EXAMPLE_WEBHOOK_DELIVERY] },
)
const Redelivery = Type.Union(
  [
    Type.Object({ event_id: EventId }, { additionalProperties: false, description: 'One event, whatever its status.' }),
    Type.Object({ all_failed: Type.Literal(true) }, { additionalProperties: false, description: 'Every event whose delivery failed.' }),
  ],
  { title: 'Redelivery', examples: [{ all_failed: true }] },
)
const Redelivered = Type.Object(
  { queued: Type.Integer({ description: 'The number of events that are delivered again.' }) },
  { title: 'Redelivered', examples: [{ queued: 3 }] },
)
const Params = Type.Object({ id: Type.String({ format: 'uuid' }) })
const Filters = Type.Object({ status: Type.Optional(Status) })
const DeliveryPosition = Type.Tuple([Type.String({ format: 'date-time' }), Type.String({ maxLength: 100 })])

/** The endpoints that get order events, and their deliveries, for operators. Endpoints are added and removed by the command line. */
export function webhookRoutes(server: HttpServer, pool: Pool): void {
  defineList(
    server,
    'GET /admin/webhooks',
    {
      access: 'webhooks:read',
      operationId: 'listWebhooks',
      summary: 'The endpoints of webhooks and their state, in pages',
      description: 'The oldest first, without their secrets.',
      page: PageOf(WebhookSchema),
      answer: 'A page of the endpoints.',
      position: IdPosition,
    },
    async (_request, { limit, after, page }) =>
      page(await listEndpoints(pool, { after: after?.[0], limit: limit + 1 }), presentEndpoint, ({ id }) => [id]),
  )

  defineList(
    server,
    'GET /admin/webhooks/:id/deliveries',
    {
      access: 'webhooks:read',
      operationId: 'listWebhookDeliveries',
      summary: "An endpoint's deliveries, newest first, in pages",
      description: 'One for each event that it wanted. Pages: follow `next_cursor` until `has_more` is false.',
      params: Params,
      filters: Filters,
      page: PageOf(DeliverySchema),
      answer: 'A page of the deliveries.',
      position: DeliveryPosition,
    },
    async (request, { limit, after, page }) => {
      const { id } = request.params
      const { status } = request.query
      await getEndpoint(pool, id)
      const before = after && { queuedAt: new Date(after[0]), eventId: after[1] }
      const rows = await listDeliveries(pool, { endpointId: id, status, before, limit: limit + 1 })
      return page(rows, presentDelivery, (row) => [row.queued_at.toISOString(), row.event_id])
    },
  )

  defineRoute(
    server,
    'POST /admin/webhooks/:id/redeliver',
    {
      access: 'webhooks:write',
      operationId: 'redeliverWebhooks',
      summary: 'Delivers one event again, or all that failed',
      description:
        'Each gets three days of its own for its attempts. Receivers know a repeated event by its id. One call queues 10,000 at most: repeat it while ' +
        '`queued` is 10,000.',
      params: Params,
      body: Redelivery,
      answers: { 202: [Redelivered, 'They are queued.'] },
      refuses: ['webhook_disabled'],
    },
    async (request) => {
      const { id } = request.params
      const { body } = request
      const eventId = 'event_id' in body ? body.event_id : null
      const { state } = presentEndpoint(await getEndpoint(pool, id))
      if (state === 'disabled') throw disabled(id)
      const options = { atMost: MAX_REDELIVERED, auditContext: auditContextOf(request) }
      const queued = await redeliver(pool, id, eventId, options).catch((error) => {
        throw error instanceof WebhookRefused ? disabled(id) : error
      })
      if (queued === 0 && eventId !== null) throw notFound('delivery')
      return { queued }
    },
  )
}

function disabled(id: string): AppError {
  return new AppError('webhook_disabled', `The endpoint is disabled. \`storefront webhook enable ${id}\` enables it.`)
}

async function getEndpoint(pool: Pool, id: string): Promise<ListedEndpoint> {
  const endpoint = await findEndpoint(pool, id)
  if (endpoint === null) throw notFound('webhook')
  return endpoint
}

function presentEndpoint({ id, url, event_types, failing_since, disabled_at, reason, queued, failed }: ListedEndpoint) {
  const since = disabled_at ?? failing_since
  return {
    id,
    url: toPrintableUrl(url),
    event_types,
    state: disabled_at !== null ? ('disabled' as const) : failing_since !== null ? ('failing' as const) : ('enabled' as const),
    since: since?.toISOString() ?? null,
    reason,
    queued,
    failed,
  }
}

function presentDelivery(delivery: ListedWebhook) {
  return {
    ...delivery,
    queued_at: delivery.queued_at.toISOString(),
    delivered_at: delivery.delivered_at?.toISOString() ?? null,
  }
}
