import { auditContextOfCommand } from '../activity/record-activity.ts'
import { type DeliveryFilter, listDeliveries, retryFailed } from '../mail/email-deliveries.ts'
import type { Contexts } from './command.ts'
import { printRows } from './format-table.ts'

/** Lists mails, to answer whether a mail was sent. */
export async function list({ pool, terminal }: Contexts['database'], filter: DeliveryFilter, json: boolean): Promise<number> {
  const mails = await listDeliveries(pool, filter)
  const columns = ['event_id', 'order', 'event', 'status', 'attempts', 'queued_at', 'not_before', 'sent_at', 'last_error']
  const rows = mails.map((mail) => [
    mail.event_id,
    mail.order_number,
    mail.event_type.slice(mail.event_type.lastIndexOf('.') + 1),
    mail.status,
    mail.attempts,
    mail.queued_at.toISOString(),
    mail.status === 'queued' && mail.send_after !== null ? mail.send_after.toISOString() : null,
    mail.sent_at?.toISOString() ?? null,
    mail.last_error,
  ])
  return printRows(terminal, { columns, rows }, json)
}

/**
 * Queues a failed mail again; `eventId` null means all failed mails. The exit status is 1 if the given mail has not
 * failed.
 */
export async function retry({ pool, config, terminal }: Contexts['database'], eventId: string | null): Promise<number> {
  const auditContext = auditContextOfCommand('mail retry')
  const queued = await retryFailed(pool, { eventId, maxPerHour: config.mailMaxPerHour, now: new Date(), auditContext })
  if (queued > 0 || eventId === null) {
    terminal.out(`${queued} ${queued === 1 ? 'mail is' : 'mails are'} queued again`)
    return 0
  }
  const [mail] = await listDeliveries(pool, { eventId, limit: 1 })
  terminal.err(
    mail === undefined
      ? `there is no mail of the event ${eventId}; storefront mail list shows them`
      : `the mail of ${eventId} is ${mail.status}, not failed`,
  )
  return 1
}
