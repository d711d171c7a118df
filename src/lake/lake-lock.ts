import type { Client } from 'pg'
import { connectClient } from '../db/pool.ts'
import { COMMAND_BOUNDS } from '../db/session-settings.ts'
import { OperatorError } from '../errors.ts'

export class LakeBusy extends OperatorError {
  override readonly name = 'LakeBusy'
}

/** The sink, which only adds files, continues. `assertHeld` throws when the lock is lost. Throws LakeBusy. */
export async function withLakeLock<T>(url: string, work: (assertHeld: () => Promise<void>) => Promise<T>): Promise<T> {
  return withClient(url, async (client) => {
    await tryLock(client, 'storefront lake files', 'the files of the lake are being merged or repaired by another process')
    return await work(async () => void (await client.query('select 1')))
  })
}

/**
 * Runs `work` with the lock for writing tables, because two processes would compute the same rows. Waits for another
 * process as long as that takes.
 */
export async function withTablesLock<T>(url: string, work: () => Promise<T>): Promise<T> {
  return withClient(url, async (client) => {
    await client.query(`select pg_advisory_lock(hashtextextended('storefront lake tables', 0))`)
    return await work()
  })
}

/** Like `withTablesLock`, but throws LakeBusy if another process has the lock. */
export async function withFreeTablesLock<T>(url: string, work: () => Promise<T>): Promise<T> {
  return withClient(url, async (client) => {
    await tryLock(client, 'storefront lake tables', 'the tables of the lake are being written by another process')
    return await work()
  })
}

async function tryLock(client: Client, name: string, refusal: string): Promise<void> {
  const { rows } = await client.query<{ locked: boolean }>(`select pg_try_advisory_lock(hashtextextended($1, 0)) as locked`, [name])
  if (rows[0]?.locked !== true) throw new LakeBusy(refusal)
}

async function withClient<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = await connectClient(url, 'storefront-lake-files', undefined, { ...COMMAND_BOUNDS, lock: COMMAND_BOUNDS.statement })
  try {
    return await work(client)
  } finally {
    await client.end().catch(() => {})
  }
}
