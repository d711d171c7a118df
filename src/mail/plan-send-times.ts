import type { Transaction } from '../db/pool.ts'

const HOUR_MS = 3_600_000

/**
 * When each of these new mails may go out, in their order: now, or later if their account has `limit` of them an hour
 * already. Null for no limit. Locks nothing: two plans at the same moment do not see each other.
 */
export async function planSendTimes(tx: Transaction, userIds: readonly string[], limit: number | null, now: Date): Promise<Date[]> {
  if (limit === null) return userIds.map(() => now)
  const taken = await listSendTimes(tx, [...new Set(userIds)], new Date(now.getTime() - HOUR_MS), limit)
  return userIds.map((userId) => {
    const times = taken.get(userId) ?? []
    const sendAt = nextSendTime(times, limit, now.getTime())
    taken.set(userId, [...times, sendAt].slice(-limit))
    return new Date(sendAt)
  })
}

/** The send times after `since` of each account's newest mails, oldest first, at most `limit` each. */
async function listSendTimes(tx: Transaction, userIds: readonly string[], since: Date, limit: number): Promise<Map<string, number[]>> {
  const { rows } = await tx.query<{ user_id: string; times: Date[] }>(
    `select account.user_id, array_agg(mail.send_after order by mail.send_after) as times
     from unnest($1::uuid[]) as account (user_id)
     cross join lateral (
       select send_after
       from email_deliveries
       where user_id = account.user_id and send_after > $2
       order by send_after desc
       limit $3
     ) as mail
     group by account.user_id`,
    [userIds, since, limit],
  )
  return new Map(rows.map(({ user_id, times }) => [user_id, times.map((time) => time.getTime())]))
}

/**
 * When an account's next mail may go out: so late that no hour holds more than `limit` of them. Pure. `times` are those
 * of its mails within the last hour and later, oldest first, in milliseconds; the result belongs behind them.
 */
export function nextSendTime(times: readonly number[], limit: number, now: number): number {
  const nth = times.at(-limit)
  return nth === undefined ? now : Math.max(now, nth + HOUR_MS)
}
