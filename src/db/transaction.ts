import { setTimeout as delay } from 'node:timers/promises'
import { isConflict } from './failures.ts'
import type { Pool, Transaction } from './pool.ts'
import { literal, type Sql, sql } from './sql.ts'

const MAX_ATTEMPTS = 3
const PAUSE_MS = 5

/**
 * READ COMMITTED. `work` may run again after a deadlock, so it must do nothing that the database cannot undo. A lock
 * wait above `lockTimeoutMs` throws SQLSTATE 55P03.
 */
export async function inTransaction<T>(pool: Pool, work: (tx: Transaction) => Promise<T>, options: TransactionOptions = {}): Promise<T> {
  return retryDeadlocks(() =>
    attempt(pool, async (tx) => {
      await tx.query(beginStatement(options).text)
      const result = await work(tx)
      await tx.query('commit')
      return result
    }),
  )
}

export interface TransactionOptions {
  lockTimeoutMs?: number
}

function beginStatement({ lockTimeoutMs }: TransactionOptions): Sql {
  return lockTimeoutMs === undefined ? sql`begin` : sql`begin; set local lock_timeout = ${literal(lockTimeoutMs)}`
}

export async function retryDeadlocks<T>(run: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await run()
    } catch (error) {
      if (attempt === MAX_ATTEMPTS || !isConflict(error)) throw error
    }
    // The pause is random, so the same transactions do not deadlock again. It holds no connection.
    await delay(PAUSE_MS * 2 ** (attempt - 1) * (1 + 2 * Math.random()))
  }
}

async function attempt<T>(pool: Pool, run: (tx: Transaction) => Promise<T>): Promise<T> {
  const tx = await pool.connect()
  try {
    const result = await run(tx)
    tx.release()
    return result
  } catch (error) {
    await rollBack(tx)
    throw error
  }
}

/** A connection that cannot roll back is in an unknown state. It is closed, and PostgreSQL rolls back. */
export async function rollBack(tx: Transaction): Promise<void> {
  const isBroken = await tx.query('rollback').then(
    () => false,
    () => true,
  )
  tx.release(isBroken)
}
