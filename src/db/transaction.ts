import type { Pool, Transaction } from './pool.ts'

// Serialization failure and deadlock: PostgreSQL undid everything, so the whole transaction may be run again.
const RETRYABLE = new Set(['40001', '40P01'])
const MAX_ATTEMPTS = 3

/**
 * Runs `work` in one READ COMMITTED transaction: committed when it returns, undone when it throws.
 * `work` may run again after a deadlock, so it must do nothing that the database cannot undo. A wait for a lock that lasts longer
 * than `lockTimeoutMs`, as long as it takes unless given, throws SQLSTATE 55P03.
 */
export async function inTransaction<T>(
  pool: Pool,
  work: (tx: Transaction) => Promise<T>,
  { lockTimeoutMs }: { lockTimeoutMs?: number } = {},
): Promise<T> {
  const begin = lockTimeoutMs === undefined ? 'begin' : `begin; set local lock_timeout = ${lockTimeoutMs}`
  for (let attempt = 1; ; attempt++) {
    try {
      return await attemptTransaction(pool, begin, work)
    } catch (error) {
      if (attempt === MAX_ATTEMPTS || !RETRYABLE.has((error as { code?: string }).code ?? '')) throw error
    }
  }
}

async function attemptTransaction<T>(pool: Pool, begin: string, work: (tx: Transaction) => Promise<T>): Promise<T> {
  const tx = await pool.connect()
  try {
    await tx.query(begin)
    const result = await work(tx)
    await tx.query('commit')
    tx.release()
    return result
  } catch (error) {
    // A connection that cannot roll back is in an unknown state: it is closed, and PostgreSQL rolls back.
    const broken = await tx.query('rollback').then(
      () => false,
      () => true,
    )
    tx.release(broken)
    throw error
  }
}
