/** Bodies that the OpenAPI document shows. A test checks each against its schema. */

const ORDER_ID = '01997a60-2b33-7e45-a1c8-6d0e9f7b3a55'

export const EXAMPLE_MAIL_SUMMARY = {
  event_id: `${ORDER_ID}.1`,
  order_id: ORDER_ID,
  order_number: '100042',
  kind: 'created',
  to: 'ada@example.com',
  status: 'sent',
  attempts: 1,
  queued_at: '2026-03-04T18:05:00.020Z',
  send_after: '2026-03-04T18:05:00.020Z',
  next_attempt_at: null,
  sent_at: '2026-03-04T18:05:00.310Z',
  failed_at: null,
  last_error: null,
}

export const EXAMPLE_RENDERED_MAIL = {
  subject: 'We have received your order 100042',
  text: 'Hello Ada Lovelace,\n\nWe have received your order 100042 and will confirm it soon.\n',
  html: '<!doctype html>\n<html lang="en"><body><p>Hello Ada Lovelace,</p></body></html>\n',
}

export const EXAMPLE_MAIL = { ...EXAMPLE_MAIL_SUMMARY, rendered: EXAMPLE_RENDERED_MAIL }
export const EXAMPLE_MAIL_RETRY = { queued: 3, has_more: false }
export const EXAMPLE_MAIL_TEMPLATE = { name: 'created', kind: 'order', language: 'en', locale: 'en', source: 'built_in', own_files: [] }
export const EXAMPLE_MAIL_TEMPLATE_LIST = { data: [EXAMPLE_MAIL_TEMPLATE] }
export const EXAMPLE_MAIL_TEMPLATE_PREVIEW = { ...EXAMPLE_MAIL_TEMPLATE, rendered: EXAMPLE_RENDERED_MAIL }
