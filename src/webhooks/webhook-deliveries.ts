import type { Pool, Queryable, Transaction } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import { EMPTY_QUEUE, type JobQueue, jobIdOf, type QueueLength } from '../jobs/job-queue.ts'
import type { OrderEvent } from '../orders/events.ts'
import { KNOWN_MS, type Wanted } from './wanted-events.ts'
import { DISABLED } from './webhook-endpoints.ts'
import { WebhookRefused } from './webhook-url.ts'

/** The name of the job queue of webhooks. */
export const WEBHOOK_QUEUE_NAME = 'webhook'

/** What a job carries. The rest is in the rows. */
export interface WebhookJob {
  endpoint_id: string
  event_id: string
  number: number
}

/**
 * One row for each pair that has none yet, and one job for each of them unless the recipient is disabled: then the delivery has failed
 * from the start. Returns how many jobs.
 */
export async function insertDeliveries(tx: Transaction, jobs: JobQueue, wanted: Wanted['pairs'], now: Date): Promise<number> {
  if (wanted.length === 0) return 0
  await insertEvents(tx, [...new Set(wanted.map(({ event }) => event))])
  const { rows } = await tx.query<WebhookJob & { status: string }>(
    `insert into webhook_deliveries (endpoint_id, event_id, status, last_error, queued_at)
     select endpoint_id, event_id, case when reason is null then 'queued' else 'failed' end, reason, $4
     from unnest($1::uuid[], $2::text[], $3::text[]) as wanted (endpoint_id, event_id, reason)
     on conflict (endpoint_id, event_id) do nothing
     returning endpoint_id, event_id, job_number as number, status`,
    [
      wanted.map(({ recipient }) => recipient.id),
      wanted.map(({ event }) => event.id),
      wanted.map(({ recipient }) => (recipient.is_disabled ? DISABLED : null)),
      now,
    ],
  )
  const queued = rows.filter(({ status }) => status === 'queued')
  await sendJobs(tx, jobs, queued)
  return queued.length
}

async function insertEvents(tx: Transaction, events: readonly OrderEvent[]): Promise<void> {
  await tx.query(
    `insert into webhook_events (event_id, type, body)
     select event_id, type, body
     from unnest($1::text[], $2::text[], $3::text[]) as event (event_id, type, body)
     on conflict (event_id) do nothing`,
    [events.map((event) => event.id), events.map((event) => event.type), events.map((event) => JSON.stringify(event))],
  )
}

async function sendJobs(tx: Transaction, jobs: JobQueue, deliveries: readonly WebhookJob[], startAfterSeconds = 0): Promise<void> {
  await jobs.send(
    tx,
    WEBHOOK_QUEUE_NAME,
    deliveries.map(({ endpoint_id, event_id, number }) => ({
      id: jobIdOf(`${endpoint_id} ${event_id}#${number}`),
      group: endpoint_id,
      ...(startAfterSeconds === 0 ? {} : { startAfterSeconds }),
      data: { endpoint_id, event_id, number } satisfies WebhookJob,
    })),
  )
}

export interface Attempt {
  number: number
  first_tried_at: Date
  url: string
  /** Those that sign now, the newest first. */
  sealed_secrets: string[]
  body: string
}

/** Counts a try before it is made. Null unless this job is to make the delivery, and the endpoint is there and enabled. */
export async function beginAttempt(pool: Pool, job: WebhookJob, now: Date): Promise<Attempt | null> {
  const { rows } = await pool.query<Attempt>(
    `update webhook_deliveries as delivery
     set attempts = attempts + 1, first_tried_at = coalesce(first_tried_at, $4)
     from webhook_endpoints as endpoint, webhook_events as event
     where delivery.endpoint_id = $1 and delivery.event_id = $2 and delivery.job_number = $3 and delivery.status = 'queued'
       and endpoint.id = delivery.endpoint_id and endpoint.disabled_at is null
       and event.event_id = delivery.event_id
     returning delivery.attempts as number, delivery.first_tried_at, endpoint.url, event.body,
       array[endpoint.sealed_secret] || case when endpoint.previous_secret_until > $4 then array[endpoint.previous_sealed_secret] end
         as sealed_secrets`,
    [job.endpoint_id, job.event_id, job.number, now],
  )
  return rows[0] ?? null
}

/** Undoes `beginAttempt` for a try that could not be made, and notes why. */
export async function takeAttemptBack(pool: Pool, job: WebhookJob, reason: string): Promise<void> {
  await pool.query(
    `update webhook_deliveries
     set attempts = attempts - 1, first_tried_at = case when attempts > 1 then first_tried_at end, last_error = $4
     where endpoint_id = $1 and event_id = $2 and job_number = $3 and status = 'queued'`,
    [job.endpoint_id, job.event_id, job.number, reason],
  )
}

export async function recordDelivered(pool: Pool, job: WebhookJob, now: Date): Promise<void> {
  await pool.query(
    `update webhook_deliveries
     set status = 'delivered', delivered_at = $3, last_error = null
     where endpoint_id = $1 and event_id = $2`,
    [job.endpoint_id, job.event_id, now],
  )
}

