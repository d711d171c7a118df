import { type AuditContext, recordActivity } from '../activity/record-activity.ts'
import type { Pool, Queryable, Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { type DeliveryJob, type DeliveryKind, requeueDeliveries, sendDeliveryJobs } from '../jobs/deliveries.ts'
import { EMPTY_QUEUE, type JobQueue, type QueueDefinition, type QueueLength } from '../jobs/job-queue.ts'
import type { Language } from '../language.ts'
import { receiverOfAddress } from './mail-share.ts'
import { planSendTimes } from './plan-send-times.ts'
import type { MailContent } from './render-mail.ts'

/** For `installJobQueues`. With these pauses the 16 attempts of a mail take about a day. */
export const EMAIL_QUEUE: QueueDefinition = {
  name: 'email',
  retryDelaySeconds: 2,
  retryDelayMaxSeconds: 6 * 3_600,
  keepSeconds: 3_600,
  read: readMailQueue,
}

/** Order mails, one for each event. The content is kept until the mail is sent, so that it can be retried however late. */
export const MAIL_DELIVERIES: DeliveryKind<'event_id'> = {
  queueName: EMAIL_QUEUE.name,
  table: sql`email_deliveries`,
  key: ['event_id'],
  receiversOf: findReceivers,
  onDelivered: () => sql`status = 'sent', sent_at = now(), content = null`,
  onFailed: [sql`failed_at = now()`],
  onRequeued: [],
  onUncounted: [],
}

/** A new row of `email_deliveries`. */
export interface NewDelivery {
  orderId: string
  eventType: string
  content: MailContent
  /** The mail is sent no earlier. */
  sendAfter: Date
}

export type MailJob = DeliveryJob<'event_id'>

/** Receivers by current address: an account may have another one when its mail is sent. */
async function findReceivers(tx: Transaction, mails: readonly MailJob[]): Promise<(mail: MailJob) => string | undefined> {
  const { rows } = await tx.query<{ event_id: string; email: string }>(
    sql`select mail.event_id, reader.email
    from email_deliveries as mail
    join users as buyer on buyer.id = mail.user_id
    join users as reader on reader.id = coalesce(buyer.owner_id, buyer.id)
    where mail.event_id = any(${mails.map((mail) => mail.event_id)}::text[]) and reader.email is not null`,
  )
  const receivers = new Map(rows.map(({ event_id, email }) => [event_id, receiverOfAddress(email)]))
  return (mail) => receivers.get(mail.event_id)
}

/** The number of queued mails, and the age of the oldest due one that was never attempted. */
async function readMailQueue(db: Queryable): Promise<QueueLength> {
  const { rows } = await db.query<QueueLength>(
    `select
       count(*) as queued,
       coalesce(greatest(extract(epoch from now() - min(greatest(queued_at, send_after)) filter (where attempts = 0)), 0), 0)::float8 as "oldestUntriedSeconds"
     from email_deliveries
     where status = 'queued'`,
  )
  return rows[0] ?? EMPTY_QUEUE
}

/** The ids in `eventIds` that have no mail. */
export async function findUnknown(tx: Transaction, eventIds: readonly string[]): Promise<Set<string>> {
  const { rows } = await tx.query<{ event_id: string }>('select event_id from email_deliveries where event_id = any($1)', [eventIds])
  return new Set(eventIds).difference(new Set(rows.map(({ event_id }) => event_id)))
}

/** Inserts one row and one job for each mail whose event has none. Returns their number. */
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
  const queued = rows.map(({ event_id }) => ({ event_id, number: 1 }))
  await sendDeliveryJobs(tx, jobs, MAIL_DELIVERIES, queued, (mail) => startAt(times.get(mail.event_id), now))
  return rows.length
}

/** No start time for a mail that may be sent now: the database's clock may be behind this process's. */
function startAt(time: Date | undefined, now: Date): { startAfter?: Date } {
  return time !== undefined && time > now ? { startAfter: time } : {}
}

