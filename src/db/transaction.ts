import { setTimeout as delay } from 'node:timers/promises'
import type { Pool, Transaction } from './pool.ts'
import { literal, type Sql, sql } from './sql.ts'
import { DEADLOCK_DETECTED, SERIALIZATION_FAILURE, sqlState } from './sql-state.ts'

// PostgreSQL has undone everything, so the whole transaction may be run again.
const RETRYABLE = new Set<string | undefined>([SERIALIZATION_FAILURE, DEADLOCK_DETECTED])
const MAX_ATTEMPTS = 3
const PAUSE_MS = 5

/**
 * Runs `work` in one READ COMMITTED transaction: committed when it returns, undone when it throws.
 * `work` may run again after a deadlock, so it must do nothing that the database cannot undo. A wait for a lock that lasts longer
 * than `lockTimeoutMs`, or else the session allows, throws SQLSTATE 55P03. The database ends the transaction of a process that is paused.
 */
export async function inTransaction<T>(pool: Pool, work: (tx: Transaction) => Promise<T>, options: TransactionOptions = {}): Promise<T> {
  return retrying(() =>
    attempt(pool, async (tx) => {
      await tx.query(beginStatement(options).text)
      const result = await work(tx)
      await tx.query('commit')
      return result
    }),
  )
}

/** What a pipelined transaction has sent last. `result` is called once that is committed. */
export interface Sent<T> {
  statements: readonly Promise<unknown>[]
  result(): T | Promise<T>
}

/**
 * SQL that is true in a pipelined transaction. What writes before anybody knows that the transaction has begun must ask for it: were
 * that refused, each statement would be a transaction of its own.
 */
export const IS_IN_TRANSACTION = sql`current_setting('storefront.is_in_transaction', true) = 'yes'`

/**
 * As `inTransaction`, in as few round trips as `work` itself takes: the beginning goes out with its first statements, the commit with its last,
 * those of `statements`, which it must have sent, in that order, and need not wait for. When PostgreSQL refuses one of them, it undoes
 * all. `begun` resolves when the transaction has begun: whoever waits for anything waits for that as well.
 */
export async function inPipelinedTransaction<T>(
  pool: Pool,
  work: (tx: Transaction, begun: Promise<unknown>) => Promise<Sent<T>>,
  options: TransactionOptions = {},
): Promise<T> {
  const { result } = await retrying(() =>
    attempt(pool, async (tx) => {
      const begun = tx.query(sql`${beginStatement(options)}; set local storefront.is_in_transaction = 'yes'`.text)
      const committed = work(tx, begun).then(async (sent) => {
        await allOf([...sent.statements, tx.query('commit')])
        return sent
      })
      const [, sent] = await allOf([begun, committed])
      return sent
    }),
  )
  return result()
}

/**
 * Waits for all. Throws what the first one was refused for: those behind it fail only because it did, and a commit after a failed statement
 * rolls back and says so without an error.
 */
async function allOf<T extends readonly unknown[]>(statements: T): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  const failed = (await Promise.allSettled(statements)).find((settled) => settled.status === 'rejected')
  if (failed !== undefined) throw failed.reason
  return Promise.all(statements)
}

export interface TransactionOptions {
  lockTimeoutMs?: number
}

function beginStatement({ lockTimeoutMs }: TransactionOptions): Sql {
  return lockTimeoutMs === undefined ? sql`begin` : sql`begin; set local lock_timeout = ${literal(lockTimeoutMs)}`
}

async function retrying<T>(run: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await run()
    } catch (error) {
      if (attempt === MAX_ATTEMPTS || !RETRYABLE.has(sqlState(error))) throw error
    }
    // From one to three times the pause, so that the same transactions do not deadlock again. Without a connection.
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

/** Rolls back and releases the connection. One that cannot roll back is in an unknown state: it is closed, and PostgreSQL rolls back. */
export async function rollBack(tx: Transaction): Promise<void> {
  const isBroken = await tx.query('rollback').then(
    () => false,
    () => true,
  )
  tx.release(isBroken)
}
