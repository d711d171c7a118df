// The costs of a large store: bytes of orders by table and index, placing and reading beside many orders, several
// slots, partitions. Options: --orders 200000 --customers 10000 --slots 1,2,4
import { randomInt } from 'node:crypto'
import { pagingOf } from '../src/http/pagination.ts'
import { listOrders } from '../src/orders/list-orders.ts'
import { NumberPosition } from '../src/orders/order-page.ts'
import { searchOrders } from '../src/orders/search-orders.ts'
import { withCleanup } from '../test/cleanup.ts'
import { customerId, loadOrders } from './capacity/load-orders.ts'
import { medianTime } from './capacity/median-time.ts'
import { comparePartitions } from './capacity/partitions.ts'
import { compareSlots } from './capacity/slots.ts'
import { startChild } from './rig/child.ts'
import { loadHttp } from './rig/load-http.ts'
import { processorSeconds } from './rig/processor-time.ts'
import { addProducts, makeBaskets, placingConnections, registerCustomers } from './rig/shop.ts'
import { openStore, type Store } from './rig/store.ts'
import { readOptions } from './row.ts'

const SAMPLES = 300
const CLIENTS = 64
const LINES = 3

export async function run(args: string[]): Promise<void> {
  const { more } = readOptions(args, { orders: '200000', customers: '10000', slots: '1,2,4' })
  const [orders, customers] = [Number(more.orders), Number(more.customers)]
  await withCleanup(async (cleanup) => {
    const store = await openStore(cleanup)
    const api = await store.start('api')
    const http = startChild(cleanup, 'rig/http-load.ts')
    const accounts = await registerCustomers(api.port, CLIENTS)
    const connections = placingConnections(accounts, makeBaskets(await addProducts(store.pool), { lines: LINES, clients: CLIENTS }))
    const place = async () => {
      const read = async () => ({ seconds: processorSeconds([api.pid, store.postgresPid]), orders: await newestOrder(store) })
      const before = await read()
      const { p50, p99 } = await loadHttp(http, { port: api.port, warmUpSeconds: 1, seconds: 10, status: 201, connections })
      const after = await read()
      const processorMicroseconds = (1e6 * (after.seconds - before.seconds)) / (after.orders - before.orders)
      return { 'processor µs an order': Math.round(processorMicroseconds), 'p50 ms': p50.toFixed(1), 'p99 ms': p99.toFixed(1) }
    }
    await place()
    const placed: Record<string, object> = { 'beside few orders': await place() }
    const beganAt = performance.now()
    await loadOrders(store.pool, orders, customers)
    const seconds = Math.round((performance.now() - beganAt) / 1_000)
    console.log(`${orders.toLocaleString('en')} orders of ${customers.toLocaleString('en')} customers, loaded in ${seconds} s`)
    console.table(await sizes(store))
    placed['beside these orders'] = await place()
    console.table(placed)
    console.table(await readTimes(store, customers))
    await api.stop()
    console.table(await compareSlots(store.pool, more.slots.split(',').map(Number)))
    console.table(await comparePartitions(store.pool, customers))
  })
}

async function newestOrder({ pool }: Store): Promise<number> {
  const { rows } = await pool.query<{ newest: number }>('select last_value::float8 as newest from order_numbers')
  return rows[0]?.newest ?? 0
}

async function sizes({ pool }: Store): Promise<Record<string, object>> {
  const { rows } = await pool.query<{ name: string; bytes: number; orders: number }>(
    `select name, bytes::float8, (select count(*)::float8 from orders) as orders
    from (
      select 'orders' as name, pg_table_size('orders') as bytes
      union all select indexrelid::regclass::text, pg_relation_size(indexrelid) from pg_index where indrelid = 'orders'::regclass
    ) as parts
    order by bytes desc`,
  )
  return Object.fromEntries(
    rows.map(({ name, bytes, orders }) => [name, { MB: Math.round(bytes / 1e6), 'bytes an order': Math.round(bytes / orders) }]),
  )
}

async function readTimes({ pool }: Store, customers: number): Promise<Record<string, object>> {
  const time = async (work: () => Promise<unknown>) => ({ 'median ms': await medianTime(SAMPLES, work) })
  const nobody = { findBuyers: async (email: string) => ({ email, userIds: [] }), findPeople: null, findProducts: async () => [] }
  const page = pagingOf([], {}, NumberPosition)
  return {
    'GET /orders, a random customer': await time(() => listOrders(pool, customerId(randomInt(customers)), {}, page, [])),
    'operators: newest orders': await time(() => searchOrders(pool, nobody, {}, page)),
    'operators: newest delivered': await time(() => searchOrders(pool, nobody, { status: 'delivered' }, page)),
  }
}
