import { setTimeout as pause } from 'node:timers/promises'
import { createEncryption } from '../src/auth/store-secret.ts'
import { addEndpoint } from '../src/webhooks/webhook-endpoints.ts'
import { eventually } from '../test/eventually.ts'
import { TEST_SECRET } from '../test/store.ts'
import type { Fault } from './fault.ts'
import type { Round, RoundProcess } from './round.ts'
import { awaitWebhooks, startReceiver } from './webhooks.ts'

const SETTINGS = { WEBHOOK_ALLOW_PRIVATE: 'on' }

/** The events whose mail or webhook a process has leased and not finished. */
async function findLeased(round: Round, table: 'email_deliveries' | 'webhook_deliveries'): Promise<string[]> {
  const { rows } = await round.pool.query<{ event_id: string }>(
    `select event_id from ${table} where status = 'queued' and lease is not null`,
  )
  return rows.map(({ event_id }) => event_id)
}

/** Pauses the process while it holds mails or webhooks. Returns their events. */
async function pauseWithLeases(round: Round, owner: RoundProcess): Promise<{ mails: string[]; webhooks: string[] }> {
  for (;;) {
    owner.child.kill('SIGSTOP')
    // PostgreSQL still executes the statements that the process has sent.
    await pause(50)
    const [mails, webhooks] = [await findLeased(round, 'email_deliveries'), await findLeased(round, 'webhook_deliveries')]
    if (mails.length + webhooks.length > 0) return { mails, webhooks }
    owner.child.kill('SIGCONT')
    await Promise.all([round.shop.trade(1), pause(round.random() * 100)])
  }
}

/** Asserts that every event which arrived more than once was in flight during the pause. */
function assertNoOthersRepeated(what: string, arrived: ReadonlyMap<string, number>, mayRepeat: readonly string[]): void {
  const repeated = [...arrived].filter(([key, count]) => count > 1 && !mayRepeat.some((event) => key.includes(event)))
  if (repeated.length > 0) throw new Error(`${what} that were not in flight came twice: ${repeated.map(([key]) => key).join(', ')}`)
}

/** Pauses the owner of mails and webhooks until another process has sent them, and then lets it continue. */
export const PAUSED_OWNER_FAULT: Fault = {
  name: 'lease-owner-paused',
  title: 'the worker of mails and webhooks paused between taking and finishing, until another has made them, and woken',
  mayRepeatMails: true,
  async run(round, orders) {
    const receiver = await startReceiver(round.cleanup, [])
    const encryption = createEncryption(TEST_SECRET, 'webhook secret')
    await addEndpoint(round.pool, encryption, { url: receiver.url, eventTypes: null, isPrivateAllowed: true })
    await round.survive('stream,lake')
    const owner = await round.start('email,webhook', SETTINGS)
    const trading = round.shop.trade(orders)
    await pause(300 + round.random() * 600)
    const held = await pauseWithLeases(round, owner)
    await round.start('email,webhook', SETTINGS)
    await trading
    await eventually(
      async () => {
        const waiting = new Set([...(await findLeased(round, 'email_deliveries')), ...(await findLeased(round, 'webhook_deliveries'))])
        return [...held.mails, ...held.webhooks].every((event) => !waiting.has(event))
      },
      { what: 'what the paused process held was made by another', timeoutMs: 120_000 },
    )
    owner.child.kill('SIGCONT')
    await round.shop.trade(5)
    await awaitWebhooks(round, receiver.received, await round.countVersions())
    await round.drain()
    assertNoOthersRepeated('mails', round.sink.taken, held.mails)
    assertNoOthersRepeated('webhooks', receiver.received, held.webhooks)
  },
}
