import { productsSoldOutSince } from '../catalogue/sold-out-products.ts'
import { deleteInBatches } from '../db/in-batches.ts'
import type { Pool, Transaction } from '../db/pool.ts'
import { noSql, type Sql, sql } from '../db/sql.ts'
import type { OrderEvent } from '../orders/events.ts'
import { WITH_READER } from './email-deliveries.ts'
import { IS_UNDELIVERED } from './find-mails.ts'
import type { StaffMailKind } from './mail-kinds.ts'

/** An entry in a staff mail, about an order, a product or a mail. It contains nothing that a customer typed. */
export interface StaffNotice {
  /** The id of the item in the console. */
  id: string
  /** The number of the order, or the name of the product. */
  name: string
  total?: { amount: number; currency: string }
  /** The kind of the undelivered mail. */
  mail?: string
}

export interface StaffNotices {
  count: number
  /** The first `MAX_LISTED` entries. */
  list: StaffNotice[]
}

const MAX_LISTED = 50
/** Orders and notices that are older are not reported, for example after a restore. */
const OLD_DAYS = 7
/** Notices are kept longer than they can be found again, so none is reported twice. */
const KEPT_DAYS = 8
/**
 * Longer than any statement that writes these rows. A row has the time at which its statement began, so it may appear
 * later than newer rows.
 */
const OVERLAP_SECONDS = 3_600
const MAX_FOUND = 10_000

/**
 * Notes the new orders among `events`, whose mails are queued in the same transaction. Returns whether there were any.
 */
export async function noticeOrders(tx: Transaction, events: readonly OrderEvent[], now: Date): Promise<boolean> {
  const oldest = now.getTime() - OLD_DAYS * 86_400_000
  const orders = events
    .filter(({ type, time }) => type === 'storefront.order.created' && Date.parse(time) >= oldest)
    .map(({ time, data: { order } }) => ({ time, notice: { id: order.id, name: order.number, total: order.total } satisfies StaffNotice }))
  if (orders.length === 0) return false
  await tx.query(
    sql`insert into staff_notices (kind, subject, happened_at, content)
    select 'staff_orders', subject, happened_at, content::json
    from unnest(
      ${orders.map(({ notice }) => notice.id)}::text[], ${orders.map(({ time }) => time)}::timestamptz[],
      ${orders.map(({ notice }) => JSON.stringify(notice))}::text[]
    ) as placed (subject, happened_at, content)
    on conflict do nothing`,
  )
  return true
}

/** For each mail kind, a table for FROM with the entries since a time. Null if the database is not searched. */
const FOUND: Readonly<Record<StaffMailKind, ((since: Date) => Sql) | null>> = {
  // The mail subscriber notes new orders.
  staff_orders: null,
  staff_sold_out: (since) => sql`(
    select id::text as subject, sold_out_at as happened_at, json_build_object('id', id, 'name', name) as content
    from ${productsSoldOutSince(since)} as product
  )`,
  // Staff cannot act on a mail without an address, such as a deleted account's, or on a notice to an address that was
  // corrected.
  staff_failed_mails: (since) => sql`(
    select mail.event_id as subject, greatest(mail.failed_at, mail.bounced_at) as happened_at,
      json_build_object('id', mail.event_id, 'name', orders.number::text, 'mail', split_part(mail.event_type, '.', 3)) as content
    from email_deliveries as mail
    ${WITH_READER}
    where greatest(mail.failed_at, mail.bounced_at) >= ${since} and ${IS_UNDELIVERED}
      and mail.event_type <> 'storefront.order.readdressed' and address is not null and orders.number is not null
  )`,
}

/**
 * Notes the entries that are not reported yet. If `isKnown` is true, they are marked as reported. Returns the time of
 * the newest entry if there are more, otherwise null.
 */
export async function findNotices(tx: Transaction, kind: StaffMailKind, since: Date, isKnown: boolean): Promise<Date | null> {
  const found = FOUND[kind]?.(since)
  if (found === undefined) return null
  const { rows } = await tx.query<{ count: number; newest: Date | null }>(
    sql`with noticed as (
    insert into staff_notices (kind, subject, happened_at, content, mailed_at)
    select ${kind}, found.subject, found.happened_at, found.content, case when ${isKnown} then now() end
    from ${found} as found
    where not exists (
      select from staff_notices as noticed
      where noticed.kind = ${kind} and noticed.subject = found.subject and noticed.happened_at = found.happened_at
    )
    order by found.happened_at
    limit ${isKnown ? null : MAX_FOUND}
    returning happened_at
    )
    select count(*)::integer as count, max(happened_at) as newest from noticed`,
  )
  const [{ count, newest } = { count: 0, newest: null }] = rows
  return !isKnown && count === MAX_FOUND ? newest : null
}

/** A kind's state, locked: another process waits, then sees this one's result. */
export async function lockStaffMails(tx: Transaction, kind: StaffMailKind) {
  const { rows } = await tx.query<{ since: Date; is_first: boolean; pause_ms: number }>(
    sql`select examined_at is null as is_first,
      greatest(examined_at, now() - interval '1 day') - make_interval(secs => ${OVERLAP_SECONDS}) as since,
      -- A later time was written before the clock went back.
      case
        when mailed_at <= now() + interval '1 minute' then greatest(extract(epoch from mailed_at + interval '1 minute' - now()) * 1000, 0)
        else 0
      end::float8 as pause_ms
    from staff_mails
    where kind = ${kind}
    for update`,
  )
  const [state] = rows
  if (state === undefined) throw new Error(`staff_mails has no row for ${kind}`)
  return state
}

/** Takes the waiting notices for a mail. An hourly mail gets those that were noted before this hour. */
export async function takeNotices(tx: Transaction, kind: StaffMailKind, isHourly: boolean): Promise<StaffNotices> {
  const { rows } = await tx.query<{ count: number; content: StaffNotice }>(
    sql`with taken as (
      update staff_notices
      set mailed_at = now()
      where kind = ${kind} and mailed_at is null and noticed_at > now() - make_interval(days => ${OLD_DAYS})
        ${isHourly ? sql`and noticed_at < date_trunc('hour', now())` : noSql}
      returning subject, happened_at, content
    )
    select (count(*) over ())::integer as count, content
    from taken
    order by happened_at, subject
    limit ${MAX_LISTED}`,
  )
  return { count: rows[0]?.count ?? 0, list: rows.map(({ content }) => content) }
}

/** `examinedTo` is null for now. */
export async function saveStaffMails(tx: Transaction, kind: StaffMailKind, examinedTo: Date | null, isMailed: boolean): Promise<void> {
  await tx.query(
    sql`update staff_mails
    set examined_at = coalesce(${examinedTo}::timestamptz, now()), mailed_at = case when ${isMailed} then now() else mailed_at end
    where kind = ${kind}`,
  )
}

/** Deletes notices that are not read any more. Returns their number. */
export function deleteOldStaffNotices(pool: Pool): Promise<number> {
  return deleteInBatches(pool, 'staff_notices', sql`noticed_at < now() - make_interval(days => ${KEPT_DAYS})`)
}
