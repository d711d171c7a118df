export const ORDER_STATUSES = ['pending', 'confirmed', 'shipped', 'delivered', 'cancelled', 'returned'] as const
export type OrderStatus = (typeof ORDER_STATUSES)[number]

/** How units move: open units are shipped or cancelled, shipped units are returned. */
export type PartMove = 'shipped' | 'cancelled' | 'returned'

export interface StatusRule {
  /** Last part of the event type of a move to this status. Its mail has the same name. */
  event: string
  next: readonly OrderStatus[]
  /** What a move to this status does with all movable units. `shipped` takes tracking, `returned` takes `restock`. */
  moves: PartMove | null
  parts: readonly PartMove[]
  /** `open` means not sent yet, so the order keeps its address. `ended` means no revenue and no further charges. */
  phase: 'open' | 'sent' | 'ended'
  /** Verb that the console shows for a move to this status. */
  action: string
  badge: 'waiting' | 'next' | 'good' | 'neutral' | 'bad'
}

/**
 * The console bundles this file, so it imports nothing. Spreads would lose the literal types that the tables of events
 * and mails depend on. checks/statuses.test.ts lists the code that cannot use this table.
 */
const RULES = {
  pending: {
    event: 'created',
    next: ['confirmed', 'cancelled'],
    moves: null,
    parts: ['cancelled'],
    phase: 'open',
    action: 'place',
    badge: 'waiting',
  },
  confirmed: {
    event: 'confirmed',
    next: ['shipped', 'cancelled'],
    moves: null,
    parts: ['shipped', 'cancelled', 'returned'],
    phase: 'open',
    action: 'confirm',
    badge: 'next',
  },
  shipped: {
    event: 'shipped',
    next: ['delivered', 'returned'],
    moves: 'shipped',
    parts: ['returned'],
    phase: 'sent',
    action: 'ship',
    badge: 'good',
  },
  delivered: {
    event: 'delivered',
    next: ['returned'],
    moves: null,
    parts: ['returned'],
    phase: 'sent',
    action: 'mark as delivered',
    badge: 'neutral',
  },
  cancelled: { event: 'cancelled', next: [], moves: 'cancelled', parts: [], phase: 'ended', action: 'cancel', badge: 'bad' },
  returned: { event: 'returned', next: [], moves: 'returned', parts: [], phase: 'ended', action: 'take back', badge: 'neutral' },
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

export function allowedTransitions(status: OrderStatus): readonly OrderStatus[] {
  return RULES[status].next
}

export function pathTo(status: OrderStatus): OrderStatus[] {
  const before = ORDER_STATUSES.find((earlier) => allowedTransitions(earlier).includes(status))
  return before === undefined ? [status] : [...pathTo(before), status]
}

/** Values for the last status in which customers cancel their own orders. */
export const CUSTOMER_CANCELS: readonly (OrderStatus | 'never')[] = [...statusesWhere(({ next }) => next.includes('cancelled')), 'never']

export function cancellableUpTo(last: OrderStatus | 'never'): OrderStatus[] {
  return last === 'never' ? [] : pathTo(last)
}

/** An entry has a version when its index does not determine it. See docs/decisions/audit-incarnations.md. */
export function versionOf({ version }: { version?: number | undefined }, index: number): number {
  return version ?? index + 1
}
