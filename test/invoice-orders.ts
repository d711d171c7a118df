import { createHash } from 'node:crypto'
import type { OrderEvent } from '../src/orders/events.ts'
import type { OrderStatus } from '../src/orders/order-status.ts'
import type { Invoice } from './invoices.ts'
import { makeOrderEvent } from './order-event-factory.ts'

export const SHOP_ZONE = 'Europe/London'
const HOUR_MS = 3_600_000

export interface Move {
  status: OrderStatus
  /** Hours after the order was placed. */
  hours: number
}

/**
 * The later moves of an invoice's order. Files of invoices do not have it, so it comes from the number: some are
 * cancelled, wait, or come back.
 */
export function movesOf({ number }: Invoice): Move[] {
  const n = Number(number.replaceAll(/\D/g, ''))
  const shipped = 4 + (n % 37) * 3.5
  const placed: Move = { status: 'pending', hours: 0 }
  if (n % 10 === 0) return [placed, { status: 'cancelled', hours: 5 }]
  if (n % 10 === 1) return [placed]
  const moves: Move[] = [placed, { status: 'confirmed', hours: 1 }, { status: 'shipped', hours: shipped }]
  if (n % 10 === 2) return [...moves, { status: 'returned', hours: shipped + 100 }]
  return n % 2 === 0 ? [...moves, { status: 'delivered', hours: shipped + 30 }] : moves
}

/** The account of an invoice; each guest has one of their own. */
export function accountOf({ customer, number }: Invoice): string {
  return toId(customer === '' ? `guest ${number}` : `customer ${customer}`)
}

export function placedAt({ day, time }: Invoice): Date {
  return new Date(Temporal.PlainDateTime.from(`${day}T${time}`).toZonedDateTime(SHOP_ZONE).epochMilliseconds)
}

export function productId(sku: string): string {
  return toId(`product ${sku}`)
}

function toId(name: string): string {
  const digits = createHash('sha256').update(name).digest('hex')
  return `${digits.slice(0, 8)}-${digits.slice(8, 12)}-7${digits.slice(13, 16)}-8${digits.slice(17, 20)}-${digits.slice(20, 32)}`
}

/** The events of the orders of all invoices, in order of time. */
export function eventsOf(invoices: readonly Invoice[]): OrderEvent[] {
  const events = invoices.flatMap((invoice) => {
    const at = placedAt(invoice).getTime()
    const moves = movesOf(invoice)
    const history = moves.map(({ status, hours }) => {
      const change = { status, at: new Date(at + hours * HOUR_MS).toISOString() }
      return { ...change, actor: { type: status === 'pending' ? ('customer' as const) : ('admin' as const), id: null }, reason: null }
    })
    const items = invoice.lines.map(({ sku, name, quantity, unitAmount }) => ({
      ...{ product_id: productId(sku), sku, name, category: 'gifts', quantity },
      ...{ unit_price: { amount: unitAmount, currency: 'GBP' }, total: { amount: unitAmount * quantity, currency: 'GBP' } },
    }))
    const total = { amount: items.reduce((sum, item) => sum + item.total.amount, 0), currency: 'GBP' }
    const address = { name: 'Ada', line1: '1 St', city: 'York', postal_code: 'YO1', country: invoice.country === 'France' ? 'FR' : 'GB' }
    return moves.map(({ status }, index) =>
      makeOrderEvent({
        previous_status: moves[index - 1]?.status ?? null,
        order: {
          ...{
            id: toId(`order ${invoice.number}`),
            number: invoice.number,
            user_id: accountOf(invoice),
            items,
            total,
            original_total: total,
          },
          ...{ status, version: index + 1, status_history: history.slice(0, index + 1), shipping_address: address },
          ...{ created_at: history[0]?.at ?? '', updated_at: history[index]?.at ?? '' },
        },
      }),
    )
  })
  return events.toSorted((a, b) => a.time.localeCompare(b.time))
}
