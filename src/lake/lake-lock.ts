import { connectClient } from '../db/pool.ts'
import { OperatorError } from '../errors.ts'

/** Another process is merging or repairing files of the lake. The message is one line. */
export class LakeBusy extends OperatorError {
  override readonly name = 'LakeBusy'
}

/**
 * Runs `work` while no other process merges or repairs the lake's files. The sink, which only adds files, continues.
 * `url` is the database's. `assertHeld` throws when the lock is lost. Throws LakeBusy.
 */
export async function withLakeLock<T>(url: string, work: (assertHeld: () => Promise<void>) => Promise<T>): Promise<T> {
  const client = await connectClient(url, 'storefront-lake-files')
  try {
    const { rows } = await client.query<{ locked: boolean }>(
      `select pg_try_advisory_lock(hashtextextended('storefront lake files', 0)) as locked`,
    )
    if (rows[0]?.locked !== true) throw new LakeBusy('the files of the lake are being merged or repaired by another process')
    return await work(async () => void (await client.query('select 1')))
  } finally {
    await client.end().catch(() => {})
  }
}
