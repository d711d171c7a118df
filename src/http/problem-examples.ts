import type { ErrorCode } from '../errors.ts'

const product_id = '01997a5e-4b1c-7d3a-9f60-2c8a1b0e7d45'
const price = { amount: 1_999, currency: 'EUR' }
const total = { amount: 3_998, currency: 'EUR' }

/** Values of the members that PROBLEM_MEMBERS requires, for the examples of the OpenAPI document. */
export const MEMBER_EXAMPLES: Partial<Record<ErrorCode, object>> = {
  second_factor_required: { challenge: 'Yx3kq0Zc', expires_in: 300, methods: ['totp', 'recovery_code'], passkey_options: null },
  insufficient_stock: { shortages: [{ product_id, requested: 3, available: 1 }] },
  purchase_limit: { limits: [{ product_id, requested: 2, bought: 1, limit: 2 }] },
  price_changed: {
    items: [{ product_id, sku: 'MUG-1', name: 'Mug', category: 'kitchen', unit_price: price, quantity: 2, total }],
    total,
  },
  total_negative: { total: { amount: -100, currency: 'EUR' } },
  too_many_pending_orders: { pending: 10_000, limit: 10_000 },
  too_many_addresses: { limit: 100 },
  change_reference_taken: { current_version: 3 },
  illegal_transition: { current_status: 'cancelled', allowed_transitions: [] },
  quantity_exceeded: { exceeded: [{ product_id, requested: 3, available: 1 }] },
  adjustment_reference_taken: {
    adjustment: { version: 2, kind: 'discount', label: 'Voucher', amount: { amount: -500, currency: 'EUR' } },
  },
  client_reference_taken: { order_id: '01997a5e-4b1c-7d3a-9f60-2c8a1b0e7d46' },
}
