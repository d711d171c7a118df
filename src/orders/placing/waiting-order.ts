import { AppError } from '../../errors.ts'
import type { QuotaKey } from '../../http/fair-queue.ts'
import { overloaded } from '../../http/load-shedder.ts'
import type { PlacedOrder } from './batch-decision.ts'
import type { OrderRequest } from './order-request.ts'

/** An order in the batcher. */
export interface WaitingOrder {
  request: OrderRequest
  quotaKey: QuotaKey
  /** The first that it counts for: the customer, or the network of a guest. */
  customer: string
  lockKeys: readonly string[]
  since: number
  answer: PromiseWithResolvers<PlacedOrder>
  /**
   * Deferred orders only: since when, the error after `deferredMs`, and whether the order waits for its turn to be
   * placed alone.
   */
  deferred?: { since: number; error: unknown; isContended: boolean }
}

/** What an order takes of a queue that is bounded in lines: its lines, at least `least`, which bounds the orders too. */
export function weightOf({ request }: WaitingOrder, least: number): number {
  return Math.max(request.basket.lines.length, least)
}

const RETRY_AFTER_SECONDS = '1'

export function requestInProgress(): AppError {
  return new AppError('request_in_progress', 'A request with this Idempotency-Key or client_reference is still being worked on.', {
    headers: { 'retry-after': RETRY_AFTER_SECONDS },
  })
}

export function tooBusy(): AppError {
  return overloaded('orders', 'Too many orders wait to be placed.')
}
