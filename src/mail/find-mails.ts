import type { Queryable } from '../db/pool.ts'
import { allOf, noSql, type Sql, sql } from '../db/sql.ts'
import type { Language } from '../language.ts'
import { type DeliveryStatus, WITH_READER } from './email-deliveries.ts'
import type { MailContent } from './render-mail.ts'

export interface FoundMail {
  event_id: string
  order_id: string
  /** The number of the order. Null if its row was deleted. */
  order_number: string | null
  event_type: string
  /** The address to which the mail went, or would go now. Null for a deleted account. */
  to: string | null
  status: DeliveryStatus
  attempts: number
  queued_at: Date
  send_after: Date | null
  /** The earliest time of the next attempt. Null if none is planned. */
  next_attempt_at: Date | null
  sent_at: Date | null
  failed_at: Date | null
  last_error: string | null
  /** When and why a sent mail bounced. */
  bounced_at: Date | null
  bounce_reason: string | null
  /** When the customer reported the mail as spam. */
  complained_at: Date | null
}

/** A mail with the data to render it. */
export type MailWithContent = FoundMail & {
  /** It is null after the mail was sent. */
  content: MailContent | null
  /** The name of the account. Null if the address is not verified, as in `readMailsToSend`. */
  customer_name: string | null
  /** The attributes of the order's lines, as `MailToSend` has them. */
  item_attributes: unknown
  /** The current language of the account. Null for the store's language. */
  language: Language | null
}

export interface MailSearch {
  status?: DeliveryStatus | undefined
  /** The order's id (a UUID) or its number. */
  order?: string | undefined
  /** Finds only mails of these accounts. An empty list finds no mails. */
  userIds?: readonly string[] | undefined
  /** Whether neither the mail nor a later copy has reached the customer. */
  isUndelivered?: boolean | undefined
  /** Finds only mails that were queued at this time or later. */
  from?: Date | undefined
  /** Finds only mails that were queued before this time. */
  to?: Date | undefined
  /** The last mail on the previous page. */
  after?: { queuedAt: Date; eventId: string } | undefined
  limit: number
}

const STATUSES: readonly DeliveryStatus[] = ['queued', 'sent', 'failed']
const KEY = sql`mail.event_id, mail.queued_at`
const NEWEST_FIRST = sql`order by queued_at desc, event_id desc`

/**
 * Lists mails, the newest first. It reads as many rows for each status and account as it returns. For an order it reads
 * all mails of the order.
 */
export async function findMails(db: Queryable, search: MailSearch): Promise<FoundMail[]> {
  const { order, limit } = search
  const page = order !== undefined ? pageOfOrder(search, order) : search.isUndelivered ? pageOfUndelivered(search) : pageOfAll(search)
  const { rows } = await db.query<FoundMail>(
    sql`with page as materialized (${page} ${NEWEST_FIRST} limit ${limit})
    ${selectMails(noSql)}
    from page
    join email_deliveries as mail on mail.event_id = page.event_id
    ${WITH_READER}
    order by mail.queued_at desc, mail.event_id desc`,
  )
  return rows
}

/** Returns a mail with its content; null if it does not exist. */
export async function findMail(db: Queryable, eventId: string): Promise<MailWithContent | null> {
  const content = sql`, mail.content, readable.name as customer_name, readable.item_attributes, reader.language`
  const { rows } = await db.query<MailWithContent>(
    sql`${selectMails(content)} from email_deliveries as mail ${WITH_READER} where mail.event_id = ${eventId}`,
  )
  return rows[0] ?? null
}

export async function hasFailedMails(db: Queryable): Promise<boolean> {
  const { rows } = await db.query<{ found: boolean }>(`select exists (select from email_deliveries where status = 'failed') as found`)
  return rows[0]?.found ?? false
}

function selectMails(more: Sql): Sql {
  return sql`select mail.event_id, mail.order_id, orders.number::text as order_number, mail.event_type, recipient.email as "to", mail.status, mail.attempts,
    mail.queued_at, mail.send_after, mail.sent_at, mail.failed_at, mail.last_error, mail.bounced_at, mail.bounce_reason,
    mail.complained_at,
    case when mail.status = 'queued' and mail.lease is null then mail.due_at end as next_attempt_at ${more}`
}

/**
 * The newest mails of each status and account. Each is found by an index on status and time, or on account, status and
 * time.
 */
function pageOfAll(search: MailSearch): Sql {
  const { userIds, status, limit } = search
  const owners = userIds === undefined ? noSql : sql`cross join unnest(${userIds}::uuid[]) as owner (id)`
  const ofOwner = userIds === undefined ? [] : [sql`mail.user_id = owner.id`]
  return sql`select newest.event_id, newest.queued_at
    from unnest(${status === undefined ? STATUSES : [status]}::text[]) as one (status)
    ${owners}
    cross join lateral (
      select ${KEY} from email_deliveries as mail
      where mail.status = one.status and ${allOf([...ofOwner, ...conditionsOf(search)])}
      ${NEWEST_FIRST}
      limit ${limit}
    ) as newest`
}

/** The failed and bounced mails, which have an index by time. */
function pageOfUndelivered(search: MailSearch): Sql {
  const { userIds, status } = search
  const conditions = [IS_UNDELIVERED, ...conditionsOf(search)]
  if (status !== undefined) conditions.push(sql`mail.status = ${status}`)
  if (userIds !== undefined) conditions.push(sql`mail.user_id = any(${userIds}::uuid[])`)
  return sql`select ${KEY} from email_deliveries as mail where ${allOf(conditions)}`
}

/** A failed or bounced mail without a later copy that is queued or delivered. Spam complaints prove delivery. */
export const IS_UNDELIVERED = sql`(mail.status = 'failed' or mail.bounced_at is not null) and mail.complained_at is null and not exists (
  select
  from email_deliveries as later
  where later.order_id = mail.order_id and later.status <> 'failed' and later.bounced_at is null
    and starts_with(later.event_id, regexp_replace(mail.event_id, '\\.copy[1-9]$', '') || '.copy')
    and later.event_id collate "C" > mail.event_id collate "C"
)`

/** Materialized, because the planner may otherwise read all mails by time to find an order's old ones. */
function pageOfOrder(search: MailSearch, order: string): Sql {
  const { userIds, status } = search
  const id = order.includes('-') ? sql`${order}::uuid` : sql`(select id from orders where number = ${order}::bigint)`
  const conditions = [sql`mail.order_id = ${id}`, ...conditionsOf(search)]
  if (userIds !== undefined) conditions.push(sql`mail.user_id = any(${userIds}::uuid[])`)
  if (search.isUndelivered) conditions.push(IS_UNDELIVERED)
  const ofStatus = status === undefined ? noSql : sql`where status = ${status}`
  return sql`select event_id, queued_at from (
      with matching as materialized (select ${KEY}, mail.status from email_deliveries as mail where ${allOf(conditions)})
      select event_id, queued_at from matching ${ofStatus}
    ) as found`
}

function conditionsOf({ from, to, after }: MailSearch): Sql[] {
  const conditions: Sql[] = []
  if (from !== undefined) conditions.push(sql`mail.queued_at >= ${from}::timestamptz`)
  if (to !== undefined) conditions.push(sql`mail.queued_at < ${to}::timestamptz`)
  if (after !== undefined) conditions.push(sql`(mail.queued_at, mail.event_id) < (${after.queuedAt}::timestamptz, ${after.eventId})`)
  return conditions
}
