// A process that commits orders at a steady rate, one transaction each, even while earlier ones are unfinished: an open
// loop.
import { randomUUID, randomUUIDv7 } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { createPool } from '../../src/db/pool.ts'
import { nowMs } from '../rig/clock.ts'
import { orderText } from './order-text.ts'

// The orders of one customer wait for each other's commits, because the pending ones are counted. Orders of different
// customers do not.
const CUSTOMERS = 1_000

export interface WriterLoad {
  url: string
  connections: number
  perSecond: number
  warmUpSeconds: number
  seconds: number
}

/**
 * An order, with the times at which its statement was sent and acknowledged. It was committed in between. With
 * `isWarmUp`, it is not counted.
 */
export interface WrittenOrder {
  id: string
  isWarmUp: boolean
  sentAtMs: number
  committedAtMs: number
}

export interface WriterReport {
  orders: WrittenOrder[]
  /** The longest delay of an order behind its schedule. */
  latestMs: number
}

process.on('message', async (load: WriterLoad) => {
  const pool = createPool({ url: load.url, size: load.connections, applicationName: 'bench-writer', onError: () => {} })
  // Connecting is not measured.
  await Promise.all(Array.from({ length: load.connections }, () => pool.query('select pg_sleep(0.1)')))
  const userIds = Array.from({ length: CUSTOMERS }, () => randomUUID())
  const orders: Promise<WrittenOrder>[] = []
  const total = (load.warmUpSeconds + load.seconds) * load.perSecond
  const began = nowMs()
  let latestMs = 0
  while (orders.length < total) {
    const due = Math.min(total, Math.floor(((nowMs() - began) / 1_000) * load.perSecond))
    while (orders.length < due) {
      const dueAtMs = began + (orders.length / load.perSecond) * 1_000
      const isWarmUp = orders.length < load.warmUpSeconds * load.perSecond
      orders.push(write(isWarmUp, dueAtMs))
    }
    await pause(1)
  }
  const written = await Promise.all(orders)
  await pool.end()
  process.send?.({ orders: written, latestMs } satisfies WriterReport)

  async function write(isWarmUp: boolean, dueAtMs: number): Promise<WrittenOrder> {
    const id = randomUUIDv7()
    const userId = userIds[orders.length % CUSTOMERS] ?? ''
    const { items, history, productIds, total } = orderText(userId)
    const client = await pool.connect()
    try {
      const sentAtMs = nowMs()
      if (!isWarmUp) latestMs = Math.max(latestMs, sentAtMs - dueAtMs)
      await client.query({
        name: 'insert_order',
        text: `insert into orders (id, user_id, status, items, total_amount, currency, status_history, product_ids, created_at, updated_at)
        values ($1, $2, 'pending', $3, $4, 'EUR', $5, $6, $7, $7)`,
        values: [id, userId, items, total, history, productIds, new Date()],
      })
      return { id, isWarmUp, sentAtMs, committedAtMs: nowMs() }
    } finally {
      client.release()
    }
  }
})
