/** Bodies that the OpenAPI document shows. A test checks each against its schema. */

export const EXAMPLE_ACTIVITY = {
  id: 4711,
  at: '2026-03-02T09:15:30.000Z',
  actor: { type: 'admin', id: '01997a5e-0c41-7b02-8d1e-5f0f6a3c9b12' },
  action: 'setStock',
  subject: { type: 'product', id: '01997a5e-1f00-7c11-9a02-6b1d2e3f4a55' },
  before: { stock: 7 },
  after: { stock: 25 },
  request_id: '01997a5e-4b1c-7d3a-9f60-2c8a1b0e7d44',
}
