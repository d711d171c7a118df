import { AppError } from '../errors.ts'
import { type Order, stateOf } from './order.ts'
import type { OrderChange } from './order-changes.ts'

/** Largest number of changes of one kind in an order's history, which each of its events contains. */
const MAX_CHANGES = 100
/**
 * Largest size of the history and what follows from it, as JSON: its event stays below the megabyte that a NATS server
 * takes.
 */
export const MAX_CHANGES_BYTES = 512 * 1024

/** Throws `too_many_changes` when the order has as many changes of the kind as it can have. Pure. */
export function assertFewChanges({ statusHistory }: Order, kind: OrderChange['type'] | 'refunded'): void {
  const count = statusHistory.filter(({ change }) => change !== undefined && kindOf(change) === kind).length
  if (count >= MAX_CHANGES) throw new AppError('too_many_changes', `The order has ${MAX_CHANGES} changes of this kind.`)
}

/** The refusal of a reference under which the order has another change, such as another refund. Pure. */
export function changeReferenceTaken({ version }: Pick<Order, 'version'>, what: string): AppError {
  return new AppError('change_reference_taken', `The order has another ${what} with the same reference.`, {
    members: { current_version: version },
  })
}

/** The shop's own refunds are counted apart: a provider's report must not be lost for them. */
function kindOf(change: OrderChange): OrderChange['type'] | 'refunded' {
  return change.type === 'payment' && change.refund !== undefined ? 'refunded' : change.type
}

/** Throws `too_many_changes` when the history of an order, after a change, is too long for its event. Pure. */
export function assertHistoryFits(order: Order): void {
  if (changesSizeBytes(order) <= MAX_CHANGES_BYTES) return
  throw new AppError('too_many_changes', `The history of the order would have more than ${MAX_CHANGES_BYTES / 1024} KiB.`)
}

/** What the changes of an order add to its event, as JSON. Pure. */
export function changesSizeBytes(order: Order): number {
  const { items, parcels, adjustments, payment } = stateOf(order)
  // Lines that were added are in the event twice.
  const added = items.slice(order.items.length)
  return Buffer.byteLength(JSON.stringify([order.statusHistory, added, parcels, adjustments, payment]))
}
