import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { collectLog } from '../../test/logs.ts'
import { makeOrderEvent } from '../../test/order-event-factory.ts'
import { startStore } from '../../test/store.ts'
import { untilReadable } from './until-readable.ts'

const store = await startStore({ after })

test('waits until every order can be read in the version of its event, for a limited time', async () => {
  const [ada, lamp] = [await store.register(), await store.addProduct()]
  const body = { items: [{ product_id: lamp.id, quantity: 1 }] }
  const placed = await ada.call('POST', '/orders', { body })
  const first = makeOrderEvent({ order: { id: placed.json.id, version: 1 } })
  const second = makeOrderEvent({ order: { id: placed.json.id, version: 2 } })
  const { logger, lines } = collectLog()
  const context = { pool: store.pool, logger }
  const { signal } = new AbortController()
  await untilReadable(context, [first], signal)
  let isCancelled = false
  const waiting = untilReadable(context, [first, second], signal).then(() => isCancelled)
  await ada.ok('POST', `/orders/${placed.json.id}/cancel`)
  isCancelled = true
  assert.equal(await waiting, true)
  assert.deepEqual(lines, [])
  const unknown = makeOrderEvent({ order: { id: randomUUID() } })
  await untilReadable(context, [unknown], signal)
  assert.deepEqual(
    lines.map((line) => JSON.parse(line).event),
    [unknown.id],
  )
  await assert.rejects(untilReadable(context, [unknown], AbortSignal.timeout(100)), { name: 'AbortError' })
})
