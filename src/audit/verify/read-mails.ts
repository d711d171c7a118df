import type { Pool } from '../../db/pool.ts'
import { countOf, type OnStep } from '../on-step.ts'
import type { ComparisonTables } from './comparison-tables.ts'
import type { IdRange } from './id-range.ts'

const PAGE_SIZE = 5_000

/** Copies the mail of each event, or of those in a range, into `mail_events`. */
export async function readMails(pool: Pool, tables: ComparisonTables, range: IdRange, onStep: OnStep = () => {}): Promise<void> {
  let mails = 0
  for (let after = range.from; ; ) {
    const { rows } = await pool.query<{ event_id: string; status: string; queued_at: number }>(
      `select event_id, status, (extract(epoch from queued_at) * 1000)::bigint as queued_at
      from email_deliveries
      where event_id > $1 and event_id < $2
        -- A mail that was sent again, see mail/copy-id.ts, and a notice, which is inserted with its event's mail.
        and event_id not like '%.copy_' and event_type <> 'storefront.order.readdressed'
      order by event_id
      limit $3`,
      [after, range.below, PAGE_SIZE],
    )
    const last = rows.at(-1)
    if (last === undefined) return
    await tables.add('mail_events', rows)
    mails += rows.length
    onStep(`read ${countOf(mails)} mails`)
    after = last.event_id
  }
}
