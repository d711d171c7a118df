import assert from 'node:assert/strict'
import { Agent, request } from 'node:http'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { addBuyer } from './buyers.ts'
import { onCleanup } from './cleanup.ts'
import { eventually } from './eventually.ts'
import { startStore, TEST_SECRET } from './store.ts'
import { type StoreProcess, serve } from './store-process.ts'

const CLIENTS = 8
const CHECK_MS = 100

/** A process behind the proxy, with connections that are kept. */
interface Backend {
  process: StoreProcess
  agent: Agent
  isReady: boolean
}

test('a rolling restart of two API processes behind a proxy that asks /readyz fails no request', async (t) => {
  const store = await startStore(t, { baseUrl: 'http://localhost:3000' })
  const [buyer, lamp] = [await addBuyer(store), await store.addProduct({ stock: 1_000_000 })]
  const env = {
    ...{
      DATABASE_URL: store.addresses.api,
      STOREFRONT_SECRET: TEST_SECRET,
      BASE_URL: 'http://localhost:3000',
      ROLES: 'api',
      OPS_PORT: 'off',
    },
    ...{ DATA_DIR: store.config.dataDir, DRAIN_DELAY_SECONDS: '2', MAX_PENDING_ORDERS_PER_USER: 'off' },
  }
  const start = async (): Promise<Backend> => ({ process: await serve(t, { env }), agent: new Agent({ keepAlive: true }), isReady: true })
  const backends = [await start(), await start()]
  let isOver = false
  onCleanup(t, () => {
    isOver = true
    for (const { agent } of backends) agent.destroy()
  })
  const asking = (async () => {
    while (!isOver) {
      await Promise.all(
        backends.map(async (backend) => {
          backend.isReady = await fetch(`${backend.process.url}/readyz`, { signal: AbortSignal.timeout(5_000) }).then(
            ({ ok }) => ok,
            () => false,
          )
        }),
      )
      await delay(CHECK_MS)
    }
  })()
  let turn = 0
  const send = (method: string, path: string, body: string) => {
    const ready = backends.filter(({ isReady }) => isReady)
    const backend = ready[turn++ % ready.length] ?? assert.fail('no process is ready')
    const headers = {
      authorization: `Bearer ${buyer.token}`,
      ...(body === '' ? {} : { 'content-type': 'application/json', 'content-length': body.length }),
    }
    return new Promise<string>((resolve) => {
      const sent = request(new URL(path, backend.process.url), { method, headers, agent: backend.agent }, (answer) => {
        answer.resume().on('end', () => resolve(String(answer.statusCode)))
      })
      // Nothing is sent a second time.
      sent.on('error', ({ message }) => resolve(message))
      sent.end(body)
    })
  }
  const counts: Record<string, number> = {}
  const order = JSON.stringify({ items: [{ product_id: lamp.id, quantity: 1 }] })
  const clients = Array.from({ length: CLIENTS }, async (_, index) => {
    while (!isOver) {
      const outcome = index % 2 === 0 ? await send('POST', '/orders', order) : await send('GET', '/orders?limit=1', '')
      counts[outcome] = (counts[outcome] ?? 0) + 1
    }
  })
  const answered = () => (counts[200] ?? 0) + (counts[201] ?? 0)
  for (const index of [0, 1]) {
    const before = answered()
    await eventually(async () => answered() > before + 20)
    const old = backends[index] ?? assert.fail()
    assert.equal(await old.process.end('SIGTERM'), 0)
    old.agent.destroy()
    backends[index] = await start()
  }
  const before = answered()
  await eventually(async () => answered() > before + 20)
  isOver = true
  await Promise.all([asking, ...clients])
  assert.deepEqual(Object.keys(counts).toSorted(), ['200', '201'], JSON.stringify(counts))
})
