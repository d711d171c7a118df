import { setTimeout as delay } from 'node:timers/promises'
import type pg from 'pg'
import { connectClient } from '../../db/pool.ts'

const RETRY_MS = 200

/**
 * Runs `work` while no process is the active one of the subscriber. One that is loses its connection, stands by, and asks for its
 * position again afterwards. `url` is the database's.
 */
export async function withSubscriberLock<T>(url: string, name: string, work: (holder: pg.Client) => Promise<T>): Promise<T> {
  const lock = `storefront subscriber ${name}`
  const client = await connectClient(url, 'storefront-replay')
  client.on('error', () => {})
  try {
    const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
    const ownPid = rows[0]?.pid ?? 0
    // Processes that stand by only try; waiting in the queue, this one is next when the holder is gone.
    let isHolder = false
    const waiting = client.query('select pg_advisory_lock(hashtextextended($1, 0))', [lock]).then(() => {
      isHolder = true
    })
    while (!isHolder) {
      await endHolder(url, lock, ownPid)
      await Promise.race([waiting, delay(RETRY_MS)])
    }
    // What the last holder has in hand is refused from here on.
    await client.query('update topic_subscribers set fence = fence + 1, updated_at = now() where name = $1', [name])
    return await work(client)
  } finally {
    await client.end()
  }
}

async function endHolder(url: string, lock: string, ownPid: number): Promise<void> {
  const client = await connectClient(url, 'storefront-replay')
  try {
    await client.query(
      `select pg_terminate_backend(pid)
      from pg_locks
      where locktype = 'advisory' and granted and objsubid = 1
        and database = (select oid from pg_database where datname = current_database())
        and (classid::bigint << 32 | objid::bigint) = hashtextextended($1, 0)
        -- A name in DATABASE_URL has the better of the store's.
        and pid <> $2
        and pid not in (select pid from pg_stat_activity where application_name = 'storefront-replay')`,
      [lock, ownPid],
    )
  } finally {
    await client.end()
  }
}
