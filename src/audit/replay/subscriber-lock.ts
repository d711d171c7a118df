import { setTimeout as delay } from 'node:timers/promises'
import type pg from 'pg'
import { connectClient } from '../../db/pool.ts'
import { subscriberLockKey } from '../../topic/lock-session.ts'

const RETRY_MS = 200

/** An active process is on standby meanwhile, and then reads its position again. `url` is the database's. */
export async function withSubscriberLock<T>(url: string, name: string, work: (holder: pg.Client) => Promise<T>): Promise<T> {
  const lockKey = subscriberLockKey(name)
  await using client = await connectClient(url, 'storefront-replay')
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
  const ownPid = rows[0]?.pid ?? 0
  // Standby processes only try the lock. This one waits in its queue, so it is the next holder.
  let isHolder = false
  const waiting = client.query('select pg_advisory_lock(hashtextextended($1, 0))', [lockKey]).then(() => {
    isHolder = true
  })
  while (!isHolder) {
    await endHolder(url, lockKey, ownPid)
    await Promise.race([waiting, delay(RETRY_MS)])
  }
  // From here on, in-flight writes of the last holder are refused.
  await client.query('update topic_subscribers set fence = fence + 1 where name = $1', [name])
  return await work(client)
}

async function endHolder(url: string, lockKey: string, ownPid: number): Promise<void> {
  await using client = await connectClient(url, 'storefront-replay')
  await client.query(
    `select pg_terminate_backend(pid)
    from pg_locks
    where locktype = 'advisory' and granted and objsubid = 1
      and database = (select oid from pg_database where datname = current_database())
      and (classid::bigint << 32 | objid::bigint) = hashtextextended($1, 0)
      -- Excluded by pid, too: an application_name in DATABASE_URL overrides the store's.
      and pid <> $2
      and pid not in (select pid from pg_stat_activity where application_name = 'storefront-replay')`,
    [lockKey, ownPid],
  )
}
