import type { Queryable } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { describeError } from './mailer.ts'

export interface Bounce {
  /** The `Message-ID` of the mail, or its `X-Storefront-Event`, where the provider gives it another `Message-ID`. */
  messageId: string
  /** Why the mail came back, in the words of the provider. */
  reason: string
}

/** Records that a sent mail came back. The first report counts. Ignores mails that are none about an order. */
export async function recordBounce(db: Queryable, { messageId, reason }: Bounce): Promise<void> {
  const [, eventId = null] = /^<?([^<>@\s]+)(?:@[^<>@\s]+)?>?$/.exec(messageId.trim()) ?? []
  await db.query(
    sql`update email_deliveries
    set bounced_at = now(), bounce_reason = ${describeError(reason)}
    where event_id = ${eventId} and bounced_at is null`,
  )
}
