const MINUTES = [0, 1, 2]
const EUR = 'EUR'

/** A body that the OpenAPI document shows. A test checks it against its schema. */
export const EXAMPLE_FIGURES = {
  range: 'hour',
  generated_at: '2026-03-04T18:03:00.120Z',
  step_seconds: 60,
  from: '2026-03-04T18:00:00.000Z',
  to: '2026-03-04T18:03:00.000Z',
  times: MINUTES.map((minute) => `2026-03-04T18:0${minute}:00.000Z`),
  sales: [{ currency: EUR, orders: [2, 0, 1], revenue: [5_160, 0, 1_290] }],
  best_sellers: [
    {
      product_id: '01997a5e-1f20-7c11-b4d2-8e6a0f3b5c21',
      sku: 'MUG-BLUE',
      name: 'Blue mug',
      quantity: 5,
      revenue: [{ amount: 6_450, currency: EUR }],
    },
  ],
  low_stock: [{ product_id: '01997a5e-1f20-7c11-b4d2-8e6a0f3b5c22', sku: 'LAMP-1', name: 'Table lamp', available: 3 }],
  totals: { orders: 3, revenue: [{ amount: 6_450, currency: EUR }] },
}
