import { type Command, type Terminal, withDatabase, withJobs } from './commands.ts'
import type { Config } from './config.ts'
import { formatTable } from './format-table.ts'
import { type DeliveryFilter, listDeliveries, retryFailed } from './pipeline/email/email-deliveries.ts'

/** Prints order mails, the newest first: the answer to "did the mail go out?". */
export function mailListCommand(config: Config, terminal: Terminal, filter: DeliveryFilter): Command {
  return withDatabase(config, terminal, async (pool) => {
    const mails = await listDeliveries(pool, filter)
    const columns = ['event_id', 'order', 'event', 'status', 'attempts', 'queued_at', 'not_before', 'sent_at', 'last_error']
    const rows = mails.map((mail) => [
      mail.event_id,
      mail.order_number,
      mail.event_type.slice(mail.event_type.lastIndexOf('.') + 1),
      mail.status,
      mail.attempts,
      mail.queued_at.toISOString(),
      mail.status === 'queued' && mail.send_after !== null ? mail.send_after.toISOString() : '',
      mail.sent_at?.toISOString() ?? '',
      mail.last_error ?? '',
    ])
    terminal.out(formatTable({ columns, rows }))
    return 0
  })
}

/** Queues a mail again that was given up, or all of them for null. Status 1 when the one that was asked for is not among them. */
export function mailRetryCommand(config: Config, terminal: Terminal, eventId: string | null): Command {
  return withDatabase(config, terminal, async (pool, { api: url }) => {
    const options = { eventId, maxPerHour: config.mailMaxPerHour, now: new Date() }
    const queued = await withJobs(url, terminal, (jobs) => retryFailed(pool, jobs, options))
    if (queued > 0 || eventId === null) {
      terminal.out(`${queued} ${queued === 1 ? 'mail is' : 'mails are'} tried again`)
      return 0
    }
    const [mail] = await listDeliveries(pool, { eventId, limit: 1 })
    terminal.err(mail === undefined ? `there is no mail of the event ${eventId}` : `the mail of ${eventId} is ${mail.status}, not failed`)
    return 1
  })
}
