import type { Pool, Queryable, Transaction } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import { EMPTY_QUEUE, type JobQueue, jobIdOf, type QueueLength } from '../jobs/job-queue.ts'
import { planSendTimes } from './plan-send-times.ts'
import type { MailContent } from './render-mail.ts'

/** The name of the job queue of order mails. */
export const EMAIL_QUEUE_NAME = 'email'

/** A mail to be: one row of `email_deliveries`. */
export interface NewDelivery {
  orderId: string
  eventType: string
  content: MailContent
  /** When it may go out at the earliest. */
  sendAfter: Date
}

/** What a job carries. The rest is in the row, where it outlives the job. */
export interface MailJob {
  event_id: string
  number: number
}

/** The mails that wait, and the age of the oldest one that is due and was never tried. */
export async function readMailQueue(db: Queryable): Promise<QueueLength> {
  const { rows } = await db.query<QueueLength>(
    `select
       count(*) as queued,
       coalesce(greatest(extract(epoch from now() - min(greatest(queued_at, send_after)) filter (where attempts = 0)), 0), 0)::float8 as "oldestUntriedSeconds"
     from email_deliveries
     where status = 'queued'`,
  )
  return rows[0] ?? EMPTY_QUEUE
}

/** The event ids of `eventIds` that have no mail yet. */
export async function findUnknown(tx: Transaction, eventIds: readonly string[]): Promise<Set<string>> {
  const { rows } = await tx.query<{ event_id: string }>('select event_id from email_deliveries where event_id = any($1)', [eventIds])
  return new Set(eventIds).difference(new Set(rows.map(({ event_id }) => event_id)))
}

/** One row and one job for each mail whose event has none yet. Returns how many. */
export async function insertDeliveries(tx: Transaction, jobs: JobQueue, mails: readonly NewDelivery[], now: Date): Promise<number> {
  const { rows } = await tx.query<{ event_id: string }>(
    `insert into email_deliveries (event_id, order_id, user_id, event_type, status, content, send_after)
     select event_id, order_id, user_id, event_type, 'queued', content::json, send_after
     from unnest($1::text[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::timestamptz[])
       as mail (event_id, order_id, user_id, event_type, content, send_after)
     on conflict (event_id) do nothing
     returning event_id`,
    [
      mails.map((mail) => mail.content.event_id),
      mails.map((mail) => mail.orderId),
      mails.map((mail) => mail.content.user_id),
      mails.map((mail) => mail.eventType),
      mails.map((mail) => JSON.stringify(mail.content)),
      mails.map((mail) => mail.sendAfter),
    ],
  )
  const times = new Map(mails.map(({ content, sendAfter }) => [content.event_id, sendAfter]))
  await sendJobs(
    tx,
    jobs,
    rows.map(({ event_id }) => ({ event_id, number: 1, startAfter: laterThan(now, times.get(event_id)) })),
  )
  return rows.length
}

function laterThan(now: Date, time: Date | undefined): Date | undefined {
  return time !== undefined && time > now ? time : undefined
}

async function sendJobs(tx: Transaction, jobs: JobQueue, mails: readonly (MailJob & { startAfter?: Date | undefined })[]): Promise<void> {
  await jobs.send(
    tx,
    EMAIL_QUEUE_NAME,
    mails.map(({ event_id, number, startAfter }) => ({
      id: jobIdOf(`${event_id}#${number}`),
      data: { event_id, number } satisfies MailJob,
      ...(startAfter === undefined ? {} : { startAfter }),
    })),
  )
}

export interface Attempt {
  number: number
  /** Null when the account is gone. */
  address: string | null
  /** Null also when nobody has proven to have the mailbox: the account may be a stranger's, and its name anything. */
  name: string | null
  content: MailContent
}

/** Counts a try before it is made, so that a try which ends the process counts too. Null unless this job is to send the mail. */
export async function beginAttempt(pool: Pool, job: MailJob): Promise<Attempt | null> {
  const { rows } = await pool.query<Attempt>(
    `with attempt as (
       update email_deliveries
       set attempts = attempts + 1
       where event_id = $1 and job_number = $2 and status = 'queued'
       returning user_id, attempts, content
     )
     select attempt.attempts as number, users.email as address,
       case when users.email_verified_at is not null then users.name end as name, attempt.content
     from attempt
     left join users on users.id = attempt.user_id`,
    [job.event_id, job.number],
  )
  return rows[0] ?? null
}

