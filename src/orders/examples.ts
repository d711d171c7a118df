import { allowedTransitions } from './order-status.ts'

/** Bodies in the OpenAPI document. A test checks each against its schema. */

import { GIVEN_EXAMPLES } from './order-columns.ts'

const PRICE = { amount: 1_290, currency: 'EUR' }
const TOTAL = { amount: 2_580, currency: 'EUR' }
const PLACED_AT = '2026-03-04T18:05:00.000Z'
const PRODUCT_ID = '01997a5e-1f20-7c11-b4d2-8e6a0f3b5c21'
const ATTRIBUTES = { engraving: 'Anna' }
const USER_ID = '01997a5e-0c41-7b02-8d1e-5f0f6a3c9b11'

export const EXAMPLE_NEW_ORDER = {
  items: [{ product_id: PRODUCT_ID, quantity: 2, attributes: ATTRIBUTES }],
  ...GIVEN_EXAMPLES,
}

export const EXAMPLE_NEW_CUSTOMER_ORDER = { email: 'ada@example.com', ...EXAMPLE_NEW_ORDER }

export const EXAMPLE_ORDER = {
  id: '01997a60-2b33-7e45-a1c8-6d0e9f7b3a55',
  number: '100042',
  status: 'pending',
  allowed_transitions: allowedTransitions('pending'),
  items: [
    {
      ...{ product_id: PRODUCT_ID, sku: 'MUG-BLUE', name: 'Blue mug', category: 'Kitchen' },
      ...{ unit_price: PRICE, quantity: 2, total: TOTAL, attributes: ATTRIBUTES },
    },
  ],
  total: TOTAL,
  ...GIVEN_EXAMPLES,
  version: 1,
  created_at: PLACED_AT,
  updated_at: PLACED_AT,
  status_history: [{ status: 'pending', at: PLACED_AT, actor: { type: 'customer', id: USER_ID }, reason: null }],
  original_total: TOTAL,
  adjustments: [],
  payment: null,
  refunded: { amount: 0, currency: 'EUR' },
  parcels: [],
}

export const EXAMPLE_ORDER_DETAIL = {
  ...EXAMPLE_ORDER,
  timeline: [
    {
      version: 1,
      status: 'pending',
      at: PLACED_AT,
      published_at: '2026-03-04T18:05:00.012Z',
      mail: {
        status: 'sent',
        queued_at: '2026-03-04T18:05:00.020Z',
        sent_at: '2026-03-04T18:05:00.310Z',
        failed_at: null,
        bounced_at: null,
        complained_at: null,
        attempts: 1,
      },
      mail_copies: [],
      lake_at: '2026-03-04T18:05:10.000Z',
    },
  ],
}

export const EXAMPLE_ADMIN_ORDER = { ...EXAMPLE_ORDER, user_id: USER_ID, refundable: [] }
export const EXAMPLE_NEW_AMENDMENT = { shipping_address: GIVEN_EXAMPLES.shipping_address, email: 'ada@example.com', reference: 'call-81' }
export const EXAMPLE_AMENDMENT = {
  order: {
    ...EXAMPLE_ADMIN_ORDER,
    ...{ email: 'ada@example.com', version: 2, updated_at: '2026-03-04T18:20:00.000Z' },
    status_history: [
      ...EXAMPLE_ORDER.status_history,
      {
        ...{ status: 'pending', at: '2026-03-04T18:20:00.000Z', reason: null, reference: 'call-81' },
        actor: { type: 'admin', id: '01997a5e-0c41-7b02-8d1e-5f0f6a3c9b12' },
        change: { type: 'amended', amended: ['email'] },
      },
    ],
  },
  is_preview: false,
  amount: { amount: 0, currency: 'EUR' },
  due: TOTAL,
  stock: [],
  mails: [
    { kind: 'amended', to: 'customer' },
    { kind: 'readdressed', to: 'former_address' },
  ],
}
export const EXAMPLE_ADMIN_ORDER_DETAIL = { ...EXAMPLE_ORDER_DETAIL, user_id: USER_ID, refundable: [] }
export const EXAMPLE_NEW_ORDER_NOTE = { text: 'Called: the customer takes it on Friday.' }
export const EXAMPLE_ORDER_NOTE = {
  id: '01997a61-4c55-7b67-83ea-8f2b1c9d5e77',
  author: { type: 'admin', id: '01997a5e-0c41-7b02-8d1e-5f0f6a3c9b12' },
  ...EXAMPLE_NEW_ORDER_NOTE,
  created_at: '2026-03-04T18:20:00.000Z',
}
export const EXAMPLE_QUOTE = { items: EXAMPLE_ORDER.items, total: TOTAL, is_available: true, shortages: [] }

export const EXAMPLE_TRANSITION = {
  to: 'shipped',
  reference: 'parcel-7781',
  tracking: { carrier: 'DHL', number: '00340434161094015902', url: 'https://www.dhl.com/track?id=00340434161094015902' },
}

export const EXAMPLE_NEW_ADJUSTMENT = {
  kind: 'shipping',
  label: 'Express delivery',
  amount: { amount: 490, currency: 'EUR' },
  reference: 'rate-551',
}
export const EXAMPLE_NEW_REFUND = {
  amount: PRICE,
  reference: 're_3NxK2e',
  reason: 'the handle is broken',
  lines: [{ product_id: PRODUCT_ID, quantity: 1 }],
}
export const EXAMPLE_PAYMENT_REPORT = { provider: 'stripe', reference: 'pi_3NxK2e', state: 'paid' }

const PART = [{ product_id: PRODUCT_ID, quantity: 1, line: 0 }]
export const EXAMPLE_SHIPMENT = { lines: PART, reference: EXAMPLE_TRANSITION.reference, tracking: EXAMPLE_TRANSITION.tracking }
export const EXAMPLE_LINES_CANCELLED = { lines: PART, reason: 'no longer made', reference: 'refund-1843' }
export const EXAMPLE_RETURN = { lines: PART, restock: true, reason: 'the handle is broken', reference: 'rma-7' }
