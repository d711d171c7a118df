import { randomUUID } from 'node:crypto'

const LINES = 3

/** The texts of an order of three lines, as long as the store's. */
export function orderText(userId: string): { items: string; history: string; productIds: string[]; total: number } {
  const items = Array.from({ length: LINES }, () => ({
    product_id: randomUUID(),
    sku: 'SKU-00000',
    name: 'A product of the benchmark',
    unit_price: { amount: 1_250, currency: 'EUR' },
    quantity: 1,
    total: { amount: 1_250, currency: 'EUR' },
  }))
  const history = [{ status: 'pending', at: new Date().toISOString(), actor: { type: 'customer', id: userId }, reason: null }]
  return {
    items: JSON.stringify(items),
    history: JSON.stringify(history),
    productIds: items.map((item) => item.product_id),
    total: 1_250 * LINES,
  }
}
