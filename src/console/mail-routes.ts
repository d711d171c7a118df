import { type Static, Type } from 'typebox'
import { type AuditContext, auditContextOf } from '../activity/record-activity.ts'
import type { Pool } from '../db/pool.ts'
import { AppError, notFound } from '../errors.ts'
import { defineList, defineRoute, sendPolled } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { type Page, PageOf, type Paging, readInstant } from '../http/pagination.ts'
import { isCopy, originalOf } from '../mail/copy-id.ts'
import { type FoundMail, findMail, findMails, hasFailedMails, type MailWithContent } from '../mail/find-mails.ts'
import type { OrderMailKind } from '../mail/mail-kinds.ts'
import type { MailTemplates } from '../mail/mail-templates.ts'
import { eventIdOfMail, mailKindOf } from '../mail/render-mail.ts'
import { renderStoredMail } from '../mail/render-stored-mail.ts'
import { findDefect } from '../orders/event-defects.ts'
import { hasWholeHistory, type OrderEvent, toOrderEvents } from '../orders/events.ts'
import { getOrderRecords } from '../orders/order-column-sql.ts'
import type { FindUserIds } from '../orders/search-orders.ts'
import { subjectOf } from '../topic/incarnations.ts'
import { MailParams, MailQuery, MailRetrySchema, MailSchema, MailSummarySchema } from './mail-schemas.ts'

/** About a second of work; a call for all failed mails queues no more. */
const RETRIED_AT_ONCE = 10_000
const Position = Type.Tuple([
  Type.Integer({ minimum: 0, maximum: 8_640_000_000_000, description: 'Milliseconds since 1970.' }),
  Type.String({ maxLength: 60 }),
])

export interface MailRoutesOptions {
  pool: Pool
  /** The mail templates; null when this process cannot use them. */
  templates: MailTemplates | null
  findUserIds: FindUserIds
  /** Queues one failed mail again, or for null the oldest. Returns their number. */
  retryFailed: (eventId: string | null, atMost: number, auditContext: AuditContext) => Promise<number>
  /** Queues a copy of a sent mail, which is about this event. Returns the copy's id. */
  sendAgain: (eventId: string, event: OrderEvent | null, auditContext: AuditContext) => Promise<string>
}

/** The order mails of all customers, for operators: the answer to "did the mail go out?". */
export function mailRoutes(server: HttpServer, options: MailRoutesOptions): void {
  const { pool, retryFailed, sendAgain } = options
  defineList(
    server,
    'GET /admin/mails',
    {
      access: 'mails:read',
      operationId: 'listMails',
      summary: 'Order mails, newest first, in pages',
      description:
        'Filters combine with AND. Pages: follow `next_cursor` until `has_more` is false. Mails about accounts, such as a password reset, are not ' +
        'listed: the store keeps no record of them. Send the `ETag` as `If-None-Match` to poll.',
      filters: MailQuery,
      page: PageOf(MailSummarySchema),
      answer: 'A page of the mails.',
      position: Position,
    },
    (request, paging) => listMails(options, request.query, paging),
  )

  defineRoute(
    server,
    'GET /admin/mails/:event_id',
    {
      access: 'mails:read',
      operationId: 'getMail',
      summary: 'An order mail, with its subject, text and HTML',
      description:
        'A mail that is not sent yet is rendered from its stored content. The content of a sent mail is deleted, so it is rendered again from the ' +
        "order, which gives the same mail unless since then the templates, `MAIL_LOCALE` or the account's name or language have changed, or the account's " +
        'address was verified.',
      params: MailParams,
      answers: { 200: [MailSchema, 'The mail.'] },
    },
    async (request, reply) => sendPolled(request, reply, await getMail(options, request.params.event_id)),
  )

  defineRoute(
    server,
    'POST /admin/mails/:event_id/retry',
    {
      access: 'mails:send',
      operationId: 'retryMail',
      summary: 'Queues a failed mail again',
      description: 'It gets as many attempts as a new mail, and waits when its account has had its limit of mails an hour.',
      params: MailParams,
      answers: { 200: [MailSchema, 'The mail after it was queued again; it may be sent already.'] },
      refuses: ['mail_not_failed'],
    },
    async (request) => {
      const { event_id: eventId } = request.params
      const queued = await retryFailed(eventId, 1, auditContextOf(request))
      const mail = await getMail(options, eventId)
      if (queued === 0) throw new AppError('mail_not_failed', `The mail is ${mail.status}, not failed.`)
      return mail
    },
  )

  defineRoute(
    server,
    'POST /admin/mails/:event_id/send-again',
    {
      access: 'mails:send',
      operationId: 'sendMailAgain',
      summary: 'Sends a sent mail again',
      description:
        "A copy with a `Message-ID` of its own, marked in its subject, to the order's present address, in the account's present language. A mail has at most " +
        'five copies, one after the other, and they count for the limit of mails an hour. The id of a copy means the mail that it is a copy of.',
      params: MailParams,
      answers: { 200: [MailSchema, 'The copy, which is queued.'] },
      refuses: ['mail_not_sent', 'mail_not_repeatable'],
    },
    async (request) => {
      const { event_id: eventId } = request.params
      const event = await findOrderEvent(pool, originalOf(eventId))
      return getMail(options, await sendAgain(eventId, event, auditContextOf(request)))
    },
  )

  defineRoute(
    server,
    'POST /admin/mails/retry',
    {
      access: 'mails:send',
      operationId: 'retryMails',
      summary: 'Queues all failed mails again',
      description: `The oldest come first, at most ${RETRIED_AT_ONCE} in one call.`,
      answers: { 200: [MailRetrySchema, 'The number of mails that are queued again.'] },
    },
    async (request) => {
      const queued = await retryFailed(null, RETRIED_AT_ONCE, auditContextOf(request))
      return { queued, has_more: queued === RETRIED_AT_ONCE && (await hasFailedMails(pool)) }
    },
  )
}

