import type { Client } from 'pg'
import { connectClient } from '../db/pool.ts'
import { COMMAND_BOUNDS } from '../db/session-settings.ts'
import { OperatorError } from '../errors.ts'

const [FILES, TABLES] = ['storefront lake files', 'storefront lake tables']

export class LakeBusy extends OperatorError {
  override readonly name = 'LakeBusy'
}

/**
 * The lock for merging and repairing files. The sink, which only adds files, continues. Waits for another process as
 * long as that takes.
 */
export function withLakeLock<T>(url: string, work: () => Promise<T>): Promise<T> {
  return withClient(url, (client) => lock(client, FILES), work)
}

/** Like `withLakeLock`, but throws LakeBusy if another process has the lock. */
export function withFreeLakeLock<T>(url: string, work: () => Promise<T>): Promise<T> {
  const refusal = 'the files of the lake are being merged or repaired by another process'
  return withClient(url, (client) => tryLock(client, FILES, refusal), work)
}

/** The lock for writing tables, because two processes would compute the same rows. Waits like `withLakeLock`. */
export function withTablesLock<T>(url: string, work: () => Promise<T>): Promise<T> {
  return withClient(url, (client) => lock(client, TABLES), work)
}

/** Like `withTablesLock`, but throws LakeBusy if another process has the lock. */
export function withFreeTablesLock<T>(url: string, work: () => Promise<T>): Promise<T> {
  return withClient(url, (client) => tryLock(client, TABLES, 'the tables of the lake are being written by another process'), work)
}

async function lock(client: Client, name: string): Promise<void> {
  await client.query('select pg_advisory_lock(hashtextextended($1, 0))', [name])
}

async function tryLock(client: Client, name: string, refusal: string): Promise<void> {
  const { rows } = await client.query<{ locked: boolean }>(`select pg_try_advisory_lock(hashtextextended($1, 0)) as locked`, [name])
  if (rows[0]?.locked !== true) throw new LakeBusy(refusal)
}

async function withClient<T>(url: string, take: (client: Client) => Promise<void>, work: () => Promise<T>): Promise<T> {
  const client = await connectClient(url, 'storefront-lake-files', undefined, { ...COMMAND_BOUNDS, lock: COMMAND_BOUNDS.statement })
  try {
    await take(client)
    return await work()
  } finally {
    await client.end().catch(() => {})
  }
}
