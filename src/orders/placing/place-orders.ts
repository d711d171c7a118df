import { isTimeout } from '../../db/failures.ts'
import { AppError } from '../../errors.ts'
import { BatchDecision, type DecisionOptions, type Outcome } from './batch-decision.ts'
import { assumeState, readState, type StateSource } from './existing-state.ts'
import { type OrderRequest, rowsOf } from './order-request.ts'
import { storeOrders } from './store-orders.ts'

export interface PlacingContext extends StateSource, Omit<DecisionOptions, 'now'> {
  now: () => Date
  backoff: OptimisticBackoff
  onNumbered?: ((number: number) => void) | undefined
  onConflict?: (() => void) | undefined
  /** Called when storing a batch starts. The returned function is called at the end with the error, or null. */
  onStore?: ((requests: readonly OrderRequest[]) => (error: unknown) => void) | undefined
}

export interface PlacingAttempt {
  /** It is false for orders that will probably be refused. */
  isUsual: boolean
  maxLockMs?: number
}

/** Each further attempt follows a change by another process, or the discovery of locked rows. */
const MAX_ATTEMPTS = 8

/**
 * Accepts or refuses each order separately, in the given sequence, in one transaction. An error means that no order is
 * committed, except for a broken connection, which leaves the outcome unknown. Fails with SQLSTATE 55P03 after waiting
 * `maxLockMs` for a lock. Throws `unavailable` when the state keeps changing.
 */
export async function placeOrders(
  context: PlacingContext,
  requests: readonly OrderRequest[],
  { isUsual, maxLockMs = Number.POSITIVE_INFINITY }: PlacingAttempt = { isUsual: true },
): Promise<Outcome[]> {
  const { lockedRows, backoff, onConflict, onNumbered, onStore } = context
  const rows = rowsOf(requests)
  let isOptimistic = isUsual && backoff.shouldTry && !lockedRows.hasAny(rows)
  if (isUsual && !backoff.shouldTry) backoff.skipped()
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
    const lockTimeoutMs = Math.max(1, Math.ceil(Math.min(maxLockMs, lockedRows.lockTimeoutMs)))
    try {
      const state = isOptimistic ? await assumeState(context, requests) : await readState(context, requests, lockTimeoutMs)
      const decision = new BatchDecision(requests, state, { ...context, now: context.now() })
      // A refusal must report the real state, so the state is read first.
      if (!isOptimistic || decision.isEveryRequestAccepted) {
        const onEnd = onStore?.(requests)
        const options = { ...context, pricesVersion: state.prices.version, lockTimeoutMs }
        const numbers = await storeOrders(options, decision.drafts).catch((error: unknown) => {
          onEnd?.(error)
          throw error
        })
        onEnd?.(numbers === null ? 'state_changed' : null)
        if (isOptimistic) numbers === null ? backoff.failed() : backoff.succeeded()
        if (numbers?.length) onNumbered?.(Number(numbers.at(-1)))
        if (numbers !== null) return decision.outcomes(numbers)
        onConflict?.()
      }
    } catch (error) {
      if (!isTimeout(error) || !(await lockedRows.find(rows))) throw error
    }
    isOptimistic = false
  }
  throw new AppError('unavailable', 'Other requests keep changing the stock or the prices of these products. Try again in a moment.')
}

const MAX_PAUSE = 32

/** Decides whether to assume the usual state. Repeated failures skip 1, 2, 4 … 32 batches. */
export class OptimisticBackoff {
  #pause = 1
  #turnsToSkip = 0

  get shouldTry(): boolean {
    return this.#turnsToSkip === 0
  }

  skipped(): void {
    this.#turnsToSkip -= 1
  }

  failed(): void {
    this.#turnsToSkip = this.#pause
    this.#pause = Math.min(2 * this.#pause, MAX_PAUSE)
  }

  succeeded(): void {
    this.#pause = 1
  }
}
