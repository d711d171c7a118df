import { createHash } from 'node:crypto'
import type { SendMailOptions } from 'nodemailer'

export interface Mail {
  eventId: string
  to: { address: string; name: string | null }
  subject: string
  text: string
  html: string
  /** The time of the change that the mail reports. */
  date: Date
  /** `orders` by default. */
  about?: 'orders' | 'account' | 'staff'
}

export interface Mailer {
  /** The number of mails that it sends at once. Further mails wait. */
  readonly connections: number
  /**
   * Returns when the receiving side has accepted the mail. Throws MailRefused if it will never accept it. After any
   * other error, the same mail may be sent again with the same Message-ID.
   */
  send(mail: Mail): Promise<void>
  /** Aborts mails in flight. Idempotent. */
  close(): Promise<void>
}

/** The receiving side will never accept this mail. The error's message contains no address. */
export class MailRefused extends Error {
  override readonly name = 'MailRefused'
}

export type OnMailTried = (outcome: 'sent' | 'retried' | 'failed') => void

/** A mail address. The part before the @ may be quoted (RFC 5321). */
const ADDRESS = /(?:"(?:[^"\\]|\\.)*"|[^\s<>"(),;:@]+)@[^\s<>"(),;:]+/g
/** The token at the end of an order link. */
const ORDER_TOKEN = /#[\w-]{64}/g
const EXAMINED_LENGTH = 2_000
const REASON_MAX_LENGTH = 300

/** The reason of an error for the database and the log. It is short, without mail addresses and order tokens. */
export function describeError(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  const examined = text.slice(0, EXAMINED_LENGTH).replace(ORDER_TOKEN, '#(token)')
  return oneLine(examined.replace(ADDRESS, '(address)')).slice(0, REASON_MAX_LENGTH)
}

/** These characters would reorder the rest of a line, for example an amount. Right-to-left scripts do not need them. */
const BIDI_CONTROLS = /[\u202a-\u202e\u2066-\u2069]/g

/** Foreign text without line breaks and control characters, which could start a header or control a terminal. */
export function oneLine(text: string): string {
  return text
    .replace(BIDI_CONTROLS, '')
    .replace(/[\p{Cc}\u2028\u2029]+/gu, ' ')
    .trim()
}

/** The host of an address such as `Store <no-reply@store.example>`. Throws if the address has none. */
export function hostOf(from: string): string {
  const host = /@([A-Za-z0-9.-]+)>?\s*$/.exec(from)?.[1]
  if (host === undefined) throw new Error('MAIL_FROM must be an e-mail address, such as Store <no-reply@store.example>')
  return host
}

const LIST_NAMES = { orders: 'Your orders', account: 'Your account', staff: 'For the staff' }

export interface Sender {
  from: string
  /** The address for answers. Null if answers go to `from`. */
  replyTo?: string | null
  /** The header by which the provider recognizes a repeated mail. Null for none. */
  idempotencyHeader?: string | null
}

/** Builds the RFC 5322 message of a mail. The same mail always gives the same bytes. */
export function toMessage(mail: Mail, { from, replyTo = null, idempotencyHeader = null }: Sender): SendMailOptions {
  const host = hostOf(from)
  const { about = 'orders' } = mail
  return {
    from,
    ...(replyTo === null ? {} : { replyTo }),
    to: { name: oneLine(mail.to.name ?? ''), address: mail.to.address },
    subject: mail.subject,
    text: mail.text,
    html: mail.html,
    date: mail.date,
    messageId: `<${mail.eventId}@${host}>`,
    headers: {
      // RFC 3834 prevents automatic replies, and RFC 2919 helps mail filters.
      'Auto-Submitted': 'auto-generated',
      'List-Id': `${LIST_NAMES[about]} <${about}.${host}>`,
      'X-Storefront-Event': mail.eventId,
      ...(idempotencyHeader === null ? {} : { [idempotencyHeader]: mail.eventId }),
    },
    baseBoundary: createHash('sha256').update(mail.eventId).digest('hex').slice(0, 24),
    disableFileAccess: true,
    disableUrlAccess: true,
  }
}
