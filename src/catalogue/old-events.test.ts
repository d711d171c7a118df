import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createCatalogueOperator, eur } from '../../test/catalogue-operator.ts'
import { startStore } from '../../test/store.ts'
import { saveStoredSequence } from '../topic/subscriber-lag.ts'
import { removeOldProductEvents } from './product-events.ts'

const store = await startStore({ after })
const { create, patch, setStock, typesOf } = await createCatalogueOperator(store)

/** What the change stream does: a message for each event of these products. */
const publish = async (...ids: string[]) => {
  await store.pool.query(
    `insert into catalogue_messages (id, position, event)
    select product_id || case stream when 'stock' then '.stock.' else '.' end || version, '', '{}'
    from product_events
    where product_id = any($1)
    order by product_id, stream, version`,
    [ids],
  )
}
const messagesOf = async (id: string) => {
  const { rows } = await store.pool.query('select id, sequence from catalogue_messages where id like $1 order by sequence', [`${id}%`])
  return rows
}
const age = (id: string) =>
  store.pool.query(`update product_events set occurred_at = now() - interval '50 days' where product_id = $1`, [id])

test('old events are removed with their messages, except the newest of each product, price and stock', async () => {
  const { id } = await create({ stock: 1 })
  await patch(id, { price: eur(2) })
  await patch(id, { price: eur(3) })
  await patch(id, { name: 'Last' })
  for (const stock of [0, 1, 0]) await setStock(id, stock)
  await age(id)
  assert.equal(await removeOldProductEvents(store.pool, 40, new Date()), 0, 'they are still to be published')
  await publish(id)
  assert.equal(await removeOldProductEvents(store.pool, 60, new Date()), 0)
  assert.equal(await removeOldProductEvents(store.pool, 40, new Date()), 6)
  assert.deepEqual(await typesOf(id), ['4 price.changed', '6 product.updated'])
  assert.deepEqual(await typesOf(id, 'stock'), ['4 stock.depleted'])
  assert.deepEqual(
    (await messagesOf(id)).map((message) => message.id),
    [`${id}.4`, `${id}.6`, `${id}.stock.4`],
  )
  await patch(id, { name: 'After' })
  assert.deepEqual((await typesOf(id)).slice(-1), ['7 product.updated'])
  assert.equal(await removeOldProductEvents(store.pool, 40, new Date()), 1)
})

test('old events stay until every subscriber has read them, even a subscriber that stores its own position', async (t) => {
  const [first, second] = [await create(), await create()]
  for (const { id } of [first, second]) for (const name of ['B', 'C']) await patch(id, { name })
  for (const { id } of [first, second]) await age(id)
  await publish(first.id)
  const end = (await messagesOf(first.id)).at(-1)?.sequence
  await publish(second.id)
  t.after(() => store.pool.query(`delete from topic_subscribers where partition = 'catalogue'`))
  await store.pool.query(
    `insert into topic_subscribers (name, sequence, partition) values ('catalogue-one', $1, 'catalogue'), ('catalogue-two', null, 'catalogue'),
      ('of-orders', 0, 'orders')`,
    [end + 100],
  )
  assert.equal(await removeOldProductEvents(store.pool, 40, new Date()), 0, 'one has not reported yet')
  await saveStoredSequence(store.pool, 'catalogue-two', end)
  // The creation has the only price.
  assert.equal(await removeOldProductEvents(store.pool, 40, new Date()), 1)
  assert.deepEqual(await typesOf(first.id), ['1 product.created', '3 product.updated'])
  assert.deepEqual((await typesOf(second.id)).length, 3)
  await saveStoredSequence(store.pool, 'catalogue-two', end + 100)
  assert.equal(await removeOldProductEvents(store.pool, 40, new Date()), 1)
})

test('a removal continues where the last one ended, and never removes events younger than 31 days', async (t) => {
  t.after(() => store.pool.query('delete from catalogue_epochs'))
  await store.pool.query(`insert into catalogue_epochs (epoch, stream) values (1, 'CATALOGUE')`)
  const { id } = await create()
  for (const name of ['B', 'C', 'D']) await patch(id, { name })
  const remove = async (after: object, most: number) => {
    const { rows } = await store.pool.query(`select * from remove_old_product_events('infinity', $1, $2, $3, $4)`, [
      ...Object.values(after),
      most,
    ])
    return rows[0]
  }
  assert.equal((await remove({ id, stream: 'product', version: 0 }, 9)).removed, 0, 'they are young')
  await age(id)
  const first = await remove({ id, stream: 'product', version: 0 }, 2)
  assert.deepEqual(first, { removed: 1, product_id: id, stream: 'product', version: 2 })
  const second = await remove({ id, stream: 'product', version: 2 }, 1)
  assert.deepEqual(second, { removed: 1, product_id: id, stream: 'product', version: 3 })
  assert.deepEqual(await remove({ id: 'ffffffff-ffff-ffff-ffff-ffffffffffff', stream: 'stock', version: 1 }, 9), {
    ...{ removed: 0, product_id: null, stream: null, version: null },
  })
})

test('old events in a broker, and old events without a message, are removed too', async (t) => {
  const { id } = await create()
  for (const name of ['B', 'C', 'D']) await patch(id, { name })
  await age(id)
  await store.pool.query(`insert into catalogue_dead_letters (event_id, reason, position) values ($1, 'a reason', '')`, [`${id}.2`])
  assert.equal(await removeOldProductEvents(store.pool, 40, new Date()), 1)
  t.after(() => store.pool.query('delete from catalogue_epochs'))
  await store.pool.query(`insert into catalogue_epochs (epoch, stream) values (1, 'CATALOGUE')`)
  assert.equal(await removeOldProductEvents(store.pool, 40, new Date()), 1)
})
