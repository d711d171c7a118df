import { createHash } from 'node:crypto'
import type { SendMailOptions } from 'nodemailer'

/** A mail about one event. */
export interface Mail {
  eventId: string
  to: { address: string; name: string | null }
  subject: string
  text: string
  html: string
  /** When the change was made that the mail tells of. */
  date: Date
  /** `orders` unless said otherwise. */
  about?: 'orders' | 'account'
}

/** Hands mails over for delivery. */
export interface Mailer {
  /**
   * Returns when the mail was taken over for good. Throws MailRefused when it never will be; after any other error the
   * same mail may be sent again, and carries the same Message-ID then.
   */
  send(mail: Mail): Promise<void>
  /** Idempotent. Gives up what is still being sent. */
  close(): Promise<void>
}

/** The receiving side said that this mail will never be taken. The message names no address. */
export class MailRefused extends Error {
  override readonly name = 'MailRefused'
}

export type OnMailTried = (outcome: 'sent' | 'retried' | 'failed') => void

const ADDRESS = /[^\s<>"'(),;:]+@[^\s<>"'(),;:]+/g
const REASON_MAX_LENGTH = 300

/** What went wrong, short and without e-mail addresses, for the database and the log. */
export function describeError(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  return oneLine(text.replace(ADDRESS, '(address)')).slice(0, REASON_MAX_LENGTH)
}

/** Text that others wrote, without what could begin a new line, and so a header, or steer a terminal. */
export function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ').trim()
}

/** The host of an address such as `Store <no-reply@store.example>`. Throws when there is none. */
export function hostOf(from: string): string {
  const host = /@([A-Za-z0-9.-]+)>?\s*$/.exec(from)?.[1]
  if (host === undefined) throw new Error('MAIL_FROM must be an e-mail address, such as Store <no-reply@store.example>')
  return host
}

/** The message of a mail, RFC 5322, sent `from`. The same mail gives the same bytes each time. */
export function toMessage(mail: Mail, from: string): SendMailOptions {
  const host = hostOf(from)
  return {
    from,
    to: { name: oneLine(mail.to.name ?? ''), address: mail.to.address },
    subject: mail.subject,
    text: mail.text,
    html: mail.html,
    date: mail.date,
    messageId: `<${mail.eventId}@${host}>`,
    headers: {
      // RFC 3834: no out-of-office answers, please. RFC 2919: what filters sort by.
      'Auto-Submitted': 'auto-generated',
      'List-Id': mail.about === 'account' ? `Your account <account.${host}>` : `Your orders <orders.${host}>`,
      'X-Storefront-Event': mail.eventId,
    },
    baseBoundary: createHash('sha256').update(mail.eventId).digest('hex').slice(0, 24),
    disableFileAccess: true,
    disableUrlAccess: true,
  }
}
