/** Bodies that the OpenAPI document shows. A test checks each against its schema. */

const RUN_ID = '01997a70-5d10-7c20-8a31-3b9e6f1d2c47'
const OPERATOR_ID = '01997a5e-0c41-7b02-8d1e-5f0f6a3c9b11'
const ORDER_ID = '01997a60-2b33-7e45-a1c8-6d0e9f7b3a55'
const AT = '2026-03-04T18:05:00.000Z'

export const EXAMPLE_AUDIT_RUN = {
  id: RUN_ID,
  kind: 'verify',
  command: 'storefront verify',
  started_by: OPERATOR_ID,
  started_at: AT,
  status: 'running',
  progress: 'read 20,000 orders',
  finished_at: null,
  exit_status: null,
  result: null,
  output: null,
}

export const EXAMPLE_WEBHOOK = {
  id: '01997a61-7a12-7d33-9b40-0c1d2e3f4a5b',
  url: 'https://erp.example/hooks/orders?…',
  event_types: ['storefront.order.created', 'storefront.order.shipped'],
  state: 'failing',
  since: AT,
  reason: null,
  queued: 2,
  failed: 0,
}

export const EXAMPLE_WEBHOOK_INPUT = {
  url: 'https://erp.example/hooks/orders?token=4f1c',
  event_types: ['storefront.order.created', 'storefront.order.shipped'],
}

export const EXAMPLE_NEW_WEBHOOK = {
  ...EXAMPLE_WEBHOOK,
  ...{ state: 'enabled', since: null, queued: 0 },
  secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
}

export const EXAMPLE_WEBHOOK_DELIVERY = {
  event_id: `${ORDER_ID}.1`,
  type: 'storefront.order.created',
  status: 'queued',
  attempts: 3,
  queued_at: AT,
  delivered_at: null,
  last_error: 'the receiver answered 503',
}

export const EXAMPLE_PIPELINE = {
  slot: { name: 'storefront_orders', is_active: true, lag_bytes: 0, retained_bytes: 1_048_576, lost_reason: null },
  topic: { store: 'postgres', epoch: 0, newest_sequence: 20_143 },
  subscribers: [
    { name: 'email', position: 20_143, lag_events: 0, is_active: true, state: null },
    { name: 'webhook', position: 20_143, lag_events: 0, is_active: true, state: null },
    { name: 'lake', position: 20_120, lag_events: 23, is_active: true, state: null },
  ],
  queues: [{ name: 'email', queued: 2, oldest_untried_seconds: 0 }],
  dead_letters: { count: 0, newest: [] },
  lake: { place: 's3://storefront/lake/', files: 214, size_bytes: 18_874_368, newest_file_at: AT },
  last_verify: null,
  unavailable: [],
}
