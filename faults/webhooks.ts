import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { createEncryption } from '../src/auth/store-secret.ts'
import { addEndpoint } from '../src/webhooks/webhook-endpoints.ts'
import { type Cleanup, onCleanup } from '../test/cleanup.ts'
import { eventually } from '../test/eventually.ts'
import { startHangingServer } from '../test/hanging-server.ts'
import { TEST_SECRET } from '../test/store.ts'
import type { Fault } from './fault.ts'
import type { Round } from './round.ts'

const ENDPOINTS = 2
const FAILURES = ['500', '503', 'cut before', 'cut after'] as const

/** The number of posts that were answered 2xx, or whose answer was lost, by endpoint and event id. */
type Received = Map<string, number>

/**
 * Starts a receiver that fails every third post in one of these ways. After `cut after` the post has been processed.
 */
export async function startReceiver(
  cleanup: Cleanup,
  failures: readonly (typeof FAILURES)[number][] = FAILURES,
): Promise<{ url: string; received: Received }> {
  const received: Received = new Map()
  const receiver = { url: '', received }
  let posts = 0
  const server = createServer(async (request: IncomingMessage, response) => {
    for await (const _ of request) {
      // The body must be read to its end.
    }
    const turn = posts++
    const failure = turn % 3 === 0 ? failures[(turn / 3) % failures.length] : null
    if (failure === 'cut before') return void request.socket.destroy()
    if (failure === '500' || failure === '503') return void response.writeHead(Number(failure)).end()
    const id = `${request.url} ${request.headers['webhook-id']}`
    received.set(id, (received.get(id) ?? 0) + 1)
    if (failure === 'cut after') return void request.socket.destroy()
    response.writeHead(204).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onCleanup(cleanup, () => {
    server.close()
    server.closeAllConnections()
  })
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return receiver
}

/** Asserts that all wanted events arrive at least once, and no others. */
export async function awaitWebhooks(round: Round, received: Received, wanted: number): Promise<void> {
  await eventually(
    async () => {
      // Retries come after a second here, while a store's pauses grow.
      await round.pool.query(`update webhook_deliveries set due_at = now() where status = 'queued' and due_at > now() + interval '1 s'`)
      const { rows } = await round.pool.query<{ queued: number; failed: number }>(
        `select count(*) filter (where status = 'queued')::integer as queued, count(*) filter (where status = 'failed')::integer as failed
        from webhook_deliveries`,
      )
      if ((rows[0]?.failed ?? 0) > 0) throw new Error(`${rows[0]?.failed} webhooks were given up`)
      return rows[0]?.queued === 0 && received.size >= wanted
    },
    { what: `${wanted} webhooks`, timeoutMs: 240_000, pauseMs: 200 },
  )
  if (received.size !== wanted) throw new Error(`${received.size} webhooks came, of ${wanted}`)
}

const SETTINGS = { WEBHOOK_ALLOW_PRIVATE: 'on' }

/** Kills the worker while orders change, and restarts it. */
async function killWorkerWhileTrading(round: Round, orders: number): Promise<void> {
  await round.survive('stream,email,lake')
  const worker = await round.start('webhook', SETTINGS)
  const trading = round.shop.trade(orders)
  await pause(200 + round.random() * 600)
  await worker.kill()
  await trading
  await round.start('webhook', SETTINGS)
  await round.shop.trade(3)
}

/** Receivers that refuse, or disconnect before or after they have processed a post, and a worker that dies. */
export const WEBHOOK_FAULT: Fault = {
  name: 'webhooks-failing',
  title: 'webhooks to receivers that fail every third post, and kill -9 of their worker',
  async run(round, orders) {
    const receiver = await startReceiver(round.cleanup)
    const encryption = createEncryption(TEST_SECRET, 'webhook secret')
    for (let endpoint = 0; endpoint < ENDPOINTS; endpoint++)
      await addEndpoint(round.pool, encryption, { url: `${receiver.url}/${endpoint}`, eventTypes: null, isPrivateAllowed: true })
    await killWorkerWhileTrading(round, orders)
    await awaitWebhooks(round, receiver.received, (await round.countVersions()) * ENDPOINTS)
  },
}

/** Endpoints that accept and never answer, beside a good one, which must get everything. */
export const HANGING_RECEIVER_FAULTS: Fault[] = [1, 4, 50].map((hanging) => ({
  name: `webhooks-hanging-${hanging}`,
  title: `${hanging} of ${hanging + 1} receivers of webhooks accept and never answer, and kill -9 of their worker`,
  async run(round, orders) {
    const receiver = await startReceiver(round.cleanup, [])
    const url = `http://127.0.0.1:${await startHangingServer(round.cleanup)}`
    const encryption = createEncryption(TEST_SECRET, 'webhook secret')
    const add = (to: string) => addEndpoint(round.pool, encryption, { url: to, eventTypes: null, isPrivateAllowed: true })
    for (let endpoint = 0; endpoint < hanging; endpoint++) await add(`${url}/${endpoint}`)
    await add(`${receiver.url}/good`)
    await killWorkerWhileTrading(round, orders)
    const wanted = await round.countVersions()
    await eventually(async () => receiver.received.size >= wanted, { what: `${wanted} webhooks`, timeoutMs: 120_000, pauseMs: 200 })
    if (receiver.received.size !== wanted) throw new Error(`${receiver.received.size} webhooks came, of ${wanted}`)
  },
}))
