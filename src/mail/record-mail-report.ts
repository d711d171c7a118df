import type { Queryable } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { describeError } from './mailer.ts'

export interface MailReport {
  /** `mail.complained` means that the customer received the mail and reported it as spam. */
  type: 'mail.bounced' | 'mail.complained'
  /** The `Message-ID` of the mail. If the provider replaces that, its `X-Storefront-Event`. */
  messageId: string
  /** Why the mail bounced, in the words of the provider. */
  reason: string
}

/** Records a report. Only the first report of each type counts. Returns whether the mail is an order mail. */
export async function recordMailReport(db: Queryable, { type, messageId, reason }: MailReport): Promise<boolean> {
  const [, eventId = null] = /^<?([^<>@\s]+)(?:@[^<>@\s]+)?>?$/.exec(messageId.trim()) ?? []
  const { rowCount } = await db.query(
    type === 'mail.complained'
      ? sql`update email_deliveries set complained_at = coalesce(complained_at, now()) where event_id = ${eventId}`
      : sql`update email_deliveries
        set bounced_at = coalesce(bounced_at, now()), bounce_reason = coalesce(bounce_reason, ${describeError(reason)})
        where event_id = ${eventId}`,
  )
  return rowCount !== 0
}
