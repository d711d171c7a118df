import { EXAMPLE_ORDER } from '../orders/examples.ts'
import { withoutAttributes } from '../orders/line-attributes.ts'

/** Example bodies of the OpenAPI document. A test checks each against its schema. */

const CREATED_AT = '2026-03-02T09:15:30.000Z'

export const EXAMPLE_CUSTOMER = {
  id: '01997a5e-0c41-7b02-8d1e-5f0f6a3c9b11',
  email: 'ada@example.com',
  name: 'Ada Lovelace',
  role: 'customer',
  is_email_verified: true,
  language: 'en',
  owner_id: null,
  blocked_at: null,
  blocked_reason: null,
  created_at: CREATED_AT,
  orders: { count: 2, is_complete: true, totals: [{ amount: 5_160, currency: 'EUR' }], last_order_at: '2026-03-04T18:05:00.000Z' },
}

export const EXAMPLE_ADDRESS = {
  id: '01997a5e-3a10-7c5e-9d61-0f2b7c4e8a19',
  address: { name: 'Ada Lovelace', line1: '12 St James Square', city: 'London', postal_code: 'SW1Y 4JH', country: 'GB' },
  is_default: true,
  created_at: CREATED_AT,
}

export const EXAMPLE_ORDER_LINK = { token: 'AZl6YCszfkWhyG0On3s6VWpQK9D3mZr0tB1nYw4cE7uXq2LsHf8VdJk5aGoRiT6e' }

const { number, status, items, total, refunded, adjustments, parcels, created_at, updated_at } = EXAMPLE_ORDER
export const EXAMPLE_LINKED_ORDER = {
  ...{ number, status, items: items.map(withoutAttributes), total, refunded, adjustments, parcels, created_at, updated_at },
  history: [{ status, at: created_at }],
  can_cancel: true,
  asks_postal_code: true,
  shipping_address: null,
  billing_address: null,
  vat_number: null,
  language: 'en',
  shop: 'Example shop',
}
