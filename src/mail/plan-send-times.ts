import type { Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'

const HOUR_MS = 3_600_000

/**
 * Plans when each of these new mails may be sent, in their order: now, or later if the account has reached `limit` in
 * the hour. `limit` is null for no limit. It takes no lock, so concurrent plans do not see each other.
 */
export async function planSendTimes(tx: Transaction, userIds: readonly string[], limit: number | null, now: Date): Promise<Date[]> {
  if (limit === null) return userIds.map(() => now)
  const mailboxes = await findMailboxes(tx, [...new Set(userIds)])
  const taken = await listSendTimes(tx, mailboxes, new Date(now.getTime() - HOUR_MS), limit)
  return userIds.map((userId) => {
    const mailbox = mailboxes.get(userId)?.key ?? userId
    const times = taken.get(mailbox) ?? []
    const sendAt = nextSendTime(times, limit, now.getTime())
    taken.set(mailbox, [...times, sendAt].slice(-limit))
    return new Date(sendAt)
  })
}

/**
 * An account, or all guests with one address. A stranger can create many such guests, and their mails go to one
 * mailbox.
 */
interface Mailbox {
  key: string
  user_ids: string[]
}

// Older guests are counted separately, so a plan reads a limited number of rows.
const GUESTS_OF_MAILBOX = 1_000

async function findMailboxes(tx: Transaction, userIds: readonly string[]): Promise<Map<string, Mailbox>> {
  const { rows } = await tx.query<{ user_id: string; guest_ids: string[] | null }>(
    sql`select asked.user_id, guests.ids as guest_ids
    from unnest(${userIds}::uuid[]) as asked (user_id)
    left join users as buyer on buyer.id = asked.user_id and buyer.role = 'guest'
    left join lateral (
      select array_agg(id) as ids
      from (
        select id from users where email = buyer.email and role = 'guest' order by created_at desc, id limit ${GUESTS_OF_MAILBOX}
      ) as newest
    ) as guests on true`,
  )
  const toMailbox = ({ user_id, guest_ids }: (typeof rows)[number]): Mailbox =>
    guest_ids?.includes(user_id) ? { key: guest_ids[0] ?? user_id, user_ids: guest_ids } : { key: user_id, user_ids: [user_id] }
  return new Map(rows.map((row) => [row.user_id, toMailbox(row)]))
}

/** The send times after `since` of each mailbox's newest mails, the oldest first, at most `limit` for each. */
async function listSendTimes(
  tx: Transaction,
  mailboxes: ReadonlyMap<string, Mailbox>,
  since: Date,
  limit: number,
): Promise<Map<string, number[]>> {
  const unique = [...new Map([...mailboxes.values()].map((mailbox) => [mailbox.key, mailbox])).values()]
  const { rows } = await tx.query<{ key: string; times: Date[] }>(
    sql`select mailbox.key, array_agg(mail.send_after order by mail.send_after) as times
    from json_to_recordset(${JSON.stringify(unique)}::json) as mailbox (key text, user_ids uuid[])
    cross join lateral (
      select newest.send_after
      from unnest(mailbox.user_ids) as buyer (user_id)
      cross join lateral (
        select send_after
        from email_deliveries
        where user_id = buyer.user_id and send_after > ${since}
        order by send_after desc
        limit ${limit}
      ) as newest
      order by newest.send_after desc
      limit ${limit}
    ) as mail
    group by mailbox.key`,
  )
  return new Map(rows.map(({ key, times }) => [key, times.map((time) => time.getTime())]))
}

/**
 * The earliest time for an account's next mail, so no hour has more than `limit`. Pure. `times` are its mails' times in
 * the last hour and later, the oldest first, in milliseconds. The result belongs after them.
 */
export function nextSendTime(times: readonly number[], limit: number, now: number): number {
  const nth = times.at(-limit)
  return nth === undefined ? now : Math.max(now, nth + HOUR_MS)
}
