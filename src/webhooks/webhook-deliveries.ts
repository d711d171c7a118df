import { randomUUIDv7 } from 'node:crypto'
import { type AuditContext, recordActivity } from '../activity/record-activity.ts'
import { deleteInBatches } from '../db/in-batches.ts'
import type { Pool, Queryable, Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import { type DeliveryKind, EMPTY_QUEUE, type QueueLength } from '../deliveries/delivery-kind.ts'
import { requeueDeliveries } from '../deliveries/delivery-rows.ts'
import type { TopicEvent } from '../topic/topic.ts'
import { KNOWN_MS } from './wanted-events.ts'
import { DISABLED, type Recipient } from './webhook-endpoints.ts'
import { WebhookRefused } from './webhook-url.ts'

const FIRST_PAUSE_SECONDS = 5
const LONGEST_PAUSE_SECONDS = 4 * 3_600

/** Webhooks, one for each pair of an endpoint and an event. These pauses allow about 30 attempts in three days. */
export const WEBHOOK_DELIVERIES: DeliveryKind = {
  name: 'webhook',
  table: sql`webhook_deliveries`,
  key: ['endpoint_id', 'event_id'],
  receiver: { column: sql`endpoint_id`, type: 'uuid' },
  columns: ['first_tried_at'],
  read: sql`select taken.endpoint_id, taken.event_id, taken.receiver, taken.attempts, endpoint.url, endpoint.disabled_at is not null as is_disabled, event.type, event.body,
      extract(epoch from now() - taken.first_tried_at)::float8 as tried_for_seconds, endpoint.sealed_secret, endpoint.previous_sealed_secret, endpoint.previous_secret_until
    from taken
    join webhook_endpoints as endpoint on endpoint.id = taken.endpoint_id
    join webhook_events as event on event.event_id = taken.event_id`,
  firstPauseSeconds: FIRST_PAUSE_SECONDS,
  longestPauseSeconds: LONGEST_PAUSE_SECONDS,
  isKept: true,
  onTaken: [sql`first_tried_at = coalesce(first_tried_at, now())`],
  onDelivered: [sql`status = 'delivered'`, sql`delivered_at = now()`],
  onRequeued: [sql`first_tried_at = null`, sql`delivered_at = null`, sql`last_error = null`],
  onUncounted: [sql`first_tried_at = case when delivery.attempts > 1 then delivery.first_tried_at end`],
  readLength: readWebhookQueue,
}

/** The data for one webhook request. */
export interface WebhookToPost {
  endpoint_id: string
  event_id: string
  /** Seconds since the first attempt, by the database's clock. */
  tried_for_seconds: number
  url: string
  is_disabled: boolean
  type: string
  body: string
  /** The encrypted signing secrets. The previous secret also signs until `previous_secret_until`. */
  sealed_secret: string
  previous_sealed_secret: string | null
  previous_secret_until: Date | null
}

interface ToDeliver {
  recipient: Pick<Recipient, 'id' | 'is_disabled'>
  event: TopicEvent
}

/**
 * Inserts a row for each pair that has none. A delivery to a disabled recipient is stored as failed. Returns the
 * endpoints of the queued deliveries.
 */
export async function insertDeliveries(tx: Transaction, wanted: readonly ToDeliver[], now: Date): Promise<string[]> {
  if (wanted.length === 0) return []
  await insertEvents(tx, [...new Set(wanted.map(({ event }) => event))])
  const { rows } = await tx.query<{ endpoint_id: string; status: string }>(
    `insert into webhook_deliveries (endpoint_id, event_id, status, last_error, queued_at)
     select endpoint_id, event_id, case when reason is null then 'queued' else 'failed' end, reason, $4
     from unnest($1::uuid[], $2::text[], $3::text[]) as wanted (endpoint_id, event_id, reason)
     on conflict (endpoint_id, event_id) do nothing
     returning endpoint_id, status`,
    [
      wanted.map(({ recipient }) => recipient.id),
      wanted.map(({ event }) => event.id),
      wanted.map(({ recipient }) => (recipient.is_disabled ? DISABLED : null)),
      now,
    ],
  )
  return rows.flatMap(({ endpoint_id, status }) => (status === 'queued' ? [endpoint_id] : []))
}

async function insertEvents(tx: Transaction, events: readonly TopicEvent[]): Promise<void> {
  await tx.query(
    `insert into webhook_events (event_id, type, body)
     select event_id, type, body
     from unnest($1::text[], $2::text[], $3::text[]) as event (event_id, type, body)
     on conflict (event_id) do nothing`,
    [events.map((event) => event.id), events.map((event) => event.type), events.map((event) => JSON.stringify(event))],
  )
}

/**
 * The number of queued deliveries, and the longest wait for a first attempt in seconds. The wait ignores failing
 * endpoints.
 */
async function readWebhookQueue(db: Queryable): Promise<QueueLength> {
  const { rows } = await db.query<QueueLength>(
    `select
       coalesce(sum(waiting.queued), 0)::float8 as queued,
       greatest(extract(epoch from now() - min(waiting.oldest) filter (where endpoint.failing_since is null)), 0)::float8 as "oldestUntriedSeconds"
     from webhook_endpoints as endpoint,
       lateral (
         select count(*) as queued, min(due_at) filter (where attempts = 0) as oldest
         from webhook_deliveries
         where endpoint_id = endpoint.id and status = 'queued'
       ) as waiting`,
  )
  return rows[0] ?? EMPTY_QUEUE
}

/**
 * Queues an endpoint's deliveries again, with another three days for attempts: one event's delivery in any status, or
 * all failed deliveries for null. Returns their number. Throws WebhookRefused for a disabled endpoint.
 */
export async function redeliver(
  pool: Pool,
  endpointId: string,
  eventId: string | null,
  { atMost = Number.POSITIVE_INFINITY, auditContext }: { atMost?: number; auditContext?: AuditContext } = {},
): Promise<number> {
  return requeueDeliveries(pool, WEBHOOK_DELIVERIES, {
    before: async (tx) => void (await assertEnabled(tx, endpointId)),
    atMost,
    onRequeued: async (tx, deliveries) => {
      const after = eventId === null ? { queued: deliveries.length } : { event_id: eventId, status: 'queued' }
      if (auditContext !== undefined)
        await recordActivity(tx, auditContext, { subjectType: 'webhook', subjectId: endpointId, before: null, after })
    },
    which: sql`endpoint_id = ${endpointId} and (event_id = ${eventId} or ${eventId}::text is null and status = 'failed')`,
  })
}

/** The type of test events. Only operators send them, and they report no change. */
export const TEST_EVENT_TYPE = 'storefront.webhook.test'

/**
 * Queues a test event for an enabled endpoint, whatever its event types are. If a test is still queued, returns its id,
 * otherwise the id of the new event. Returns null if the endpoint does not exist. Throws WebhookRefused for a disabled
 * endpoint.
 */
export async function queueTestEvent(pool: Pool, endpointId: string, now: Date, auditContext: AuditContext): Promise<string | null> {
  const event = {
    specversion: '1.0',
    id: `${randomUUIDv7()}.1`,
    source: '/webhooks',
    type: TEST_EVENT_TYPE,
    subject: endpointId,
    time: now.toISOString(),
    datacontenttype: 'application/json',
    sequence: '0000000001',
    data: { webhook: { id: endpointId } },
  }
  return inTransaction(pool, async (tx) => {
    if (!(await assertEnabled(tx, endpointId))) return null
    await tx.query(sql`select pg_advisory_xact_lock(hashtextextended(${`storefront webhook test ${endpointId}`}, 0))`)
    const queued = await findQueuedTest(tx, endpointId)
    if (queued !== null) return queued
    await insertDeliveries(tx, [{ recipient: { id: endpointId, is_disabled: false }, event }], now)
    const after = { event_id: event.id, status: 'queued' }
    await recordActivity(tx, auditContext, { subjectType: 'webhook', subjectId: endpointId, before: null, after })
    return event.id
  })
}

async function findQueuedTest(tx: Transaction, endpointId: string): Promise<string | null> {
  const { rows } = await tx.query<{ event_id: string }>(
    sql`select event_id
    from webhook_deliveries
    join webhook_events using (event_id)
    where endpoint_id = ${endpointId} and status = 'queued' and type = ${TEST_EVENT_TYPE}
    limit 1`,
  )
  return rows[0]?.event_id ?? null
}

/** Returns whether the endpoint exists. Throws WebhookRefused if it is disabled. */
async function assertEnabled(tx: Transaction, endpointId: string): Promise<boolean> {
  const { rows } = await tx.query<{ is_disabled: boolean }>(
    'select disabled_at is not null as is_disabled from webhook_endpoints where id = $1 for share',
    [endpointId],
  )
  if (rows[0]?.is_disabled === true) throw new WebhookRefused('the endpoint is disabled; enable it first')
  return rows.length > 0
}

/**
 * Deletes events that are too old to arrive again and have no queued delivery, together with their deliveries. Returns
 * the number of events.
 */
export function deleteOldEvents(pool: Pool, now: Date): Promise<number> {
  return deleteInBatches(
    pool,
    'webhook_events',
    sql`created_at < ${new Date(now.getTime() - KNOWN_MS)}
      and not exists (select from webhook_deliveries where event_id = webhook_events.event_id and status = 'queued')`,
  )
}

export type WebhookStatus = 'queued' | 'delivered' | 'failed'

export interface ListedWebhook {
  event_id: string
  type: string
  status: WebhookStatus
  attempts: number
  queued_at: Date
  delivered_at: Date | null
  last_error: string | null
}

const WEBHOOK_STATUSES: readonly WebhookStatus[] = ['queued', 'delivered', 'failed']

export interface WebhookFilter {
  endpointId: string
  status?: WebhookStatus | undefined
  /** The last delivery on the previous page. */
  before?: { queuedAt: Date; eventId: string } | undefined
  limit: number
}

/**
 * An endpoint's deliveries, the newest first. Each status has its part of the index, so reading a page needs no full
 * sort.
 */
export async function listDeliveries(db: Queryable, { endpointId, status, before, limit }: WebhookFilter): Promise<ListedWebhook[]> {
  const isBefore = before === undefined ? sql`true` : sql`(queued_at, event_id) < (${before.queuedAt}, ${before.eventId})`
  const { rows } = await db.query<ListedWebhook>(
    sql`select delivery.event_id, event.type, delivery.status, delivery.attempts, delivery.queued_at, delivery.delivered_at, delivery.last_error
    from unnest(${status === undefined ? WEBHOOK_STATUSES : [status]}::text[]) as wanted (status)
    cross join lateral (
      select event_id, status, attempts, queued_at, delivered_at, last_error
      from webhook_deliveries
      where endpoint_id = ${endpointId} and status = wanted.status and ${isBefore}
      order by queued_at desc, event_id desc
      limit ${limit}
    ) as delivery
    join webhook_events as event on event.event_id = delivery.event_id
    order by delivery.queued_at desc, delivery.event_id desc
    limit ${limit}`,
  )
  return rows
}

/**
 * The seconds in a `Retry-After` header (RFC 9110, 10.2.3), which contains a number or a date. Null for any other text.
 */
export function readRetryAfter(value: string, now: Date): number | null {
  if (/^\d+$/.test(value)) return Number(value)
  // An HTTP date begins with a weekday. Without this check, Date.parse would accept many other texts.
  const time = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(value) ? Date.parse(value) : Number.NaN
  return Number.isNaN(time) ? null : Math.max(0, Math.ceil((time - now.getTime()) / 1_000))
}

/**
 * The seconds to wait after this attempt if the receiver asked for `wanted` seconds. The result lies between the
 * queue's own pause and the longest pause. Up to a quarter is added at random, so refused deliveries do not all return
 * at once.
 */
export function pauseAsked(attempt: number, wanted: number, random: () => number = Math.random): number {
  const usual = FIRST_PAUSE_SECONDS * 2 ** Math.min(attempt - 1, 20)
  const pause = Math.min(Math.max(wanted, usual), LONGEST_PAUSE_SECONDS)
  return Math.ceil(pause * (1 + random() / 4))
}
