import { randomUUID } from 'node:crypto'
import type { OrderEvent, OrderEventData } from '../src/orders/events.ts'
import type { OrderItem } from '../src/orders/order.ts'
import type { TopicMessage } from '../src/topic/topic.ts'

export interface OrderEventOverrides {
  /** When the order was placed or changed; a day long ago unless said otherwise. */
  at?: Date
  type?: OrderEvent['type']
  order?: Partial<OrderEventData['order']>
  previous_status?: OrderEventData['previous_status']
}

export function makeOrderItem(overrides: Partial<OrderItem> = {}): OrderItem {
  return {
    product_id: randomUUID(),
    sku: 'MUG-1',
    name: 'Mug',
    unit_price: { amount: 1_250, currency: 'EUR' },
    quantity: 2,
    total: { amount: 2_500, currency: 'EUR' },
    ...overrides,
  }
}

/** The event of a new order of one line, with personal data in every field that may hold some. */
export function makeOrderEvent(overrides: OrderEventOverrides = {}): OrderEvent {
  const id = overrides.order?.id ?? randomUUID()
  const at = overrides.at?.toISOString() ?? '2026-03-01T10:00:00.123Z'
  const userId = overrides.order?.user_id ?? randomUUID()
  const order: OrderEventData['order'] = {
    number: 'SF-1001',
    status: 'pending',
    items: [makeOrderItem()],
    total: { amount: 2_500, currency: 'EUR' },
    client_reference: 'reference-of-the-customer',
    shipping_address: { name: 'Ada Lovelace', line1: '12 St James Square', city: 'London', postal_code: 'SW1Y 4JH', country: 'GB' },
    note: 'ring at the blue door',
    version: 1,
    created_at: at,
    updated_at: at,
    status_history: [{ status: 'pending', at, actor: { type: 'customer', id: userId }, reason: null }],
    ...overrides.order,
    id,
    user_id: userId,
  }
  return {
    specversion: '1.0',
    id: `${id}.${order.version}`,
    source: '/orders',
    type: overrides.type ?? 'storefront.order.created',
    subject: id,
    time: order.updated_at,
    datacontenttype: 'application/json',
    sequence: String(order.version).padStart(10, '0'),
    partitionkey: id,
    data: { order, previous_status: overrides.previous_status ?? null },
  }
}

/** `count` messages of as many new orders, with the sequences `from`, `from + 1` … */
export function makeMessages(count: number, from = 1): TopicMessage[] {
  return Array.from({ length: count }, (_, index) => ({
    sequence: from + index,
    event: makeOrderEvent({ order: { number: `SF-${from + index}` } }),
  }))
}
