import type { OrderStatus } from './order-status.ts'
import type { Money } from './price.ts'

/** A line of an order, as it was when the order was placed. */
export interface OrderItem {
  product_id: string
  sku: string
  name: string
  unit_price: Money
  quantity: number
  total: Money
}

export interface StatusChange {
  status: OrderStatus
  /** RFC 3339 UTC. */
  at: string
  actor: { type: 'customer' | 'admin' | 'system'; id: string | null }
  reason: string | null
}

export interface ShippingAddress {
  name: string
  line1: string
  line2?: string | null
  city: string
  region?: string | null
  postal_code: string
  /** ISO 3166-1 alpha-2. */
  country: string
  phone?: string | null
}
