import { Type } from 'typebox'
import { auditContextOf } from '../activity/record-activity.ts'
import type { Encryption } from '../auth/store-secret.ts'
import type { Pool } from '../db/pool.ts'
import { AppError, notFound } from '../errors.ts'
import { assertMayUse } from '../http/access.ts'
import { defineList, defineRoute } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { IdPosition, PageOf } from '../http/pagination.ts'
import { type ListedWebhook, listDeliveries, queueTestEvent, redeliver, TEST_EVENT_TYPE } from './webhook-deliveries.ts'
import {
  addEndpoint,
  changeEndpoint,
  disableEndpoint,
  EVENT_TYPES,
  enableEndpoint,
  findEndpoint,
  type ListedEndpoint,
  listEndpoints,
  removeEndpoint,
  rotateSecret,
} from './webhook-endpoints.ts'
import { toPrintableUrl, WebhookRefused } from './webhook-url.ts'

/** Bodies in the OpenAPI document. A test checks each against its schema. */
const EXAMPLE_WEBHOOK = {
  id: '01997a61-7a12-7d33-9b40-0c1d2e3f4a5b',
  url: 'https://erp.example/hooks/orders?…',
  event_types: ['storefront.order.created', 'storefront.order.shipped'],
  state: 'failing',
  since: '2026-03-04T18:05:00.000Z',
  reason: null,
  queued: 2,
  failed: 0,
}

const EXAMPLE_WEBHOOK_INPUT = { url: 'https://erp.example/hooks/orders?token=4f1c', event_types: EXAMPLE_WEBHOOK.event_types }
const EXAMPLE_SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'

const EXAMPLE_WEBHOOK_DELIVERY = {
  event_id: '01997a60-2b33-7e45-a1c8-6d0e9f7b3a55.1',
  type: 'storefront.order.created',
  status: 'queued',
  attempts: 3,
  queued_at: '2026-03-04T18:05:00.000Z',
  delivered_at: null,
  last_error: 'the receiver answered 503',
}

/** Events contain names and addresses, so sending them elsewhere needs permission to read them. */
const ORDERS = 'orders:read'
/** Takes about five seconds. */
const MAX_REDELIVERED = 10_000
const NullableTime = (description: string) => Type.Union([Type.String({ format: 'date-time' }), Type.Null()], { description })
const NullableText = (description: string) => Type.Union([Type.String(), Type.Null()], { description })
const EventId = Type.String({
  pattern: '^[0-9a-f-]{36}(\\.stock)?\\.[0-9]{1,10}$',
  'x-must': 'be the id of an event, as the list of deliveries has it',
  description: '`<order id>.<version>`, `<product id>.<version>` or `<product id>.stock.<version>`.',
})
const Status = Type.Enum(['queued', 'delivered', 'failed'], { title: 'WebhookStatus' })

