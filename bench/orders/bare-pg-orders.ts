// The floor of placing orders. Bare `pg` writes the rows that the store writes for an order, or only the order's own
// row, one transaction each, with prepared statements. There is no HTTP, no validation and no prices: the lines and the
// answer are made beforehand.
import { createHash, randomUUID, randomUUIDv7 } from 'node:crypto'
import pg from 'pg'
import { type Measurement, summarise } from '../rig/measurement.ts'

export interface BareOrdersLoad {
  url: string
  poolSize: number
  clients: number
  warmUpSeconds: number
  seconds: number
  userIds: string[]
  /** Whether only the order's row is inserted. */
  isOrderOnly: boolean
  /** The baskets of each client, placed repeatedly. */
  baskets: { product_id: string; quantity: number }[][][]
}

let prepared: { load: BareOrdersLoad; orders: ReturnType<typeof prepare>[][] } | undefined

/**
 * A load is prepared and answered with null, and an empty message runs the last one. Its time can thus be measured
 * without the preparation.
 */
process.on('message', async (message: BareOrdersLoad | Record<never, never>) => {
  if ('baskets' in message) {
    const userIdOf = (client: number) => message.userIds[client % message.userIds.length] ?? ''
    prepared = { load: message, orders: message.baskets.map((mine, client) => mine.map((lines) => prepare(userIdOf(client), lines))) }
    process.send?.(null)
    return
  }
  if (prepared === undefined) throw new Error('no load')
  const { load, orders } = prepared
  const pool = new pg.Pool({ connectionString: load.url, max: load.poolSize })
  const measureFrom = performance.now() + load.warmUpSeconds * 1_000
  const end = measureFrom + load.seconds * 1_000
  const latencies: number[] = []
  const clients = Array.from({ length: load.clients }, async (_, client) => {
    const userId = load.userIds[client % load.userIds.length] ?? ''
    const mine = orders[client] ?? []
    for (let index = 0; performance.now() < end; index++) {
      const order = mine[index % mine.length]
      if (order === undefined) throw new Error('no order')
      const began = performance.now()
      await (load.isOrderOnly ? insertOrder(pool, userId, order) : place(pool, userId, order))
      const now = performance.now()
      if (now >= measureFrom && now < end) latencies.push(now - began)
    }
  })
  await Promise.all(clients)
  await pool.end()
  process.send?.(summarise(latencies, load.seconds, 0) satisfies Measurement)
})

/** The texts of an order with these lines, as long as the store's. */
function prepare(userId: string, lines: { product_id: string; quantity: number }[]) {
  const at = new Date().toISOString()
  const items = lines.map(({ product_id, quantity }) => ({
    product_id,
    sku: 'SKU-00000',
    name: 'A product of the benchmark',
    category: 'bench',
    unit_price: { amount: 1_250, currency: 'EUR' },
    quantity,
    total: { amount: 1_250 * quantity, currency: 'EUR' },
  }))
  const total = items.reduce((sum, item) => sum + item.total.amount, 0)
  const history = [{ status: 'pending', at, actor: { type: 'customer', id: userId }, reason: null }]
  const response = JSON.stringify({
    ...{ id: randomUUID(), number: '1000001', status: 'pending', allowed_transitions: ['confirmed', 'cancelled'], items: [] },
    ...{ total: { amount: total, currency: 'EUR' }, client_reference: null, shipping_address: null, note: null, version: 1 },
    ...{ created_at: at, updated_at: at, status_history: history },
  })
  return {
    productIds: lines.map((line) => line.product_id),
    quantities: lines.map((line) => line.quantity),
    items: JSON.stringify(items),
    history: JSON.stringify(history),
    total,
    response,
    fingerprint: createHash('sha256').update(response).digest(),
  }
}

async function place(pool: pg.Pool, userId: string, basket: ReturnType<typeof prepare>): Promise<void> {
  const client = await pool.connect()
  await client.query('begin')
  await client.query({
    name: 'lock',
    text: 'select product_id, available from inventory where product_id = any($1) order by product_id for update',
    values: [basket.productIds],
  })
  await client.query({
    name: 'take',
    text: `update inventory set available = inventory.available - line.quantity, version = inventory.version + 1
    from unnest($1::uuid[], $2::bigint[]) as line (product_id, quantity)
    where inventory.product_id = line.product_id`,
    values: [basket.productIds, basket.quantities],
  })
  const id = await insertOrder(client, userId, basket)
  await client.query({
    name: 'insert_key',
    text: 'insert into idempotency_keys (user_id, key, fingerprint, order_id, response) values ($1, $2, $3, $4, $5)',
    values: [userId, id, basket.fingerprint, id, basket.response],
  })
  await client.query('commit')
  client.release()
}

async function insertOrder(db: pg.Pool | pg.PoolClient, userId: string, basket: ReturnType<typeof prepare>): Promise<string> {
  const id = randomUUIDv7()
  await db.query({
    name: 'insert_order',
    text: `insert into orders (id, user_id, status, items, total_amount, currency, version, status_history, traceparent, created_at, updated_at,
      product_ids)
    values ($1, $2, 'pending', $3, $4, 'EUR', 1, $5, $6, $7, $7, $8)
    returning number`,
    values: [
      ...[id, userId, basket.items, basket.total, basket.history, '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00', new Date()],
      basket.productIds,
    ],
  })
  return id
}
