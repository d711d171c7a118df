import { randomUUIDv7 } from 'node:crypto'
import type { Logger } from 'pino'
import type { Encryption, Reencrypt } from '../auth/store-secret.ts'
import type { Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import {
  type Attempt,
  type DeliveryKind,
  type DeliveryOutcome,
  NO_RECEIVER,
  type Taken,
  waitForSecret,
} from '../deliveries/delivery-kind.ts'
import type { DeliveryQueue } from '../deliveries/delivery-queue.ts'
import type { DeliveryWorker } from '../deliveries/delivery-worker.ts'
import type { Language } from '../language.ts'
import { ACCOUNT_MAIL_KINDS, type AccountMailKind, isStaffMailKind } from './mail-kinds.ts'
import type { MailLanguages } from './mail-languages.ts'
import { accountMailWork, receiverOfAddress, receiverOfStaff } from './mail-share.ts'
import { describeError, type Mailer, MailRefused, type OnMailTried } from './mailer.ts'
import type { StaffNotices } from './staff-notices.ts'
import type { MailGroup, RenderedMail, TemplateReader } from './templates.ts'
import { viewNotices } from './view-notices.ts'

/**
 * The queue of account mails. They contain tokens, so their rows are deleted after delivery. People wait for them, so
 * the pauses between attempts stay short.
 */
export const ACCOUNT_MAILS: DeliveryKind = {
  name: 'account-mail',
  table: sql`account_mails`,
  key: ['mail_id'],
  receiver: { column: sql`receiver`, type: 'text' },
  columns: ['encrypted', 'expires_at'],
  firstPauseSeconds: 2,
  longestPauseSeconds: 60,
  isKept: false,
}

export const ACCOUNT_MAIL_GROUP: MailGroup = {
  folder: 'account/',
  kinds: ACCOUNT_MAIL_KINDS,
  values: [
    ...['token', 'link', 'language', 'console', 'role', 'inviter'],
    ...['notices', 'title', 'detail', 'url', 'first', 'others', 'more_items'],
  ],
}
/**
 * The beginning of the link's fragment for mails where it differs from the kind. It tells the shop's page what to do
 * with the token.
 */
const ACTIONS: Partial<Record<AccountMailKind, string>> = { email_change_requested: 'revert-email', email_changed: 'revert-email' }

export interface AccountMailValues {
  /** The mail's one-time token. */
  token?: string
  /** Whether the link leads to the console's page instead of the shop's. */
  isForConsole?: boolean
  role?: string
  /** The address of the operator who sent the invitation. Null if it was not an operator. */
  inviter?: string | null
  /** The entries of a staff mail. */
  notices?: StaffNotices
}

export interface AccountMailContent extends AccountMailValues {
  kind: AccountMailKind | 'none'
  to?: string
  /** The language of the mail. Null for the store's language. */
  language?: Language | null
  expiresAt: Date
}

interface QueuedMail {
  mail_id: string
  encrypted: string
  /** The mail is not sent after this time. */
  expires_at: Date
}

/** Queues an account mail, which is sent if `tx` commits. */
export async function queueAccountMail(tx: Transaction, encryption: Encryption, mail: AccountMailContent): Promise<void> {
  const { expiresAt, ...content } = mail
  const encrypted = await encryption.encrypt(tx, JSON.stringify(content))
  const receiverOf = isStaffMailKind(mail.kind) ? receiverOfStaff : receiverOfAddress
  const receiver = mail.to === undefined ? NO_RECEIVER : receiverOf(mail.to)
  await tx.query(
    sql`insert into account_mails (mail_id, encrypted, expires_at, receiver) values (${randomUUIDv7()}, ${encrypted}, ${expiresAt}, ${receiver})`,
  )
}

/** The expiry time of the oldest queued mail to each receiver. Receivers without a queued mail are missing. */
export async function findWaiting(tx: Transaction, receivers: readonly string[], now: Date): Promise<Map<string, Date>> {
  const { rows } = await tx.query<{ receiver: string; expires_at: Date }>(
    sql`select receiver, min(expires_at) as expires_at
    from account_mails
    where receiver = any(${receivers}::text[]) and expires_at > ${now}
    group by receiver`,
  )
  return new Map(rows.map(({ receiver, expires_at }) => [receiver, expires_at]))
}

/**
 * Encrypts queued mails with the new secret. Returns their number, and the number of undecryptable mails, which stay.
 */
export async function reencryptQueuedMails(tx: Transaction, reencrypt: Reencrypt): Promise<{ reencrypted: number; undecryptable: number }> {
  const { rows } = await tx.query<Pick<QueuedMail, 'mail_id' | 'encrypted'>>(
    sql`select mail_id, encrypted from account_mails order by mail_id for update`,
  )
  const changed = rows.flatMap(({ mail_id, encrypted }) => {
    const fresh = reencrypt(encrypted)
    return fresh === null ? [] : [{ mail_id, encrypted: fresh }]
  })
  await tx.query(
    sql`update account_mails as mail
    set encrypted = fresh.encrypted
    from json_populate_recordset(null::account_mails, ${JSON.stringify(changed)}) as fresh
    where mail.mail_id = fresh.mail_id`,
  )
  return { reencrypted: changed.length, undecryptable: rows.length - changed.length }
}

/**
 * When a mail with this id (a UUID of version 7, RFC 9562) was queued. Providers expect each attempt with an id to be
 * the same mail.
 */
function queuedAt(id: string): Date {
  return new Date(Number.parseInt(id.replace('-', '').slice(0, 12), 16))
}

export interface AccountMailWorkerOptions {
  deliveries: DeliveryQueue
  /** The mailer. The caller closes it after this worker has stopped. */
  mailer: Mailer
  encryption: Encryption
  render: RenderAccountMail
  logger: Logger
  now: () => Date
  /** Called with the outcome of each attempt. */
  onTried?: (kind: 'account' | 'staff', ...outcome: Parameters<OnMailTried>) => void
}

/** Sends account mails at least once, until they are accepted or expire. */
export function createAccountMailWorker(options: AccountMailWorkerOptions) {
  const { deliveries, mailer, encryption, render, logger, now, onTried } = options
  let worker: DeliveryWorker<QueuedMail> | undefined

  async function deliver(row: Taken<QueuedMail>, { report, record }: Attempt): Promise<void> {
    await record(await send(row, report))
  }

  async function send({ mail_id: id, encrypted, expires_at }: QueuedMail, reportHealth: Attempt['report']): Promise<DeliveryOutcome> {
    const text = encryption.decrypt(encrypted)
    const content: AccountMailContent | null = text === null ? null : JSON.parse(text)
    const about = content !== null && isStaffMailKind(content.kind) ? 'staff' : 'account'
    // A staff address is a setting that an operator has to correct.
    const logged = { mail: id, kind: content?.kind, ...(about === 'staff' ? { address: content?.to } : {}) }
    if (expires_at <= now()) {
      logger.warn(logged, 'an account mail expired before it went out')
      onTried?.(about, 'failed')
      return { to: 'failed', reason: 'expired' }
    }
    if (content === null) {
      logger.warn({ mail: id }, "an account mail cannot be decrypted and waits: this process does not have the store's STOREFRONT_SECRET")
      return waitForSecret('not decrypted')
    }
    const { kind, to = '', language = null, ...values } = content
    if (kind === 'none') return { to: 'delivered' }
    try {
      await mailer.send({
        ...render(kind, values, language),
        eventId: id,
        to: { address: to, name: null },
        date: queuedAt(id),
        about,
      })
      reportHealth('well')
      onTried?.(about, 'sent')
      return { to: 'delivered' }
    } catch (error) {
      const isRefused = error instanceof MailRefused
      const reason = describeError(error)
      reportHealth(isRefused ? 'well' : 'failing')
      logger.warn({ ...logged, reason }, isRefused ? 'an account mail was refused' : 'an account mail could not be sent and is retried')
      onTried?.(about, isRefused ? 'failed' : 'retried')
      return { to: isRefused ? 'failed' : 'retry', reason }
    }
  }

  return {
    async start(): Promise<void> {
      worker ??= deliveries.work<QueuedMail>(ACCOUNT_MAILS, accountMailWork(mailer.connections), deliver)
    },
    /** Ends an outage of the mail server that lasted `outageMs`. */
    endPauses(outageMs: number): void {
      worker?.endPauses(outageMs)
    },
    /** Idempotent, safe before start. */
    async stop(): Promise<void> {
      await worker?.stop()
    },
  }
}

/**
 * Renders an account mail. Without a language it uses the store's. `locale` replaces the usual amount format of the
 * language.
 */
export type RenderAccountMail = (
  kind: AccountMailKind,
  values: AccountMailValues,
  language?: Language | null,
  locale?: string,
) => RenderedMail

/** The pages to which account mails link. */
export interface AccountMailPages {
  /** The shop's page for one-time tokens. Null if the mail shows the token itself. */
  accountUrl: string | null
  /** The page for operators, which accepts their tokens. */
  consoleUrl: string
}

/** Reads the templates of all languages once, and returns the renderer. */
export function createAccountMailRenderer(
  { accountUrl, consoleUrl }: AccountMailPages,
  templates: TemplateReader,
  { defaultLanguage, localeOf }: MailLanguages,
): RenderAccountMail {
  const render = templates.read(ACCOUNT_MAIL_GROUP)

  return (kind, { token = '', isForConsole = false, role = '', inviter = null, notices }, chosen, chosenLocale) => {
    const language = chosen ?? defaultLanguage
    const page = isForConsole ? consoleUrl : accountUrl
    // Browsers send the fragment neither to a server nor as a referrer, so the token stays secret.
    const link = page === null || token === '' ? null : `${page}#${ACTIONS[kind] ?? kind.replaceAll('_', '-')}=${token}`
    const account = { token, link, language, console: consoleUrl, role, inviter }
    if (notices === undefined || !isStaffMailKind(kind)) return render(kind, language, account)
    return render(kind, language, {
      ...account,
      ...viewNotices(kind, notices, { consoleUrl, language, locale: chosenLocale ?? localeOf(language) }),
    })
  }
}
