import { hash } from 'node:crypto'
import { isTimeout } from '../../db/failures.ts'
import { plainArray } from '../../db/list-parameters.ts'
import type { Transaction } from '../../db/pool.ts'
import { AppError } from '../../errors.ts'

const RETRY_AFTER_SECONDS = '1'

/** Takes those locks that are free, until the transaction ends, and waits for none. Returns those that somebody else holds. */
export async function tryLock(tx: Transaction, names: readonly string[]): Promise<Set<string>> {
  if (names.length === 0) return new Set()
  const byNumber = new Map(names.map((name) => [numberOf(name), name]))
  const { rows } = await tx.query<{ lock: string }>({
    name: 'try_request_locks',
    // As text: the numbers need all 64 bits.
    text: `select lock::text
    from (select lock, pg_try_advisory_xact_lock(lock) as is_ours from unnest($1::bigint[]) as lock) as attempt
    where not is_ours`,
    values: [plainArray([...byNumber.keys()])],
  })
  return new Set(rows.map((row) => byNumber.get(row.lock) ?? row.lock))
}

/** Takes all locks until the transaction ends, and waits for none. SQLSTATE SF001 when somebody else holds one of them. */
export async function insistOnLocks(tx: Transaction, names: readonly string[]): Promise<void> {
  if (names.length === 0) return
  await tx.query({
    name: 'insist_on_request_locks',
    text: 'select insist(bool_and(pg_try_advisory_xact_lock(lock))) from unnest($1::bigint[]) as lock',
    values: [plainArray([...new Set(names.map(numberOf))])],
  })
}

/** Takes all locks, in the order of their numbers, and waits for them. Throws `request_in_progress` after the lock timeout. */
export async function waitForLocks(tx: Transaction, names: readonly string[]): Promise<void> {
  const numbers = names.map((name) => BigInt(numberOf(name))).sort((a, b) => (a < b ? -1 : 1))
  try {
    for (const number of numbers) await tx.query('select pg_advisory_xact_lock($1)', [String(number)])
  } catch (error) {
    if (!isTimeout(error)) throw error
    throw requestInProgress(error)
  }
}

export function requestInProgress(cause?: unknown): AppError {
  return new AppError('request_in_progress', 'A request with this Idempotency-Key or client_reference is still being worked on.', {
    headers: { 'retry-after': RETRY_AFTER_SECONDS },
    cause,
  })
}

/** A name's number for PostgreSQL. Two names with one number would only wait for each other. */
function numberOf(name: string): string {
  return hash('sha256', name, 'buffer').readBigInt64BE().toString()
}