async function listMails(
  { pool, findUserIds }: MailRoutesOptions,
  { status, order, email, undelivered, from, to }: Static<typeof MailQuery>,
  { limit, after, page }: Paging<Static<typeof Position>>,
): Promise<Page<MailSummary>> {
  const rows = await findMails(pool, {
    ...{ status, order, isUndelivered: undelivered },
    userIds: email === undefined ? undefined : await findUserIds(email),
    from: readInstant('from', from),
    to: readInstant('to', to),
    after: after && { queuedAt: new Date(after[0]), eventId: after[1] },
    limit: limit + 1,
  })
  return page(rows, presentMail, (last) => [last.queued_at.getTime(), last.event_id])
}

async function getMail({ pool, templates }: MailRoutesOptions, eventId: string): Promise<MailDetail> {
  const mail = await findMail(pool, eventId)
  if (mail === null) throw notFound('mail')
  const isForgotten = mail.content === null && mail.to !== null
  const event = isForgotten && templates !== null ? await findOrderEvent(pool, eventIdOfMail(originalOf(eventId))) : null
  return { ...presentMail(mail), rendered: templates && renderStoredMail(templates.render, mail, event) }
}

type MailSummary = Static<typeof MailSummarySchema>
type MailDetail = Static<typeof MailSchema>

function presentMail(mail: FoundMail | MailWithContent): MailSummary {
  return {
    event_id: mail.event_id,
    copy_of: isCopy(mail.event_id) ? originalOf(mail.event_id) : null,
    order_id: mail.order_id,
    order_number: mail.order_number,
    // The store stores mails of these kinds alone.
    kind: mailKindOf(mail.event_type) as OrderMailKind,
    to: mail.to,
    status: mail.status,
    attempts: mail.attempts,
    queued_at: mail.queued_at.toISOString(),
    send_after: toText(mail.send_after),
    next_attempt_at: toText(mail.next_attempt_at),
    sent_at: toText(mail.sent_at),
    failed_at: toText(mail.failed_at),
    last_error: mail.last_error,
    bounced_at: toText(mail.bounced_at),
    bounce_reason: mail.bounce_reason,
    complained_at: toText(mail.complained_at),
  }
}

function toText(time: Date | null): string | null {
  return time === null ? null : time.toISOString()
}

/** An event, made again from its order's row; null when the row is gone, or something other than the store has written it. */
async function findOrderEvent(pool: Pool, eventId: string): Promise<OrderEvent | null> {
  const [record] = await getOrderRecords(pool, [subjectOf(eventId)])
  if (record === undefined || findDefect(record) !== null || !hasWholeHistory(record)) return null
  return toOrderEvents(record).find(({ id }) => id === eventId) ?? null
}