/** What a mail is sent from. */
export interface MailToSend {
  /** The recipient; null when the account was deleted, and for a guest without an address. */
  address: string | null
  /** The account's name; null also while the address is not verified, because a stranger may have chosen the name. */
  name: string | null
  /** The account's; null for the store's. */
  language: Language | null
  content: MailContent
}

/** A mail for each job, in their order; null for a job that is not to send its mail. */
export async function readMailsToSend(pool: Pool, jobs: readonly MailJob[]): Promise<(MailToSend | null)[]> {
  const { rows } = await pool.query<MailToSend & { id: string }>(
    // Mails of a guest whose address was proven go to the account, which may have another address now.
    sql`select mail.event_id || '#' || mail.job_number as id,
      -- Guests who ordered by phone have no address (move-in/customer-line.ts).
      case when reader.email not like '%@no-address.invalid' then reader.email end as address,
      case when reader.email_verified_at is not null then reader.name end as name, reader.language, mail.content
    from email_deliveries as mail
    left join users as buyer on buyer.id = mail.user_id
    left join users as reader on reader.id = coalesce(buyer.owner_id, buyer.id)
    where mail.event_id = any(${jobs.map((job) => job.event_id)}::text[]) and mail.status = 'queued'`,
  )
  const mails = new Map(rows.map((row) => [row.id, row]))
  return jobs.map((job) => mails.get(`${job.event_id}#${job.number}`) ?? null)
}

export interface RetryOptions {
  /** The one to retry, or null for all. */
  eventId: string | null
  /** The limit of an account, which counts these mails like new ones. */
  maxPerHour: number | null
  now: Date
  /** No more than these, the oldest first; all unless given. */
  atMost?: number
  /** Who retries them. */
  auditContext?: AuditContext
}

/** Queues failed mails again, with as many attempts as a new one has. Returns their number. */
export async function retryFailed(
  pool: Pool,
  jobs: JobQueue,
  { eventId, maxPerHour, now, atMost, auditContext }: RetryOptions,
): Promise<number> {
  return requeueDeliveries(pool, jobs, MAIL_DELIVERIES, {
    ...(atMost === undefined ? {} : { atMost }),
    onRequeued: async (tx, mails) => {
      const after = eventId === null ? { queued: mails.length } : { status: 'queued' }
      const before = eventId === null ? null : { status: 'failed' }
      if (auditContext !== undefined) await recordActivity(tx, auditContext, { subjectType: 'mail', subjectId: eventId, before, after })
    },
    which: sql`status = 'failed' and (${eventId}::text is null or event_id = ${eventId})`,
    async planStarts(tx, mails) {
      const eventIds = mails.map((mail) => mail.event_id)
      const times = await planAgain(tx, eventIds, maxPerHour, now)
      return (mail) => startAt(times.get(mail.event_id), now)
    },
  })
}

/** Gives mails new send times, in the order of their old ones, which do not count beside the new. */
async function planAgain(tx: Transaction, eventIds: readonly string[], maxPerHour: number | null, now: Date): Promise<Map<string, Date>> {
  const { rows } = await tx.query<{ event_id: string; user_id: string }>(
    sql`select event_id, user_id
    from email_deliveries
    where event_id = any(${eventIds})
    order by send_after nulls first, queued_at, event_id`,
  )
  await tx.query(sql`update email_deliveries set send_after = null where event_id = any(${eventIds})`)
  const userIds = rows.map((mail) => mail.user_id)
  const times = await planSendTimes(tx, userIds, maxPerHour, now)
  await tx.query(
    sql`update email_deliveries as mail
    set send_after = planned.send_after
    from unnest(${rows.map((mail) => mail.event_id)}::text[], ${times}::timestamptz[]) as planned (event_id, send_after)
    where mail.event_id = planned.event_id`,
  )
  return new Map(rows.map(({ event_id }, index) => [event_id, times[index] ?? now]))
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