/** Notes why a try failed; `isFinal` when it was the last one. */
export async function recordFailure(pool: Pool, job: WebhookJob, reason: string, isFinal: boolean): Promise<void> {
  await pool.query(
    `update webhook_deliveries
     set last_error = $3, status = case when $4 then 'failed' else status end
     where endpoint_id = $1 and event_id = $2 and status = 'queued'`,
    [job.endpoint_id, job.event_id, reason, isFinal],
  )
}

/** The deliveries that wait, for any endpoint, and the age of the oldest one that was never tried. */
export async function readWebhookQueue(db: Queryable): Promise<QueueLength> {
  const { rows } = await db.query<QueueLength>(
    `select
       coalesce(sum(waiting.queued), 0)::float8 as queued,
       coalesce(extract(epoch from now() - min(waiting.oldest)), 0)::float8 as "oldestUntriedSeconds"
     from webhook_endpoints as endpoint,
       lateral (
         select count(*) as queued, min(queued_at) filter (where attempts = 0) as oldest
         from webhook_deliveries
         where endpoint_id = endpoint.id and status = 'queued'
       ) as waiting`,
  )
  return rows[0] ?? EMPTY_QUEUE
}

/** Has a delivery that failed tried again after so long, by a job that takes the place of this one. */
export async function postpone(pool: Pool, jobs: JobQueue, job: WebhookJob, seconds: number): Promise<void> {
  await inTransaction(pool, async (tx) => {
    const { rows } = await tx.query<WebhookJob>(
      `update webhook_deliveries
       set job_number = job_number + 1
       where endpoint_id = $1 and event_id = $2 and job_number = $3 and status = 'queued'
       returning endpoint_id, event_id, job_number as number`,
      [job.endpoint_id, job.event_id, job.number],
    )
    await sendJobs(tx, jobs, rows, seconds)
  })
}

const REDELIVERY_BATCH = 1_000

/**
 * Queues deliveries of an endpoint again, with three days of their own: that of one event, whatever became of it before, or all that
 * failed for null. Returns how many. A running worker finds them within a second. Throws WebhookRefused for a disabled endpoint.
 */
export async function redeliver(pool: Pool, jobs: JobQueue, endpointId: string, eventId: string | null): Promise<number> {
  for (let total = 0; ; ) {
    const queued = await inTransaction(pool, async (tx) => {
      await assertEnabled(tx, endpointId)
      const { rows } = await tx.query<WebhookJob>(
        `with chosen as (
           select event_id
           from webhook_deliveries
           where endpoint_id = $1 and (event_id = $2 or $2::text is null and status = 'failed')
           order by queued_at, event_id
           limit $3
           for update
         )
         update webhook_deliveries as delivery
         set status = 'queued', attempts = 0, first_tried_at = null, delivered_at = null, last_error = null, job_number = job_number + 1
         from chosen
         where delivery.endpoint_id = $1 and delivery.event_id = chosen.event_id
         returning delivery.endpoint_id, delivery.event_id, delivery.job_number as number`,
        [endpointId, eventId, REDELIVERY_BATCH],
      )
      await sendJobs(tx, jobs, rows)
      return rows.length
    })
    total += queued
    if (queued < REDELIVERY_BATCH) return total
  }
}

async function assertEnabled(tx: Transaction, endpointId: string): Promise<void> {
  const { rows } = await tx.query<{ is_disabled: boolean }>(
    'select disabled_at is not null as is_disabled from webhook_endpoints where id = $1 for share',
    [endpointId],
  )
  if (rows[0]?.is_disabled === true) throw new WebhookRefused('the endpoint is disabled; enable it first')
}

/** Deletes events that are too old to come again and wait for no delivery, and their deliveries. Right to run anywhere, at any time, twice. */
export async function deleteOldEvents(pool: Pool, now: Date): Promise<void> {
  await pool.query(
    `delete from webhook_events as event
     where created_at < $1
       and not exists (select from webhook_deliveries where event_id = event.event_id and status = 'queued')`,
    [new Date(now.getTime() - KNOWN_MS)],
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

/** An endpoint's deliveries, the newest first. */
export async function listDeliveries(
  db: Queryable,
  filter: { endpointId: string; status?: WebhookStatus | undefined; limit: number },
): Promise<ListedWebhook[]> {
  const { rows } = await db.query<ListedWebhook>(
    `select delivery.event_id, event.type, delivery.status, delivery.attempts, delivery.queued_at, delivery.delivered_at, delivery.last_error
     from webhook_deliveries as delivery
     join webhook_events as event on event.event_id = delivery.event_id
     where delivery.endpoint_id = $1 and ($2::text is null or delivery.status = $2)
     order by delivery.queued_at desc, delivery.event_id desc
     limit $3`,
    [filter.endpointId, filter.status ?? null, filter.limit],
  )
  return rows
}
