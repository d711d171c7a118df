import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { startHangingServer } from '../../test/hanging-server.ts'
import { makeNewEvent, startWebhooks } from '../../test/webhook-harness.ts'
import { startWebhookReceiver } from '../../test/webhook-receiver.ts'

for (const hanging of [1, 4, 50]) {
  test(`an endpoint gets its webhooks soon while ${hanging} other endpoints never answer`, async (t) => {
    const { add, publish } = await startWebhooks(t)
    const url = `http://127.0.0.1:${await startHangingServer(t)}`
    for (let endpoint = 0; endpoint < hanging; endpoint++) await add(`${url}/${endpoint}`)
    const good = await startWebhookReceiver(t)
    await add(good.url)
    const sentAt = new Map<string, number>()
    const isArrived = (id: string) => good.requests.some(({ headers }) => headers['webhook-id'] === id)
    let longestMs = 0
    const awaited: Promise<void>[] = []
    // Rounds of 20 events, each after the one before has been queued for all endpoints.
    for (let round = 0; round < 10; round++) {
      const events = Array.from({ length: 20 }, () => makeNewEvent())
      await publish(...events)
      const queuedAt = performance.now()
      for (const { id } of events) sentAt.set(id, queuedAt)
      awaited.push(
        ...events.map(async ({ id }) => {
          await eventually(async () => isArrived(id), { what: 'a webhook of the good endpoint' })
          longestMs = Math.max(longestMs, performance.now() - (sentAt.get(id) ?? 0))
        }),
      )
    }
    await Promise.all(awaited)
    t.diagnostic(`${hanging} hanging: the longest delay of ${sentAt.size} webhooks was ${Math.round(longestMs)} ms`)
    // The machine may stand still; without shares it is a quarter of a minute or more.
    assert.ok(longestMs < 5_000, `${Math.round(longestMs)} ms`)
  })
}
