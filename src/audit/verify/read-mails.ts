import type { Pool } from '../../db/pool.ts'
import type { Ledger } from './ledger.ts'

const PAGE_SIZE = 10_000

/** Puts every row of `email_deliveries` into the ledger. */
export async function readMails(pool: Pool, ledger: Ledger): Promise<void> {
  for (let after = ''; ; ) {
    const { rows } = await pool.query<{ event_id: string; status: string; queued_at: number }>(
      `select event_id, status, (extract(epoch from queued_at) * 1000)::bigint as queued_at
      from email_deliveries
      where event_id > $1
      order by event_id
      limit $2`,
      [after, PAGE_SIZE],
    )
    const last = rows.at(-1)
    if (last === undefined) return
    await ledger.add('mail_events', rows)
    after = last.event_id
  }
}
