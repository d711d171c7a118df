import { isTemporary } from '../../db/failures.ts'
import { AppError } from '../../errors.ts'
import type { PlacedOrder } from './batch-decision.ts'

export interface PlacingObserver {
  /** The number of orders in one transaction. */
  ordersTried(orders: number): void
  /** The state had changed since a batch was decided on, and it is decided again. */
  batchUndone(): void
  orderPlaced(isReplay: boolean): void
  /** `code`: the problem's code. */
  orderRefused(code: string): void
}

export function observe(answer: Promise<PlacedOrder>, observer: PlacingObserver): void {
  answer.then(
    ({ isReplay }) => observer.orderPlaced(isReplay),
    (error) => {
      observer.orderRefused(error instanceof AppError ? error.code : isTemporary(error) ? 'unavailable' : 'internal')
    },
  )
}
