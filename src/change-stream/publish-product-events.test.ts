import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTestDatabase } from '../../test/database.ts'
import { addProduct } from '../../test/store.ts'
import { silent } from '../../test/stream-harness.ts'
import { removeOldProductEvents } from '../catalogue/product-events.ts'
import { CATALOGUE } from '../topic/partitions.ts'
import { createPostgresTopic } from '../topic/postgres/postgres-topic.ts'
import { publishProductEvents } from './publish-product-events.ts'

test('publishes large products in small batches, and one above the batch size alone', async (t) => {
  const { pool, url } = await createTestDatabase(t)
  const { id } = await addProduct(pool)
  const topic = createPostgresTopic(CATALOGUE, { pool, url, logger: silent })
  await pool.query(
    `insert into product_events (product_id, stream, version, type, occurred_at, data)
    select product_id, stream, 1 + number, 'product.updated', now(),
      json_build_object('product', data::jsonb -> 'product' || jsonb_build_object('description', (
        -- Text that cannot be compressed to much less.
        select string_agg(md5(number || ' ' || part), '') from generate_series(1, case number when 25 then 80000 else 8000 end) as part
      )))
    from product_events
    cross join generate_series(1, 30) as number
    where product_id = $1`,
    [id],
  )
  const ends: number[] = []
  assert.equal(await publishProductEvents({ url, db: pool, topic, logger: silent, onProgress: (events) => ends.push(events) }), true)
  const sizes = ends.map((end, index) => end - (ends[index - 1] ?? 0))
  assert.equal(ends.at(-1), 31)
  assert.ok(
    sizes.every((size) => size <= 12),
    String(sizes),
  )
  const { rows } = await pool.query<{ id: string }>('select id from catalogue_messages order by sequence')
  assert.deepEqual(
    rows.map((row) => row.id),
    Array.from({ length: 31 }, (_, index) => `${id}.${index + 1}`),
  )
})

test("publishing a repaired row's event removes its dead letter", async (t) => {
  const { pool, url } = await createTestDatabase(t)
  const { id } = await addProduct(pool)
  const topic = createPostgresTopic(CATALOGUE, { pool, url, logger: silent })
  const publish = async () => {
    assert.equal(await publishProductEvents({ url, db: pool, topic, logger: silent }), true)
    const { rows } = await pool.query<{ letters: string[]; messages: string[] }>(
      `select array(select event_id from catalogue_dead_letters) as letters, array(select id from catalogue_messages order by sequence) as messages`,
    )
    return rows[0]
  }
  await pool.query(
    `insert into product_events (product_id, stream, version, type, occurred_at, data) values ($1, 'product', 2, 'product.updated', now(), '{}')`,
    [id],
  )
  assert.deepEqual(await publish(), { letters: [`${id}.2`], messages: [`${id}.1`] })
  await pool.query(
    `update product_events as broken set data = valid.data
    from product_events as valid
    where valid.product_id = $1 and valid.version = 1 and broken.product_id = $1 and broken.version = 2`,
    [id],
  )
  assert.deepEqual(await publish(), { letters: [], messages: [`${id}.1`, `${id}.2`] })
})

test('old events stay while they are being published, so none returns to the topic', async (t) => {
  const { pool, url } = await createTestDatabase(t)
  const { id } = await addProduct(pool)
  await pool.query(
    `insert into product_events (product_id, stream, version, type, occurred_at, data)
    select product_id, stream, 1 + number, 'product.updated', now(), data
    from product_events
    cross join generate_series(1, 2) as number
    where product_id = $1`,
    [id],
  )
  await pool.query(`update product_events set occurred_at = now() - interval '50 days'`)
  const topic = createPostgresTopic(CATALOGUE, { pool, url, logger: silent })
  const remove = () => removeOldProductEvents(pool, 40, new Date())
  const publish = (at: typeof topic) => publishProductEvents({ url, db: pool, topic: at, logger: silent })
  await publish(topic)
  let removed: number | null = null
  const publishAfterRemoval = async (...messages: Parameters<typeof topic.publish>) => {
    removed = await remove()
    return await topic.publish(...messages)
  }
  await publish(new Proxy(topic, { get: (target, name) => (name === 'publish' ? publishAfterRemoval : Reflect.get(target, name)) }))
  assert.equal(removed, 0)
  assert.equal(await remove(), 1)
  const { rows } = await pool.query<{ id: string }>('select id from catalogue_messages order by sequence')
  assert.deepEqual(
    rows.map((row) => row.id),
    [`${id}.1`, `${id}.3`],
  )
})
