import { type AuditContext, recordActivity } from '../activity/record-activity.ts'
import type { Pool, Queryable, Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { type DeliveryKind, NO_RECEIVER } from '../deliveries/delivery-kind.ts'
import { requeueDeliveries } from '../deliveries/delivery-rows.ts'
import type { Language } from '../language.ts'
import type { ShippingAddress } from '../orders/postal-address.ts'
import { receiverOfAddress } from './mail-share.ts'
import { planSendTimes } from './plan-send-times.ts'
import type { MailContent } from './render-mail.ts'

/**
 * Joins the order, the reader and the address of a `mail`; the address is null if there is none. A guest with a proven
 * address gets mails at the account's current address, unless an amendment gave the order its own address. A notice
 * goes to the address that its event's amendment replaced.
 */
export const WITH_READER = sql`left join orders on orders.id = mail.order_id
  left join users as buyer on buyer.id = mail.user_id
  left join users as reader on reader.id = coalesce(buyer.owner_id, buyer.id)
  cross join lateral (
    select case
      when reader.id is null then null
      when mail.event_type <> 'storefront.order.readdressed' then coalesce(orders.email, reader.email)
      else coalesce(
        (
          select orders.former_values -> (place - 1)::text ->> 'email'
          from jsonb_array_elements(orders.status_history) with ordinality as history (entry, place)
          where coalesce((entry ->> 'version')::integer, place) = split_part(mail.event_id, '.', 2)::integer
        ),
        reader.email
      )
    end as email
  ) as recipient
  cross join lateral (
    select
      -- Guests who ordered by phone have no address (move-in/customer-line.ts).
      case when recipient.email not like '%@no-address.invalid' then recipient.email end as address,
      -- A stranger may have chosen the name, and written the attributes, for an unproven address.
      case when is_proven then reader.name end as name,
      case when is_proven then orders.item_attributes end as item_attributes
    from (select reader.email_verified_at is not null and recipient.email = reader.email) as proof (is_proven)
  ) as readable`

/**
 * The queue of order mails: one mail for each event, notices to a former address, and copies. The content is kept until
 * the mail is sent, so late retries work. With these pauses, the 16 attempts take about a day.
 */
export const MAIL_DELIVERIES: DeliveryKind = {
  name: 'email',
  table: sql`email_deliveries`,
  key: ['event_id'],
  receiver: { column: sql`receiver`, type: 'text' },
  columns: ['user_id', 'order_id', 'event_type', 'queued_at', 'content'],
  read: sql`select mail.event_id, mail.receiver, mail.attempts, mail.content, address, readable.name, reader.language,
      mail.order_id, mail.queued_at, orders.shipping_address, readable.item_attributes
    from taken as mail
    ${WITH_READER}`,
  firstPauseSeconds: 2,
  longestPauseSeconds: 6 * 3_600,
  isKept: true,
  onDelivered: [sql`status = 'sent'`, sql`sent_at = now()`, sql`content = null`, sql`receiver = null`],
  onFailed: [sql`failed_at = now()`, sql`receiver = null`],
  // The same transaction sets the real receiver later.
  onRequeued: [sql`receiver = ${NO_RECEIVER}`, sql`bounced_at = null`, sql`bounce_reason = null`],
}

export interface NewDelivery {
  orderId: string
  eventType: string
  content: MailContent
  /** The mail is not sent before this time. */
  sendAfter: Date
}

/** The address of an account, of a guest, or of the account that has taken the guest over. Null if there is none. */
export async function findReaderEmail(db: Queryable, userId: string): Promise<string | null> {
  const { rows } = await db.query<{ address: string | null }>(
    sql`select address
    from (select ${userId}::uuid as user_id, null::uuid as order_id, '' as event_id, '' as event_type) as mail
    ${WITH_READER}`,
  )
  return rows[0]?.address ?? null
}

/** The keys of needless notices, which have no address, or whose address gets another mail about the amendment. */
export async function findNeedlessNotices(tx: Transaction, mails: readonly NewDelivery[]): Promise<Set<string>> {
  const notices = mails.filter(({ content }) => content.kind === 'readdressed')
  if (notices.length === 0) return new Set()
  const { rows } = await tx.query<{ event_id: string }>(
    sql`select mail.event_id
    from unnest(
      ${notices.map(({ content }) => content.event_id)}::text[], ${notices.map(({ orderId }) => orderId)}::uuid[],
      ${notices.map(({ content }) => content.user_id)}::uuid[], ${notices.map(({ eventType }) => eventType)}::text[]
    ) as mail (event_id, order_id, user_id, event_type)
    ${WITH_READER}
    where address is null or address = coalesce(orders.email, reader.email)`,
  )
  return new Set(rows.map(({ event_id }) => event_id))
}

/** The current receivers, by mail. Addresses may change before sending. */
async function findReceivers(tx: Transaction, mails: readonly MailKey[]): Promise<Map<string, string>> {
  const { rows } = await tx.query<{ event_id: string; email: string }>(
    sql`select mail.event_id, recipient.email
    from unnest(
      ${mails.map((mail) => mail.event_id)}::text[], ${mails.map((mail) => mail.order_id)}::uuid[], ${mails.map((mail) => mail.user_id)}::uuid[],
      ${mails.map((mail) => mail.event_type)}::text[]
    ) as mail (event_id, order_id, user_id, event_type)
    ${WITH_READER}`,
  )
  return new Map(rows.flatMap(({ event_id, email }) => (email === null ? [] : [[event_id, receiverOfAddress(email)]])))
}

interface MailKey {
  event_id: string
  order_id: string
  user_id: string
  event_type: string
}

export async function findUnknown(tx: Transaction, eventIds: readonly string[]): Promise<Set<string>> {
  const { rows } = await tx.query<{ event_id: string }>('select event_id from email_deliveries where event_id = any($1)', [eventIds])
  return new Set(eventIds).difference(new Set(rows.map(({ event_id }) => event_id)))
}

/** Inserts a row for each mail whose event has none yet. Returns the receivers of the inserted rows. */
export async function insertDeliveries(tx: Transaction, mails: readonly NewDelivery[], now: Date): Promise<string[]> {
  const userIds = mails.map((mail) => mail.content.user_id)
  const receivers = await findReceivers(
    tx,
    mails.map(({ content, orderId, eventType }) => ({
      ...{ event_id: content.event_id, order_id: orderId, user_id: content.user_id, event_type: eventType },
    })),
  )
  const { rows } = await tx.query<{ receiver: string }>(
    // A mail that may be sent now gets the database's time, which may be behind this process's time.
    sql`insert into email_deliveries (event_id, order_id, user_id, event_type, status, content, send_after, receiver, due_at)
    select event_id, order_id, user_id, event_type, 'queued', content::json, send_after, receiver,
      case when send_after > ${now} then send_after else now() end
    from unnest(
      ${mails.map((mail) => mail.content.event_id)}::text[], ${mails.map((mail) => mail.orderId)}::uuid[], ${userIds}::uuid[],
      ${mails.map((mail) => mail.eventType)}::text[], ${mails.map((mail) => JSON.stringify(mail.content))}::text[],
      ${mails.map((mail) => mail.sendAfter)}::timestamptz[], ${mails.map(({ content }) => receivers.get(content.event_id) ?? NO_RECEIVER)}::text[]
    ) as mail (event_id, order_id, user_id, event_type, content, send_after, receiver)
    on conflict (event_id) do nothing
    returning receiver`,
  )
  return rows.map(({ receiver }) => receiver)
}

export interface MailToSend {
  event_id: string
  /** The address of the recipient. Null for a deleted account, and for a guest without an address. */
  address: string | null
  /** The name of the account. Null if the address is not verified, because a stranger may then have chosen the name. */
  name: string | null
  /** The language of the account. Null for the store's language. */
  language: Language | null
  content: MailContent
  order_id: string
  queued_at: Date
  shipping_address: ShippingAddress | null
  /** The attributes of the order's lines. Null for an unproven address, for which a stranger may have written them. */
  item_attributes: unknown
}

export interface RetryOptions {
  /** The mail to retry. Null for all failed mails. */
  eventId: string | null
  /** The hourly limit for each account. Retried mails count like new ones. */
  maxPerHour: number | null
  now: Date
  /** The most mails to retry, the oldest first. By default all. */
  atMost?: number
  /** The operator who retries the mails. */
  auditContext?: AuditContext
}

/** Queues failed mails again, with as many attempts as new ones. Returns their number. */
export async function retryFailed(pool: Pool, { eventId, maxPerHour, now, atMost, auditContext }: RetryOptions): Promise<number> {
  return requeueDeliveries(pool, MAIL_DELIVERIES, {
    ...(atMost === undefined ? {} : { atMost }),
    onRequeued: async (tx, mails) => {
      await planAgain(
        tx,
        mails.map((mail) => mail.event_id ?? ''),
        maxPerHour,
        now,
      )
      const after = eventId === null ? { queued: mails.length } : { status: 'queued' }
      const before = eventId === null ? null : { status: 'failed' }
      if (auditContext !== undefined) await recordActivity(tx, auditContext, { subjectType: 'mail', subjectId: eventId, before, after })
    },
    which: sql`status = 'failed' and (${eventId}::text is null or event_id = ${eventId})`,
  })
}

/**
 * Sets the receivers and new send times of mails, in the order of their old times. The old times no longer count
 * towards the limit.
 */
async function planAgain(tx: Transaction, eventIds: readonly string[], maxPerHour: number | null, now: Date): Promise<void> {
  const { rows } = await tx.query<MailKey>(
    sql`select event_id, order_id, user_id, event_type
    from email_deliveries
    where event_id = any(${eventIds})
    order by send_after nulls first, queued_at, event_id`,
  )
  await tx.query(sql`update email_deliveries set send_after = null where event_id = any(${eventIds})`)
  const userIds = rows.map((mail) => mail.user_id)
  const times = await planSendTimes(tx, userIds, maxPerHour, now)
  const receivers = await findReceivers(tx, rows)
  await tx.query(
    sql`update email_deliveries as mail
    set send_after = planned.send_after, receiver = planned.receiver,
      due_at = case when planned.send_after > ${now} then planned.send_after else now() end
    from unnest(
      ${rows.map((mail) => mail.event_id)}::text[], ${times}::timestamptz[], ${rows.map((mail) => receivers.get(mail.event_id) ?? NO_RECEIVER)}::text[]
    ) as planned (event_id, send_after, receiver)
    where mail.event_id = planned.event_id`,
  )
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
  /** The order's id (a UUID) or its number. */
  order?: string | undefined
  eventId?: string | undefined
  limit: number
}

/** Lists mails, the newest first. */
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
