import { makeOrderItem } from '../../test/order-event-factory.ts'

const LINES = 3

/** The texts of an order of three lines, as long as the store's. */
export function orderText(userId: string): { items: string; history: string; productIds: string[]; total: number } {
  const total = { amount: 1_250, currency: 'EUR' }
  const named = { sku: 'SKU-00000', name: 'A product of the benchmark' }
  const items = Array.from({ length: LINES }, () => makeOrderItem({ ...named, quantity: 1, total }))
  const history = [{ status: 'pending', at: new Date().toISOString(), actor: { type: 'customer', id: userId }, reason: null }]
  return {
    items: JSON.stringify(items),
    history: JSON.stringify(history),
    productIds: items.map((item) => item.product_id),
    total: total.amount * LINES,
  }
}
