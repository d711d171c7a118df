import type { OrderStatus } from '../orders/order-status.ts'

/** The end of an invented order. `shop_cancelled` is by the operator, after confirmation. */
export type Ending = 'delivered' | 'returned' | 'cancelled' | 'shop_cancelled'

export interface PlannedMove {
  to: Exclude<OrderStatus, 'pending'>
  at: Date
}

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const MONTH_MS = 30 * DAY_MS
/** Relative numbers of orders by hour: few at night, most in the evening. */
const HOURS = [2, 1, 1, 1, 1, 2, 4, 6, 9, 11, 12, 12, 13, 11, 10, 10, 11, 13, 16, 20, 22, 18, 11, 5]
const BUSIEST = Math.max(...HOURS)
/** Endings by place among 20 orders; the other 16 are delivered. */
const ENDINGS: Readonly<Record<number, Ending>> = { 5: 'cancelled', 9: 'returned', 13: 'cancelled', 17: 'shop_cancelled' }
/** The first orders of a month, by age. With them every status occurs, even with few orders. */
const EXAMPLES: readonly { ageMs: number; ending: Ending }[] = [
  { ageMs: 60_000, ending: 'delivered' },
  { ageMs: 4 * HOUR_MS, ending: 'delivered' },
  { ageMs: 33 * HOUR_MS, ending: 'delivered' },
  { ageMs: 20 * DAY_MS, ending: 'delivered' },
  { ageMs: 21 * DAY_MS, ending: 'returned' },
  { ageMs: 10 * DAY_MS, ending: 'cancelled' },
]

export function endingOf(index: number): Ending {
  return ENDINGS[index % 20] ?? 'delivered'
}

/** The times and endings of the orders in the month before `now`, with more orders in the hours when people shop. */
export function planMonth(now: Date, orders: number): { at: Date; ending: Ending }[] {
  const examples = EXAMPLES.slice(0, orders).map(({ ageMs, ending }) => ({ at: new Date(now.getTime() - ageMs), ending }))
  const others = Array.from({ length: orders - examples.length }, (_, index) => ({ at: timeInMonth(now), ending: endingOf(index) }))
  return [...examples, ...others]
}

function timeInMonth(now: Date): Date {
  for (;;) {
    const at = new Date(now.getTime() - Math.random() * MONTH_MS)
    if (Math.random() < busynessAt(at)) return at
  }
}

/** The rate of orders at this time of day, as a share of the busiest hour's: above 0 and up to 1. */
export function busynessAt(time: Date): number {
  return (HOURS[time.getHours()] ?? 1) / BUSIEST
}

/**
 * The status changes of an order placed at `placedAt`. `speed` divides the times. With 1 it is confirmed within an
 * hour, shipped within 31, and delivered two to four days after it was placed.
 */
export function planMoves(placedAt: Date, ending: Ending, speed: number): PlannedMove[] {
  let at = placedAt.getTime()
  const after = (fromHours: number, toHours: number) => {
    at += ((fromHours + Math.random() * (toHours - fromHours)) * HOUR_MS) / speed
    return new Date(at)
  }
  if (ending === 'cancelled') return [{ to: 'cancelled', at: after(0.2, 5) }]
  const confirmed: PlannedMove = { to: 'confirmed', at: after(0.1, 1) }
  if (ending === 'shop_cancelled') return [confirmed, { to: 'cancelled', at: after(2, 5) }]
  const moves: PlannedMove[] = [confirmed, { to: 'shipped', at: after(6, 30) }, { to: 'delivered', at: after(30, 72) }]
  return ending === 'returned' ? [...moves, { to: 'returned', at: after(48, 192) }] : moves
}
