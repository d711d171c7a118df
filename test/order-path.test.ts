import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { eventually } from './eventually.ts'
import { queryFolder } from './lake-harness.ts'
import { startStore } from './store.ts'

test('carries an order from the request to the mail and the lake', async (t) => {
  const store = await startStore(t, { roles: ['api', 'stream', 'email', 'lake'], lakeFlushSeconds: 1 })
  const ada = await store.register({ name: 'Ada' })
  const lamp = await store.addProduct({ stock: 5, amount: 1_999 })

  const placed = await store.call('POST', '/orders', { token: ada.token, body: { items: [{ product_id: lamp.id, quantity: 2 }] } })
  assert.equal(placed.status, 201, placed.text)
  assert.deepEqual(placed.json.total, { amount: 3_998, currency: 'EUR' })
  const eventId = `${placed.json.id}.1`

  const mails = await eventually(
    async () => {
      const { rows } = await store.pool.query(`select event_id, status from email_deliveries where status = 'sent'`)
      return rows.length > 0 && rows
    },
    { what: 'the mail' },
  )
  assert.deepEqual(mails, [{ event_id: eventId, status: 'sent' }])
  assert.deepEqual(readdirSync(join(store.config.dataDir, 'mail')), [`${eventId}.eml`])

  const lake = join(store.config.dataDir, 'lake')
  const rows = await eventually(
    async () => {
      const result = await queryFolder(lake, 'select event_id, status, user_id, total_amount from order_events')
      return result.rows.length > 0 && result.rows
    },
    { what: 'the lake row' },
  )
  assert.deepEqual(rows, [[eventId, 'pending', ada.id, '3998']])
})