const webhook = {
  id: Type.String({ format: 'uuid' }),
  url: Type.String({ description: 'The URL without its query, because receivers keep their tokens there.' }),
  event_types: Type.Union([Type.Array(Type.String()), Type.Null()], { description: 'Null means every type of order event.' }),
  state: Type.Enum(['enabled', 'failing', 'disabled'], { description: '`failing`: no delivery has succeeded since `since`.' }),
  since: NullableTime('When the endpoint began to fail or was disabled.'),
  reason: NullableText('Why the endpoint was disabled, or why its last delivery failed.'),
  queued: Type.Integer({ description: 'The number of queued deliveries.' }),
  failed: Type.Integer({ description: 'The number of failed deliveries.' }),
}
const WebhookSchema = Type.Object(webhook, { title: 'Webhook', examples: [EXAMPLE_WEBHOOK] })
const NewWebhookSchema = Type.Object(
  { ...webhook, secret: Type.String({ description: 'The secret that signs the webhooks (`whsec_…`). It is not shown again.' }) },
  { title: 'NewWebhook', examples: [{ ...EXAMPLE_WEBHOOK, ...{ state: 'enabled', since: null, queued: 0 }, secret: EXAMPLE_SECRET }] },
)
const Url = Type.String({
  format: 'uri',
  maxLength: 2_000,
  description:
    'An https URL with a public address, checked now and for each connection. The setting `WEBHOOK_ALLOW_PRIVATE` allows other URLs.',
})
const EventTypes = Type.Union(
  [Type.Array(Type.Enum([...EVENT_TYPES]), { minItems: 1, maxItems: EVENT_TYPES.length, uniqueItems: true }), Type.Null()],
  { description: 'Null means every type of order event, also those of later releases. Types of catalogue events must be named.' },
)
const WebhookInput = Type.Object(
  { url: Url, event_types: Type.Optional(EventTypes) },
  { title: 'WebhookInput', examples: [EXAMPLE_WEBHOOK_INPUT], additionalProperties: false },
)
const WebhookChange = Type.Object(
  { url: Type.Optional(Url), event_types: Type.Optional(EventTypes) },
  { title: 'WebhookChange', examples: [{ event_types: null }], minProperties: 1, additionalProperties: false },
)
const WebhookTest = Type.Object(
  { event_id: Type.String({ description: 'The id of the event, as the list of deliveries has it.' }) },
  { title: 'WebhookTest', examples: [{ event_id: EXAMPLE_WEBHOOK_DELIVERY.event_id }] },
)
const DeliverySchema = Type.Object(
  {
    event_id: Type.String(),
    type: Type.String(),
    status: Status,
    attempts: Type.Integer(),
    queued_at: Type.String({ format: 'date-time' }),
    delivered_at: NullableTime('When the receiver accepted the event.'),
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

export interface WebhookRoutesOptions {
  pool: Pool
  encryption: Encryption
  /** Whether plain http and non-public addresses are allowed. */
  isPrivateAllowed: boolean
  now: () => Date
}

export function webhookRoutes(server: HttpServer, { pool, encryption, isPrivateAllowed, now }: WebhookRoutesOptions): void {
  defineRoute(
    server,
    'POST /admin/webhooks',
    {
      access: 'webhooks:write',
      stepUp: true,
      operationId: 'createWebhook',
      summary: 'Adds an endpoint, and shows its secret once',
      description: 'The endpoint gets events whose `time` is from now on. The scope `orders:read` is needed, too.',
      body: WebhookInput,
      answers: { 201: [NewWebhookSchema, 'The endpoint, with its secret.'] },
      refuses: ['webhook_exists', 'too_many_webhooks'],
    },
    async (request) => {
      assertMayUse(request, ORDERS)
      const { url, event_types: eventTypes = null } = request.body
      const { id, secret } = await addEndpoint(pool, encryption, { url, eventTypes, isPrivateAllowed }, auditContextOf(request)).catch(
        explain,
      )
      return { ...presentEndpoint(await getEndpoint(pool, id)), secret }
    },
  )

  defineRoute(
    server,
    'PATCH /admin/webhooks/:id',
    {
      access: 'webhooks:write',
      stepUp: true,
      operationId: 'updateWebhook',
      summary: "Changes an endpoint's URL, or the events that it gets from now on",
      description: 'The secret stays the same. Queued deliveries go to the new URL. The scope `orders:read` is needed, too.',
      params: Params,
      body: WebhookChange,
      answers: { 200: [WebhookSchema, 'The endpoint.'] },
      refuses: ['webhook_exists'],
    },
    async (request) => {
      assertMayUse(request, ORDERS)
      const { id } = request.params
      const { url, event_types: eventTypes } = request.body
      const change = { isPrivateAllowed, ...(url === undefined ? {} : { url }), ...(eventTypes === undefined ? {} : { eventTypes }) }
      const exists = await changeEndpoint(pool, id, change, auditContextOf(request)).catch(explain)
      if (!exists) throw notFound('webhook')
      return presentEndpoint(await getEndpoint(pool, id))
    },
  )

  defineRoute(
    server,
    'DELETE /admin/webhooks/:id',
    {
      access: 'webhooks:write',
      stepUp: true,
      operationId: 'deleteWebhook',
      summary: 'Removes an endpoint and its deliveries',
      description: 'The endpoint is disabled at once. Removing millions of deliveries takes a while: repeat it after a timeout.',
      params: Params,
      answers: { 204: 'The endpoint is removed.' },
    },
    async (request) => {
      if (!(await removeEndpoint(pool, request.params.id, auditContextOf(request)))) throw notFound('webhook')
    },
  )

  defineRoute(
    server,
    'POST /admin/webhooks/:id/rotate',
    {
      access: 'webhooks:write',
      stepUp: true,
      operationId: 'rotateWebhookSecret',
      summary: 'Gives an endpoint another secret, and shows it once',
      description:
        'For 24 hours webhooks are signed with both the current and the new secret, so that the receiver can switch. A second rotation ends the oldest secret at once.',
      params: Params,
      answers: { 200: [NewWebhookSchema, 'The endpoint, with its new secret.'] },
    },
    async (request) => {
      const { id } = request.params
      const secret = await rotateSecret(pool, encryption, id, now(), auditContextOf(request))
      if (secret === null) throw notFound('webhook')
      return { ...presentEndpoint(await getEndpoint(pool, id)), secret }
    },
  )

  defineRoute(
    server,
    'POST /admin/webhooks/:id/enable',
    {
      access: 'webhooks:write',
      operationId: 'enableWebhook',
      summary: 'Enables an endpoint again',
      description: 'Deliveries that the endpoint missed are `failed`. `POST /admin/webhooks/{id}/redeliver` delivers them.',
      params: Params,
      answers: { 200: [WebhookSchema, 'The enabled endpoint.'] },
    },
    async (request) => {
      const { id } = request.params
      if (!(await enableEndpoint(pool, id, auditContextOf(request)))) throw notFound('webhook')
      return presentEndpoint(await getEndpoint(pool, id))
    },
  )

  defineRoute(
    server,
    'POST /admin/webhooks/:id/disable',
    {
      access: 'webhooks:write',
      operationId: 'disableWebhook',
      summary: 'Disables an endpoint until it is enabled',
      description: 'Its queued deliveries fail, and so do deliveries of later events. They can be delivered after the endpoint is enabled.',
      params: Params,
      answers: { 200: [WebhookSchema, 'The disabled endpoint.'] },
    },
    async (request) => {
      const { id } = request.params
      await disableEndpoint(pool, id, 'an operator disabled it', now(), { auditContext: auditContextOf(request) })
      return presentEndpoint(await getEndpoint(pool, id))
    },
  )

  defineRoute(
    server,
    'POST /admin/webhooks/:id/test',
    {
      access: 'webhooks:write',
      operationId: 'testWebhook',
      summary: 'Sends an endpoint a test event',
      description: `The event has the type \`${TEST_EVENT_TYPE}\`, which no endpoint needs to subscribe to. It is signed like every event and attempted once, and the list of deliveries shows the outcome. A test that is still queued is not queued again.`,
      params: Params,
      answers: { 202: [WebhookTest, 'The event is queued.'] },
      refuses: ['webhook_disabled'],
    },
    async (request) => {
      const { id } = request.params
      const eventId = await queueTestEvent(pool, id, now(), auditContextOf(request)).catch((error) => {
        throw error instanceof WebhookRefused ? disabled(id) : error
      })
      if (eventId === null) throw notFound('webhook')
      return { event_id: eventId }
    },
  )

  defineList(
    server,
    'GET /admin/webhooks',
    {
      access: 'webhooks:read',
      operationId: 'listWebhooks',
      summary: 'The endpoints of webhooks and their state, in pages',
      description: 'The oldest endpoints come first. Secrets are not shown.',
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
      description:
        'The list has one delivery for each event that the endpoint subscribes to. Pages: follow `next_cursor` until `has_more` is false.',
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
        'Each event is attempted for up to three more days. Receivers recognize a repeated event by its id. One call queues at most 10,000 events: repeat the call while ' +
        '`queued` is 10,000.',
      params: Params,
      body: Redelivery,
      answers: { 202: [Redelivered, 'The events are queued.'] },
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

/** Turns the error of an unusable URL into `invalid_body`. Rethrows any other error. */
function explain(error: unknown): never {
  if (!(error instanceof WebhookRefused)) throw error
  throw new AppError('invalid_body', 'The endpoint cannot be set up. See `errors`.', {
    errors: [{ pointer: '#/url', detail: error.message }],
  })
}

function disabled(id: string): AppError {
  return new AppError('webhook_disabled', `The endpoint is disabled. POST /admin/webhooks/${id}/enable enables it.`)
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
