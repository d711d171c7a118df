import { type AuditContext, recordActivity } from '../activity/record-activity.ts'
import type { Pool, Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import { AppError, notFound } from '../errors.ts'
import type { OrderEvent } from '../orders/events.ts'
import { copyId, MAX_COPIES, originalOf } from './copy-id.ts'
import { type DeliveryStatus, insertDeliveries, WITH_READER } from './email-deliveries.ts'
import { planSendTimes } from './plan-send-times.ts'
import { eventIdOfMail, toMailContent } from './render-mail.ts'

export interface SendAgainOptions {
  /** The id of the mail, or of a copy of it. */
  eventId: string
  /** The event of the mail, rebuilt from the row of the order. Null if that is impossible. */
  event: OrderEvent | null
  /** The hourly limit of mails for each account. Copies count like new mails. */
  maxPerHour: number | null
  now: Date
  auditContext: AuditContext
}

/**
 * Queues a copy of a sent mail to the current address of the order. Returns the id of the copy. If two calls run at
 * once, one of them is refused.
 */
export async function sendAgain(pool: Pool, { eventId, event, maxPerHour, now, auditContext }: SendAgainOptions): Promise<string> {
  const originalId = originalOf(eventId)
  if (eventIdOfMail(originalId) !== originalId)
    throw new AppError(
      'mail_not_repeatable',
      'A notice to a former address is sent only once. Mails about the order go to the new address.',
    )
  return inTransaction(pool, async (tx) => {
    const mail = await getForUpdate(tx, originalId)
    const copies = await findCopies(tx, originalId)
    if (mail.status !== 'sent') throw new AppError('mail_not_sent', `The mail is ${mail.status}, not sent.`)
    if (mail.is_spam || copies.some(({ is_spam }) => is_spam))
      throw new AppError('mail_not_repeatable', 'The customer reported the mail as spam: further ones harm the delivery of all mails.')
    if (copies.some(({ status }) => status === 'queued'))
      throw new AppError('mail_not_sent', 'A copy of the mail is queued and was not sent yet.')
    if (copies.length >= MAX_COPIES) throw new AppError('mail_not_repeatable', `The mail was sent again ${MAX_COPIES} times already.`)
    if (!mail.has_address || event === null)
      throw new AppError('mail_not_repeatable', 'The account was deleted, the customer has no address, or the order is gone.')
    const content = { ...toMailContent(event), event_id: copyId(originalId, copies.length + 1) }
    const [sendAfter = now] = await planSendTimes(tx, [mail.user_id], maxPerHour, now)
    await insertDeliveries(tx, [{ orderId: mail.order_id, eventType: mail.event_type, content, sendAfter }], now)
    const after = { status: 'queued', copy_of: originalId }
    await recordActivity(tx, auditContext, { subjectType: 'mail', subjectId: content.event_id, before: null, after })
    return content.event_id
  })
}

interface Original extends Sent {
  order_id: string
  user_id: string
  event_type: string
  has_address: boolean
}

interface Sent {
  status: DeliveryStatus
  /** Whether the customer has reported the mail as spam. */
  is_spam: boolean
}

async function getForUpdate(tx: Transaction, eventId: string): Promise<Original> {
  const { rows } = await tx.query<Original>(
    sql`select mail.status, mail.complained_at is not null as is_spam, mail.order_id, mail.user_id, mail.event_type, address is not null as has_address
    from (
      select event_id, status, complained_at, order_id, user_id, event_type from email_deliveries where event_id = ${eventId} for update
    ) as mail
    ${WITH_READER}`,
  )
  const [mail] = rows
  if (mail === undefined) throw notFound('mail')
  return mail
}

/** The states of the copies of a mail. */
async function findCopies(tx: Transaction, eventId: string): Promise<Sent[]> {
  const ids = Array.from({ length: MAX_COPIES }, (_, index) => copyId(eventId, index + 1))
  const { rows } = await tx.query<Sent>(
    sql`select status, complained_at is not null as is_spam from email_deliveries where event_id = any(${ids})`,
  )
  return rows
}
