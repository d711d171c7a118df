import type { Pool } from '../../src/db/pool.ts'
import { processorSeconds } from '../rig/processor-time.ts'

const TRANSACTIONS = 4_000
const ORDERS_EACH = 30

/**
 * Compares the cost of one replication slot with that of several slots that share the orders by a hash of the id (row
 * filters, PostgreSQL 15 and later). Every slot decodes the whole log and sends its share.
 */
export async function compareSlots(pool: Pool, numbers: readonly number[]): Promise<Record<string, object>> {
  const shares = numbers.flatMap((slots) =>
    Array.from({ length: slots }, (_, share) => ({ slots, share, name: `capacity_${slots}_${share}` })),
  )
  for (const { slots, share, name } of shares) {
    await pool.query(`create publication ${name} for table orders where (abs(uuid_hash(id) % ${slots}) = ${share})`)
  }
  for (const { name } of shares) await pool.query(`select pg_create_logical_replication_slot('${name}', 'pgoutput')`)
  await pool.query('alter table orders disable trigger user')
  for (let transaction = 0; transaction < TRANSACTIONS; transaction++) {
    await pool.query(
      `insert into orders (id, number, user_id, status, items, product_ids, total_amount, currency, status_history, created_at, updated_at)
      select uuidv7(), nextval('order_numbers'), user_id, status, items, product_ids, total_amount, currency, status_history, now(), now()
      from (select * from orders limit ${ORDERS_EACH} offset $1) as copied`,
      [transaction],
    )
  }
  await pool.query('alter table orders enable trigger user')
  const results: Record<string, object> = {}
  for (const slots of numbers) {
    const beganAt = performance.now()
    const decoded = await Promise.all(shares.filter((share) => share.slots === slots).map(({ name }) => decode(pool, name)))
    const seconds = (performance.now() - beganAt) / 1_000
    const events = decoded.reduce((sum, share) => sum + share.events, 0)
    results[`${slots} slot${slots === 1 ? '' : 's'}`] = {
      orders: events,
      'orders/s together': Math.round(events / seconds),
      'processor µs an order': Math.round((1e6 * decoded.reduce((sum, share) => sum + share.processorSeconds, 0)) / events),
      'largest share': `${((100 * Math.max(...decoded.map((share) => share.events))) / events).toFixed(1)} %`,
    }
  }
  for (const { name } of shares) await pool.query(`select pg_drop_replication_slot('${name}')`)
  return results
}

/** Reads everything that a slot has, like its reader. */
async function decode(pool: Pool, name: string): Promise<{ events: number; processorSeconds: number }> {
  const client = await pool.connect()
  try {
    const { rows: backend } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
    const pids = [backend[0]?.pid ?? 0]
    const before = processorSeconds(pids)
    const { rows } = await client.query<{ events: number }>(
      // The message of an inserted row begins with I.
      `select count(*) filter (where get_byte(data, 0) = ascii('I'))::integer as events
      from pg_logical_slot_peek_binary_changes($1::name, null, null, 'proto_version', '1', 'publication_names', $1::text)`,
      [name],
    )
    return { events: rows[0]?.events ?? 0, processorSeconds: processorSeconds(pids) - before }
  } finally {
    client.release()
  }
}
