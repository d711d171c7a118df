import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import pino from 'pino'
import { createEncryption } from '../src/auth/store-secret.ts'
import { DeliveryQueue } from '../src/deliveries/delivery-queue.ts'
import type { OrderEvent } from '../src/orders/events.ts'
import { listDeliveries } from '../src/webhooks/webhook-deliveries.ts'
import { addEndpoint, listEndpoints } from '../src/webhooks/webhook-endpoints.ts'
import { createWebhookSender } from '../src/webhooks/webhook-sender.ts'
import { createWebhookSubscriber } from '../src/webhooks/webhook-subscriber.ts'
import { onCleanup } from './cleanup.ts'
import { createTestDatabase } from './database.ts'
import { eventually } from './eventually.ts'
import { collectLog } from './logs.ts'
import { makeOrderEvent, type OrderEventOverrides } from './order-event-factory.ts'

const logger = pino({ level: 'silent' })
export const encryption = createEncryption('a secret for tests, long enough to be one', 'webhook secret')

/** An event of now: an endpoint receives no event that is older than itself. */
export function makeNewEvent(overrides: OrderEventOverrides = {}): OrderEvent {
  return makeOrderEvent({ at: new Date(), ...overrides })
}

/** A webhook subscriber on a new database, with a clock that a test can advance. Retries are immediate. */
export async function startWebhooks(t: TestContext) {
  const db = await createTestDatabase(t)
  const deliveries = new DeliveryQueue({ pool: db.pool, logger, longestPauseSeconds: 0 })
  await deliveries.start()
  const clock = { passedMs: 0 }
  const { logger: warnings, lines } = collectLog('warn')
  const subscriber = createWebhookSubscriber({
    pool: db.pool,
    deliveries,
    // A receiver on a machine that stands still for a while has not timed out.
    sender: createWebhookSender({ isPrivateAllowed: true, timeoutMs: 60_000 }),
    encryption,
    logger: warnings,
    now: () => new Date(Date.now() + clock.passedMs),
  })
  await subscriber.start()
  onCleanup(t, async () => {
    await subscriber.stop()
    await deliveries.stop()
  })
  return {
    db,
    clock,
    /** Warnings and worse. */
    logged: () => lines.map((line) => JSON.parse(line)),
    handle: subscriber.handle,
    publish: (...events: OrderEvent[]) =>
      subscriber.handle(
        events.map((event, index) => ({ sequence: index + 1, event })),
        new AbortController().signal,
      ),
    add: (url: string, eventTypes: string[] | null = null) => addEndpoint(db.pool, encryption, { url, eventTypes, isPrivateAllowed: true }),
    deliveries: (endpointId: string) => listDeliveries(db.pool, { endpointId, limit: 100 }),
    async endpoint(id: string) {
      return (await listEndpoints(db.pool)).find((endpoint) => endpoint.id === id) ?? assert.fail('no endpoint')
    },
    waitFor: (endpointId: string, event: OrderEvent, status: string) =>
      eventually(
        async () =>
          (await listDeliveries(db.pool, { endpointId, limit: 100 })).find((row) => row.event_id === event.id && row.status === status),
        { what: `the webhook is ${status}` },
      ),
  }
}
