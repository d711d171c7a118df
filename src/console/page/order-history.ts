import type { Schemas } from './api.ts'
import { amountText, create, facts, timeElement } from './dom.ts'
import type { Names } from './names.ts'
import { trackingElement, unitsText } from './order-lines.ts'
import { stateBadge } from './state-badge.ts'

type Order = Schemas['AdminOrderDetail']
type Change = Schemas['OrderChange']

/** Each change of an order: what, when and who. */
export function orderHistory(order: Order, names: Names): HTMLElement {
  const entries = order.status_history.map(({ status, at, actor, reason, reference, tracking, change }) =>
    create(
      'li',
      {},
      stateBadge(status),
      ' ',
      timeElement(at),
      ' by ',
      names.actorElement(actor, order.user_id),
      facts(
        ['Change', change === undefined ? null : changeText(order, change)],
        ['Reason', reason],
        ['Reference', reference],
        ['Tracking', tracking === undefined ? null : trackingElement(tracking)],
      ),
    ),
  )
  return create('section', { class: 'card' }, create('h3', {}, 'Status history'), create('ol', {}, ...entries))
}

/** A change in words; one of a later release by its type. */
function changeText(order: Order, change: Change): string {
  const { type, lines = [], amount = 0 } = change
  const units = unitsText(order, lines)
  const money = amountText({ amount, currency: order.total.currency })
  switch (type) {
    case 'shipped':
      return `${units} shipped`
    case 'lines_cancelled':
      return amount === 0 ? `${units} cancelled` : `${units} cancelled: ${money}`
    case 'returned':
      return `${units} returned, ${change.restock ? 'to be sold again' : 'not back in stock'}`
    case 'adjusted':
      return `${change.label} (${change.kind}): ${money}`
    case 'adjustment_voided':
      return `${labelOf(order, change.adjustment) ?? 'An adjustment'} is void: ${money}`
    case 'payment':
      return `Payment ${change.state}: ${change.provider} ${change.reference}`
    default:
      return type.replaceAll('_', ' ')
  }
}

function labelOf({ status_history: history }: Order, version: number | undefined): string | undefined {
  return history.find((entry, index) => (entry.version ?? index + 1) === version)?.change?.label
}
