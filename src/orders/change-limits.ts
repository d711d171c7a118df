import { AppError } from '../errors.ts'
import { type Order, stateOf } from './order.ts'
import type { OrderChange } from './order-changes.ts'

/** Largest number of changes of one kind in an order's history. The history is part of each order event. */
const MAX_CHANGES = 100
/** Largest size of the history and its consequences as JSON. The event stays below the 1 MB limit of a NATS server. */
export const MAX_CHANGES_BYTES = 512 * 1024

export function assertFewChanges({ statusHistory }: Order, kind: OrderChange['type'] | 'refunded'): void {
  const count = statusHistory.filter(({ change }) => change !== undefined && kindOf(change) === kind).length
  if (count >= MAX_CHANGES) throw new AppError('too_many_changes', `The order has ${MAX_CHANGES} changes of this kind.`)
}

export function changeReferenceTaken({ version }: Pick<Order, 'version'>, what: string): AppError {
  return new AppError('change_reference_taken', `The order has another ${what} with the same reference.`, {
    members: { current_version: version },
  })
}

/** The shop's refunds count separately, so they cannot use up the limit of a provider's reports. */
function kindOf(change: OrderChange): OrderChange['type'] | 'refunded' {
  return change.type === 'payment' && change.refund !== undefined ? 'refunded' : change.type
}

export function assertHistoryFits(order: Order): void {
  if (changesSizeBytes(order) <= MAX_CHANGES_BYTES) return
  throw new AppError('too_many_changes', `The history of the order would have more than ${MAX_CHANGES_BYTES / 1024} KiB.`)
}

export function changesSizeBytes(order: Order): number {
  const { items, parcels, adjustments, payment } = stateOf(order)
  // The event contains added lines twice.
  const added = items.slice(order.items.length)
  return Buffer.byteLength(JSON.stringify([order.statusHistory, added, parcels, adjustments, payment]))
}
