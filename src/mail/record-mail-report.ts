import type { Queryable } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { describeError } from './mailer.ts'

export interface MailReport {
  /** `mail.complained`: the customer has got it, and called it spam. */
  type: 'mail.bounced' | 'mail.complained'
  /** The `Message-ID` of the mail, or its `X-Storefront-Event`, where the provider gives it another `Message-ID`. */
  messageId: string
  /** Why the mail came back, in the words of the provider. */
  reason: string
}

/** Records a report; of several of a type the first counts. Returns whether the mail is one about an order. */
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
