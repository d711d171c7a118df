// A process that reads pages and places orders at a steady rate, even while earlier ones are unanswered: an open loop.
import { randomUUID } from 'node:crypto'
import { Agent, request } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { nowMs } from '../rig/clock.ts'
import type { Account } from '../rig/shop.ts'

export interface SteadyLoad {
  port: number
  accounts: Account[]
  products: string[]
  pagesPerSecond: number
  ordersPerSecond: number
  seconds: number
}

/** Milliseconds from the moment at which each request was due until its answer. */
export interface SteadyReport {
  pages: number[]
  orders: number[]
}

const agent = new Agent({ keepAlive: true, maxSockets: 64 })

process.on('message', async ({ port, accounts, products, pagesPerSecond, ordersPerSecond, seconds }: SteadyLoad) => {
  const began = nowMs()
  const run = async (perSecond: number, send: (number: number) => Promise<void>) => {
    const sent: Promise<number>[] = []
    while (sent.length < perSecond * seconds) {
      const dueMs = began + (sent.length / perSecond) * 1_000
      await pause(Math.max(0, dueMs - nowMs()))
      sent.push(send(sent.length).then(() => nowMs() - dueMs))
    }
    return Promise.all(sent)
  }
  const [pages, orders] = await Promise.all([
    run(pagesPerSecond, () => call(port, 'GET', '/products?limit=20', 200)),
    run(ordersPerSecond, (number) => {
      const token = accounts[number % accounts.length]?.token ?? ''
      const product = products[number % products.length]
      const body = JSON.stringify({ items: [{ product_id: product, quantity: 1 }] })
      return call(port, 'POST', '/orders', 201, {
        ...{ authorization: `Bearer ${token}`, 'idempotency-key': randomUUID(), 'content-type': 'application/json' },
        body,
      })
    }),
  ])
  process.send?.({ pages, orders } satisfies SteadyReport)
})

async function call(
  port: number,
  method: string,
  path: string,
  expected: number,
  { body, ...headers }: Record<string, string> = {},
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  request({ port, host: '127.0.0.1', method, path, headers, agent }, (answer) => {
    // A refusal by an overloaded store counts as an answer.
    answer.resume().on('end', () => {
      if (answer.statusCode === expected || answer.statusCode === 503) resolve()
      else reject(new Error(`${method} ${path} was answered with ${answer.statusCode}`))
    })
  })
    .on('error', reject)
    .end(body)
  return promise
}
