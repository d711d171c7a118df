import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { allowBrokenRows } from '../../test/broken-rows.ts'
import { connectTo } from '../../test/database.ts'
import { insertOrders, makeStreamDatabase, moveOrder } from '../../test/stream-harness.ts'
import { type OrderRecord, RECORD_COLUMNS } from '../orders/events.ts'
import { PgoutputReader } from './pgoutput.ts'
import { PUBLICATION } from './replication-slot.ts'

async function start(t: TestContext) {
  const db = await makeStreamDatabase(t)
  // This client has pg's own parsers. The store's pool has another parser.
  const client = await connectTo(t, db.url)
  const reader = new PgoutputReader<OrderRecord, 'status' | 'version'>({
    table: 'orders',
    columns: RECORD_COLUMNS,
    previousColumns: ['status', 'version'],
  })
  return {
    db,
    /** The row as `pg` reads it. */
    async get(id: string): Promise<Record<string, unknown>> {
      const { rows } = await client.query('select to_jsonb(orders) as known, orders.* from orders where id = $1', [id])
      return Object.fromEntries(RECORD_COLUMNS.filter((name) => name in rows[0].known).map((name) => [name, rows[0][name]]))
    },
    /** The changes that the slot has not delivered yet, each with its bytes. */
    async read() {
      const { rows } = await client.query<{ data: Buffer }>(
        `select data from pg_logical_slot_get_binary_changes($1, null, null, 'proto_version', '1', 'publication_names', $2)`,
        [db.slotName, PUBLICATION],
      )
      return rows.flatMap(({ data }) => {
        const message = reader.read(data)
        return message.kind === 'change' ? [{ ...message, bytes: data }] : []
      })
    },
  }
}

test('reads each row like pg: nulls, any character, infinite times, and years BC', async (t) => {
  const { db, get, read } = await start(t)
  await allowBrokenRows(db.pool)
  const ids = await insertOrders(db.pool, 4)
  const [, full, endless, old] = ids
  await db.pool.query(
    `update orders set note = $2, client_reference = $3, shipping_address = $4, traceparent = 'trace', currency = 'JPY',
      total_amount = 9007199254740991, status_history = $5 where id = $1`,
    [
      full,
      '\ufeffTschüß 🫖\n\\N "{}',
      'ref\t1',
      '{"name": "Łódź", "lines": ["\\u0001"]}',
      '[{"status": "pending", "at": "2026-03-01T10:00:00Z"}]',
    ],
  )
  await db.pool.query(`update orders set created_at = '-infinity', updated_at = 'infinity' where id = $1`, [endless])
  await db.pool.query(`update orders set created_at = '0044-03-15 10:00 BC', updated_at = '0099-12-31 23:59:59.5' where id = $1`, [old])
  const changes = await read()
  assert.deepEqual(
    changes.map(({ record }) => record.id),
    [...ids, full, endless, old],
  )
  // The first row was inserted, and the others were updated.
  assert.deepEqual(
    [0, 4, 5, 6].map((index) => changes[index]?.record),
    await Promise.all(ids.map(get)),
  )
  assert.deepEqual([changes[5]?.record.created_at, changes[5]?.record.updated_at], [-Infinity, Infinity])
})

test('an order keeps its 600 lines when its status changes, although they are not sent again', async (t) => {
  const { db, get, read } = await start(t)
  const [id = ''] = await insertOrders(db.pool, 1, 600)
  await moveOrder(db.pool, id, 'confirmed')
  const [created, confirmed] = await read()
  assert.ok(created !== undefined && confirmed !== undefined)
  assert.ok(confirmed.bytes.length < 1.2 * created.bytes.length, 'the lines came twice')
  assert.equal(confirmed.record.items.length, 600)
  assert.deepEqual(confirmed.record, await get(id))
  assert.deepEqual(confirmed.previous, { status: 'pending', version: 1 })
})

test('continues through added and dropped columns, truncation, and foreign tables in the publication', async (t) => {
  const { db, get, read } = await start(t)
  const [id = ''] = await insertOrders(db.pool, 1)
  const rows = [await get(id)]
  const then = async (...statements: string[]) => {
    for (const statement of statements) await db.pool.query(statement)
    await moveOrder(db.pool, id, 'pending')
    rows.push(await get(id))
  }
  await then(`alter table orders add column colour text default 'red'`)
  await then('alter table orders drop column note')
  await then(
    'alter table orders drop column traceparent',
    'alter table orders add column traceparent text',
    `update orders set traceparent = 'new'`,
  )
  await then(
    'create table returns (id uuid primary key, version integer)',
    `alter publication ${PUBLICATION} add table returns`,
    'insert into returns values (gen_random_uuid(), 1)',
    'truncate returns',
    `select pg_logical_emit_message(true, 'somebody', 'says')`,
  )
  const changes = (await read()).filter(({ record, previous }) => record.version !== previous?.version)
  assert.deepEqual(
    changes.map(({ record }) => record),
    rows,
  )
  assert.deepEqual(
    changes.map(({ record }) => 'note' in record),
    [true, true, false, false, false],
  )
})