export async function recordSent(pool: Pool, eventId: string): Promise<void> {
  await pool.query(
    `update email_deliveries
     set status = 'sent', sent_at = now(), last_error = null, content = null
     where event_id = $1`,
    [eventId],
  )
}

export async function recordError(pool: Pool, eventId: string, reason: string): Promise<void> {
  await pool.query(`update email_deliveries set last_error = $2 where event_id = $1`, [eventId, reason])
}

export async function recordFailure(pool: Pool, eventId: string, reason: string): Promise<void> {
  await pool.query(`update email_deliveries set status = 'failed', failed_at = now(), last_error = $2 where event_id = $1`, [
    eventId,
    reason,
  ])
}

const RETRY_BATCH = 1_000

export interface RetryOptions {
  /** The one to try, or null for all. */
  eventId: string | null
  /** What they are counted against, as new mails are. */
  maxPerHour: number | null
  now: Date
}

/**
 * Queues mails again that were given up, with as many tries as a new one has, and as new ones for the limit of their account. Returns how
 * many. A running worker finds those that need not wait within a second.
 */
export async function retryFailed(pool: Pool, jobs: JobQueue, { eventId, maxPerHour, now }: RetryOptions): Promise<number> {
  for (let total = 0; ; ) {
    const queued = await inTransaction(pool, async (tx) => {
      const failed = await takeFailed(tx, eventId)
      const times = await planSendTimes(
        tx,
        failed.map((mail) => mail.user_id),
        maxPerHour,
        now,
      )
      await tx.query(
        `update email_deliveries as mail
         set send_after = planned.send_after
         from unnest($1::text[], $2::timestamptz[]) as planned (event_id, send_after)
         where mail.event_id = planned.event_id`,
        [failed.map((mail) => mail.event_id), times],
      )
      await sendJobs(
        tx,
        jobs,
        failed.map(({ event_id, number }, index) => ({ event_id, number, startAfter: laterThan(now, times[index]) })),
      )
      return failed.length
    })
    total += queued
    if (queued < RETRY_BATCH) return total
  }
}

/** Mails that were given up, in the order in which they were to go out, without a time: their old one does not count beside the new. */
async function takeFailed(tx: Transaction, eventId: string | null): Promise<(MailJob & { user_id: string })[]> {
  const { rows } = await tx.query<MailJob & { user_id: string }>(
    `with failed as (
       select event_id, queued_at, send_after
       from email_deliveries
       where status = 'failed' and ($1::text is null or event_id = $1)
       order by queued_at, event_id
       limit $2
       for update
     ),
     taken as (
       update email_deliveries as mail
       set status = 'queued', attempts = 0, job_number = job_number + 1, send_after = null
       from failed
       where mail.event_id = failed.event_id
       returning mail.event_id, mail.user_id, job_number as number
     )
     select taken.event_id, user_id, number
     from taken
     join failed using (event_id)
     order by failed.send_after nulls first, queued_at, event_id`,
    [eventId, RETRY_BATCH],
  )
  return rows
}

export type DeliveryStatus = 'queued' | 'sent' | 'failed'

export interface ListedDelivery {
  event_id: string
  order_number: string | null
  event_type: string
  status: DeliveryStatus
  attempts: number
  queued_at: Date
  send_after: Date | null
  sent_at: Date | null
  last_error: string | null
}

export interface DeliveryFilter {
  status?: DeliveryStatus | undefined
  /** An order's id, a UUID, or its number. */
  order?: string | undefined
  eventId?: string | undefined
  limit: number
}

/** The newest mails first. */
export async function listDeliveries(db: Queryable, filter: DeliveryFilter): Promise<ListedDelivery[]> {
  const { rows } = await db.query<ListedDelivery>(
    `select mail.event_id, orders.number::text as order_number, mail.event_type, mail.status, mail.attempts, mail.queued_at,
       mail.send_after, mail.sent_at, mail.last_error
     from email_deliveries as mail
     left join orders on orders.id = mail.order_id
     where ($1::text is null or mail.status = $1)
       and ($2::text is null or mail.order_id = case when $2 ~ '-' then $2::uuid else (select id from orders where number = $2::bigint) end)
       and ($3::text is null or mail.event_id = $3)
     order by mail.queued_at desc, mail.event_id desc
     limit $4`,
    [filter.status ?? null, filter.order ?? null, filter.eventId ?? null, filter.limit],
  )
  return rows
}
