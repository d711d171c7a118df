import { AppError } from '../errors.ts'

export const ORDER_STATUSES = ['pending', 'confirmed', 'shipped', 'delivered', 'cancelled', 'returned'] as const
export type OrderStatus = (typeof ORDER_STATUSES)[number]

const TRANSITIONS: Record<OrderStatus, readonly OrderStatus[]> = {
  pending: ['confirmed', 'cancelled'],
  confirmed: ['shipped', 'cancelled'],
  shipped: ['delivered', 'returned'],
  delivered: ['returned'],
  cancelled: [],
  returned: [],
}

/** The statuses that an order in `status` may move to. */
export function allowedTransitions(status: OrderStatus): readonly OrderStatus[] {
  return TRANSITIONS[status]
}

/** Throws `illegal_transition`, naming the moves that are allowed, unless `from` may move to `to`. */
export function assertTransition(from: OrderStatus, to: OrderStatus, allowed = TRANSITIONS[from]): void {
  if (allowed.includes(to)) return
  throw new AppError('illegal_transition', `An order that is ${from} cannot become ${to}.`, {
    members: { current_status: from, allowed_transitions: allowed },
  })
}

/** The version of an order after the change at `index` of its history, which names it where that is not its place: see decision 0140. */
export function versionOf({ version }: { version?: number | undefined }, index: number): number {
  return version ?? index + 1
}
