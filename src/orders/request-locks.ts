import { hash } from 'node:crypto'
import { plainArray } from '../db/plain-array.ts'
import type { Transaction } from '../db/pool.ts'
import { AppError } from '../errors.ts'

const LOCK_NOT_AVAILABLE = '55P03'
const RETRY_AFTER_SECONDS = '1'

/**
 * Two pieces of SQL, by which a statement tells those sent along behind it, before anybody has read its answer, that some request of this
 * transaction needs nothing more.
 */
export const SETTLE = `set_config('storefront.is_settled', 'yes', true)`
export const IS_SETTLED = `coalesce(current_setting('storefront.is_settled', true), '') = 'yes'`

/** Whether a statement was ended by `lock_timeout`. */
export function isLockTimeout(error: unknown): boolean {
  return (error as { code?: string } | null)?.code === LOCK_NOT_AVAILABLE
}

/** Takes those locks that are free, until the transaction ends, and waits for none. Returns those that somebody else holds, and tells. */
export async function tryLock(tx: Transaction, names: readonly string[]): Promise<Set<string>> {
  if (names.length === 0) return new Set()
  const byNumber = new Map(names.map((name) => [numberOf(name), name]))
  const { rows } = await tx.query<{ lock: string }>({
    name: 'try_request_locks',
    // As text: the numbers need all 64 bits.
    text: `select lock::text, ${SETTLE}
    from (select lock, pg_try_advisory_xact_lock(lock) as is_ours from unnest($1::bigint[]) as lock) as attempt
    where not is_ours`,
    values: [plainArray([...byNumber.keys()])],
  })
  return new Set(rows.map((row) => byNumber.get(row.lock) ?? row.lock))
}

/** Takes all locks, in the order of their numbers, and waits for them. Throws `request_in_progress` after the lock timeout. */
export async function waitForLocks(tx: Transaction, names: readonly string[]): Promise<void> {
  const numbers = names.map((name) => BigInt(numberOf(name))).sort((a, b) => (a < b ? -1 : 1))
  try {
    for (const number of numbers) await tx.query('select pg_advisory_xact_lock($1)', [String(number)])
  } catch (error) {
    if (!isLockTimeout(error)) throw error
    throw new AppError('request_in_progress', 'A request with this Idempotency-Key or client_reference is still being worked on.', {
      headers: { 'retry-after': RETRY_AFTER_SECONDS },
      cause: error,
    })
  }
}

/** A name's number for PostgreSQL. Two names with one number would only wait for each other. */
function numberOf(name: string): string {
  return hash('sha256', name, 'buffer').readBigInt64BE().toString()
}
