export const ORDER_STATUSES = ['pending', 'confirmed', 'shipped', 'delivered', 'cancelled', 'returned'] as const
export type OrderStatus = (typeof ORDER_STATUSES)[number]

/** How units move: open ones are shipped or cancelled, shipped ones are returned. */
export type PartMove = 'shipped' | 'cancelled' | 'returned'

export interface StatusRule {
  /** Ends the event type of a move to it, and names its mail. */
  event: string
  /** The statuses that the whole order may move to. */
  next: readonly OrderStatus[]
  /** What a move to it does with every unit that it can take. `shipped` takes tracking, `returned` asks whether goods are restocked. */
  moves: PartMove | null
  /** What can be done with a part of the units. */
  parts: readonly PartMove[]
  /**
   * `open`: its goods are still to be sent, so it keeps its address. `ended`: it counts neither as revenue nor for the limit of purchases, and
   * nothing more is charged.
   */
  phase: 'open' | 'sent' | 'ended'
  badge: 'waiting' | 'good' | 'bad'
}

/**
 * All that depends on a status is asked here; checks/statuses.test.ts has what cannot ask. It imports nothing: the
 * console's page has it, too. It has no spreads, which lose the literal types that tables of events and mails are
 * closed by.
 */
const RULES = {
  pending: { event: 'created', next: ['confirmed', 'cancelled'], moves: null, parts: ['cancelled'], phase: 'open', badge: 'waiting' },
  confirmed: {
    event: 'confirmed',
    next: ['shipped', 'cancelled'],
    moves: null,
    parts: ['shipped', 'cancelled', 'returned'],
    phase: 'open',
    badge: 'good',
  },
  shipped: { event: 'shipped', next: ['delivered', 'returned'], moves: 'shipped', parts: ['returned'], phase: 'sent', badge: 'good' },
  delivered: { event: 'delivered', next: ['returned'], moves: null, parts: ['returned'], phase: 'sent', badge: 'good' },
  cancelled: { event: 'cancelled', next: [], moves: 'cancelled', parts: [], phase: 'ended', badge: 'bad' },
  returned: { event: 'returned', next: [], moves: 'returned', parts: [], phase: 'ended', badge: 'bad' },
} as const satisfies Record<OrderStatus, StatusRule>

export type OrderEventName = (typeof RULES)[OrderStatus]['event']

export function isStatus(value: unknown): value is OrderStatus {
  return (ORDER_STATUSES as readonly unknown[]).includes(value)
}

export function ruleOf(status: OrderStatus): StatusRule & { event: OrderEventName } {
  return RULES[status]
}

export function statusesWhere(holds: (rule: StatusRule) => boolean): OrderStatus[] {
  return ORDER_STATUSES.filter((status) => holds(RULES[status]))
}

/** The statuses that the whole order in `status` may move to. */
export function allowedTransitions(status: OrderStatus): readonly OrderStatus[] {
  return RULES[status].next
}

/** The statuses from `pending` to `status`, each the next of the one before it. */
export function pathTo(status: OrderStatus): OrderStatus[] {
  const before = ORDER_STATUSES.find((earlier) => allowedTransitions(earlier).includes(status))
  return before === undefined ? [status] : [...pathTo(before), status]
}

/** The last status in which customers cancel their own orders, or `never`. */
export const CUSTOMER_CANCELS: readonly (OrderStatus | 'never')[] = [...statusesWhere(({ next }) => next.includes('cancelled')), 'never']

export function cancellableUpTo(last: OrderStatus | 'never'): OrderStatus[] {
  return last === 'never' ? [] : pathTo(last)
}

/**
 * The version of an order after the change at `index` of its history, which names it where that is not its place: see
 * docs/decisions/audit-incarnations.md.
 */
export function versionOf({ version }: { version?: number | undefined }, index: number): number {
  return version ?? index + 1
}
