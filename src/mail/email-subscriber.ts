import type { Logger } from 'pino'
import type { Pool, Transaction } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import type { Attempt, DeliveryOutcome, Taken } from '../deliveries/delivery-kind.ts'
import type { DeliveryQueue } from '../deliveries/delivery-queue.ts'
import type { DeliveryWorker } from '../deliveries/delivery-worker.ts'
import type { Tracing } from '../operations/tracing.ts'
import { isImported, type OrderEvent } from '../orders/events.ts'
import { removeLostEvents } from '../topic/incarnations.ts'
import type { MessageHandler } from '../topic/topic.ts'
import { traceField } from '../traceparent.ts'
import { findNeedlessNotices, findUnknown, insertDeliveries, MAIL_DELIVERIES, type MailToSend } from './email-deliveries.ts'
import { orderMailWork } from './mail-share.ts'
import { describeError, type Mailer, MailRefused, type OnMailTried } from './mailer.ts'
import { planSendTimes } from './plan-send-times.ts'
import { hasMail, mailsOf, type RenderMail } from './render-mail.ts'
import type { StaffMails } from './staff-mails.ts'

const MAX_ATTEMPTS = 16

export interface EmailSubscriberOptions {
  pool: Pool
  deliveries: DeliveryQueue
  /** The mailer. `stop` closes it. */
  mailer: Mailer
  render: RenderMail
  /** Makes the token for the order link in a mail. All attempts get the same token, unless an address has changed. */
  makeOrderToken: (link: OrderTokenParts) => string
  /** Waits until the orders of these events can be read. Absent if no wait is needed. */
  untilReadable?: (events: readonly OrderEvent[], signal: AbortSignal) => Promise<void>
  logger: Logger
  now: () => Date
  /** The most mails for an account in an hour. Further mails are sent later. Null for no limit. */
  maxPerHour: number | null
  maxAttempts?: number
  /** Mails the staff about new orders, if given. */
  staffMails?: Pick<StaffMails, 'noticeOrders' | 'wake'> | null
  /** Called with the outcome of each attempt. */
  onTried?: OnMailTried
  /** It is null if traces are off. */
  tracing?: Tracing | null
}

/** The values to which the token of an order link is bound. */
export interface OrderTokenParts {
  orderId: string
  email: string
  shippingAddress: MailToSend['shipping_address']
  mailedAt: Date
}

/**
 * Sends the customer a mail for each order event that has one, at least once, deduped by event id. The handler only
 * queues, so a slow mail server delays nothing else.
 */
export function createEmailSubscriber(options: EmailSubscriberOptions) {
  const {
    pool,
    deliveries,
    mailer,
    render,
    makeOrderToken,
    untilReadable,
    logger,
    now,
    maxPerHour,
    maxAttempts = MAX_ATTEMPTS,
    staffMails = null,
    onTried,
    tracing,
  } = options
  let worker: DeliveryWorker<MailToSend> | undefined

  async function deliver(mail: Taken<MailToSend>, { report: reportHealth, record }: Attempt): Promise<void> {
    const span = tracing?.start('email', mail.content.traceparent, { 'messaging.message.id': mail.event_id })
    const outcome = await send(mail, reportHealth, span?.traceparent)
    await record(outcome)
    report(mail, outcome)
    span?.end(outcome.to === 'delivered' ? null : outcome.to)
  }

  async function send(
    { event_id: eventId, address, name, language, content, attempts, ...mail }: Taken<MailToSend>,
    reportHealth: Attempt['report'],
    traceparent: string | undefined,
  ): Promise<DeliveryOutcome> {
    if (address === null) return { to: 'failed', reason: 'the account no longer exists' }
    if (attempts > maxAttempts) return { to: 'failed', reason: 'the process ended during the last try' }
    const { order_id: orderId, shipping_address: shippingAddress, queued_at: mailedAt, item_attributes } = mail
    const order_token = makeOrderToken({ orderId, email: address, shippingAddress, mailedAt })
    const withToken = { ...content, item_attributes, order_token }
    const span = tracing?.start('smtp', traceparent)
    try {
      await mailer.send({ ...render(withToken, name, language), eventId, to: { address, name }, date: new Date(content.time) })
      span?.end()
      reportHealth('well')
      return { to: 'delivered' }
    } catch (error) {
      span?.end(error)
      reportHealth(error instanceof MailRefused ? 'well' : 'failing')
      const isLast = error instanceof MailRefused || attempts === maxAttempts
      return { to: isLast ? 'failed' : 'retry', reason: describeError(error) }
    }
  }

  function report({ event_id: event, content, attempts }: Taken<MailToSend>, outcome: DeliveryOutcome): void {
    const ids = { event, ...traceField(content.traceparent) }
    if (outcome.to === 'delivered') {
      onTried?.('sent')
    } else if (outcome.to === 'failed') {
      onTried?.('failed')
      logger.warn({ ...ids, reason: outcome.reason }, 'a mail was given up')
    } else {
      onTried?.('retried')
      logger.info({ ...ids, attempt: attempts, reason: outcome.reason }, 'a mail did not go out and is retried')
    }
  }

  const handle: MessageHandler = async (messages, signal, fence) => {
    const events = (await removeLostEvents(pool, messages)).map((message) => message.event)
    const mailable = events.filter((event) => hasMail(event) && !isImported(event))
    if (mailable.length === 0) return
    await untilReadable?.(mailable, signal)
    const { receivers, hasNotices } = await inTransaction(pool, async (tx) => {
      await fence?.check(tx)
      const fresh = await findFresh(tx, mailable)
      return { receivers: await queueMails(tx, fresh, maxPerHour, now()), hasNotices: (await staffMails?.noticeOrders(tx, fresh)) === true }
    })
    worker?.wake(receivers)
    if (hasNotices) staffMails?.wake()
  }

  return {
    handle,
    async start(): Promise<void> {
      worker ??= deliveries.work<MailToSend>(
        MAIL_DELIVERIES,
        { ...orderMailWork(mailer.connections), breakOff: () => mailer.close() },
        deliver,
      )
    },
    /** Ends an outage of the mail server that lasted `outageMs`. */
    endPauses(outageMs: number): void {
      worker?.endPauses(outageMs)
    },
    /** Waits at most five seconds for mails in flight, and closes the mailer. Idempotent, safe before start. */
    async stop(): Promise<void> {
      await worker?.stop()
      await mailer.close()
    },
  }
}

/** The events that have no mail yet, each once. */
async function findFresh(tx: Transaction, events: readonly OrderEvent[]): Promise<OrderEvent[]> {
  const unknown = await findUnknown(tx, [...new Set(events.map((event) => event.id))])
  return [...new Map(events.map((event) => [event.id, event])).values()].filter((event) => unknown.has(event.id))
}

/** Queues the mails of events. Returns their receivers. */
async function queueMails(tx: Transaction, fresh: readonly OrderEvent[], limit: number | null, now: Date): Promise<string[]> {
  if (fresh.length === 0) return []
  const contents = fresh.flatMap((event) => mailsOf(event).map((content) => ({ content, orderId: event.data.order.id })))
  const userIds = contents.map(({ content }) => content.user_id)
  const times = await planSendTimes(tx, userIds, limit, now)
  const mails = contents.map(({ content, orderId }, index) => ({
    orderId,
    eventType: `storefront.order.${content.kind}`,
    content,
    sendAfter: times[index] ?? now,
  }))
  const needless = await findNeedlessNotices(tx, mails)
  return insertDeliveries(
    tx,
    mails.filter(({ content }) => !needless.has(content.event_id)),
    now,
  )
}
