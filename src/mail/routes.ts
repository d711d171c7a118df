import { type Static, Type } from 'typebox'
import { auditContextOf } from '../activity/record-activity.ts'
import type { Pool } from '../db/pool.ts'
import { AppError, notFound } from '../errors.ts'
import { defineList, defineRoute, sendPolled } from '../http/define-route.ts'
import type { HttpServer } from '../http/http-server.ts'
import { type Page, PageOf, type Paging, readInstant } from '../http/pagination.ts'
import type { OrderEvent } from '../orders/events.ts'
import type { FindUserIds } from '../orders/search-orders.ts'
import { isCopy, originalOf } from './copy-id.ts'
import { retryFailed } from './email-deliveries.ts'
import { type FoundMail, findMail, findMails, hasFailedMails, type MailWithContent } from './find-mails.ts'
import type { OrderMailKind } from './mail-kinds.ts'
import { MailParams, MailQuery, MailRetrySchema, MailSchema, MailSummarySchema } from './mail-schemas.ts'
import { mailTemplateRoutes } from './mail-template-routes.ts'
import type { MailTemplates } from './mail-templates.ts'
import { eventIdOfMail, mailKindOf } from './render-mail.ts'
import { renderStoredMail } from './render-stored-mail.ts'
import { sendAgain } from './send-again.ts'

/** The most mails that a call for all failed mails queues. This takes about a second. */
const RETRIED_AT_ONCE = 10_000
const Position = Type.Tuple([
  Type.Integer({ minimum: 0, maximum: 8_640_000_000_000, description: 'Milliseconds since 1970.' }),
  Type.String({ maxLength: 60 }),
])

export interface MailRoutesOptions {
  pool: Pool
  /** It is null if this process cannot use the templates. */
  templates: MailTemplates | null
  findUserIds: FindUserIds
  /** Rebuilds an event from the row of its order. Null if the row was deleted or another program wrote it. */
  findOrderEvent: (eventId: string) => Promise<OrderEvent | null>
  /** The hourly limit of mails for each account. Repeated mails count too. */
  maxPerHour: number | null
  now: () => Date
}

/** Registers the operators' routes for order mails, which show whether a mail was sent, and for mail templates. */
export function mailRoutes(server: HttpServer, options: MailRoutesOptions): void {
  const { pool, findOrderEvent, maxPerHour, now } = options
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
        "order. The result is the same mail, unless the templates, `MAIL_LOCALE` or the account's name or language have changed since, or the account's " +
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
      description: 'The mail gets as many attempts as a new one. It waits if its account has reached the hourly limit of mails.',
      params: MailParams,
      answers: { 200: [MailSchema, 'The mail after it was queued again. It may have been sent already.'] },
      refuses: ['mail_not_failed'],
    },
    async (request) => {
      const { event_id: eventId } = request.params
      const queued = await retryFailed(pool, { eventId, maxPerHour, now: now(), atMost: 1, auditContext: auditContextOf(request) })
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
        "Sends a copy to the order's current address, in the account's current language. The copy has its own `Message-ID` and is marked in its subject. A mail can have " +
        'five copies, one after the other, which count towards the hourly limit of mails. If `event_id` is the id of a copy, the original mail is sent again.',
      params: MailParams,
      answers: { 200: [MailSchema, 'The copy, which is queued.'] },
      refuses: ['mail_not_sent', 'mail_not_repeatable'],
    },
    async (request) => {
      const { event_id: eventId } = request.params
      const event = await findOrderEvent(originalOf(eventId))
      return getMail(options, await sendAgain(pool, { eventId, event, maxPerHour, now: now(), auditContext: auditContextOf(request) }))
    },
  )

  defineRoute(
    server,
    'POST /admin/mails/retry',
    {
      access: 'mails:send',
      operationId: 'retryMails',
      summary: 'Queues all failed mails again',
      description: `The oldest mails come first. One call queues at most ${RETRIED_AT_ONCE} mails.`,
      answers: { 200: [MailRetrySchema, 'The number of mails that are queued again.'] },
    },
    async (request) => {
      const queued = await retryFailed(pool, {
        ...{ eventId: null, maxPerHour, now: now(), atMost: RETRIED_AT_ONCE },
        auditContext: auditContextOf(request),
      })
      return { queued, has_more: queued === RETRIED_AT_ONCE && (await hasFailedMails(pool)) }
    },
  )
  mailTemplateRoutes(server, options)
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

async function getMail({ pool, templates, findOrderEvent }: MailRoutesOptions, eventId: string): Promise<MailDetail> {
  const mail = await findMail(pool, eventId)
  if (mail === null) throw notFound('mail')
  const isForgotten = mail.content === null && mail.to !== null
  const event = isForgotten && templates !== null ? await findOrderEvent(eventIdOfMail(originalOf(eventId))) : null
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
    // The store never stores other kinds.
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
