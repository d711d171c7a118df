import assert from 'node:assert/strict'
import { createHash, randomUUID } from 'node:crypto'
import { after, type TestContext, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import type pg from 'pg'
import { createTestDatabase } from '../../../test/database.ts'
import { addProduct, readStock } from '../../../test/store.ts'
import { PriceList } from '../../catalogue/products.ts'
import { createPool } from '../../db/pool.ts'
import { mergeLines } from '../basket.ts'
import { Caution } from './caution.ts'
import type { OrderRequest, Outcome } from './desk.ts'
import { LockedRows } from './locked-rows.ts'
import { type PlacingOptions, placeOrders } from './place-orders.ts'

const { pool, url } = await createTestDatabase({ after })

/** What one process of the store has for placing, and the names of the statements that it sent. */
function openShop(t: TestContext) {
  const placing = createPool({ url, size: 2, applicationName: 'placing', onError: () => {}, isPipelined: true })
  t.after(() => placing.end())
  const sent: string[] = []
  placing.on('connect', (client) => {
    const query = client.query.bind(client) as (...args: unknown[]) => unknown
    client.query = ((...args: [pg.QueryConfig | string]) => {
      sent.push(typeof args[0] === 'string' ? args[0] : (args[0].name ?? ''))
      return query(...args)
    }) as typeof client.query
  })
  const options: PlacingOptions = {
    pool: placing,
    now: () => new Date(),
    locationOf: (id) => id,
    maxQuantityPerProductAndUser: null,
    maxPendingOrdersPerUser: null,
    prices: new PriceList(),
    lockedRows: new LockedRows(pool),
    caution: new Caution(),
  }
  return { options, sent, place: (...requests: OrderRequest[]) => placeOrders(options, requests) }
}

function request(
  product: { id: string },
  more: { quantity?: number; key?: string; userId?: string; reference?: string } = {},
): OrderRequest {
  const { quantity = 1, key, userId = randomUUID(), reference = null } = more
  return {
    userId,
    basket: mergeLines([{ product_id: product.id, quantity }]),
    expectedTotal: null,
    clientReference: reference,
    shippingAddress: null,
    note: null,
    idempotencyKey: key === undefined ? null : { userId, key, fingerprint: createHash('sha256').update(product.id).digest() },
    traceparent: '',
  }
}

const kinds = (outcomes: readonly Outcome[]) => outcomes.map(({ kind }) => kind)
/** Whether stock was looked at before it was taken. */
const hasLooked = (sent: readonly string[]) => sent.includes('lock_stock')
const countOrders = async ({ id }: { id: string }) =>
  Number((await pool.query<{ count: string }>('select count(*) from orders where product_ids @> array[$1::uuid]', [id])).rows[0]?.count)

test('places a batch without a look where nothing stands in the way', async (t) => {
  const shop = openShop(t)
  const [lamp, untracked] = [await addProduct(pool, { stock: 5 }), await addProduct(pool, { stock: null })]
  const outcomes = await shop.place(request(lamp, { key: 'a', reference: 'r' }), request(untracked), request(lamp, { key: 'b' }))
  assert.deepEqual(kinds(outcomes), ['placed', 'placed', 'placed'])
  assert.equal(hasLooked(shop.sent), false)
  assert.deepEqual(await readStock(pool, lamp), [3])
})

test('looks at what there is, and wastes nothing on a promise, when it can be seen that an order will be refused', async (t) => {
  const shop = openShop(t)
  const [lamp, gone] = [await addProduct(pool, { stock: 5 }), await addProduct(pool, { stock: 0 })]
  assert.deepEqual(kinds(await shop.place(request(lamp), request(gone))), ['placed', 'refused'])
  assert.deepEqual([hasLooked(shop.sent), shop.sent.includes('take_stock')], [true, false])
})

/** Each makes PostgreSQL undo what was promised. */
for (const [what, spoil] of Object.entries({
  'the last piece is asked for': async (lamp: { id: string }) => [request(lamp, { quantity: 5 })],
  'less is there': async (lamp: { id: string }) => {
    await pool.query('update inventory set available = 1 where product_id = $1', [lamp.id])
    return [request(lamp)]
  },
  'the price is another': async (lamp: { id: string }) => {
    await pool.query('update products set price_amount = 7 where id = $1', [lamp.id])
    return [request(lamp)]
  },
  'a request came before': async (_: { id: string }, earlier: OrderRequest) => [earlier],
  'a reference is taken': async (lamp: { id: string }, { userId }: OrderRequest) => [request(lamp, { userId, reference: 'mine' })],
  'a stock row is missing': async (lamp: { id: string }) => {
    await pool.query('delete from inventory where product_id = $1', [lamp.id])
    return []
  },
})) {
  test(`places with a look, and only once, when ${what}`, async (t) => {
    const shop = openShop(t)
    const [lamp, vase] = [await addProduct(pool, { stock: 6 }), await addProduct(pool, { stock: 5 })]
    const earlier = request(vase, { key: randomUUID(), reference: 'mine' })
    assert.deepEqual(kinds(await shop.place(earlier, request(lamp))), ['placed', 'placed'])
    assert.equal(hasLooked(shop.sent), false)
    const neighbour = request(lamp)
    const requests = await spoil(lamp, earlier)
    const lookedFor = shop.sent.length
    const outcomes = await shop.place(...requests, neighbour)
    assert.ok(shop.sent.slice(lookedFor).includes('take_stock') && hasLooked(shop.sent))
    const placed = outcomes.filter((outcome) => outcome.kind === 'placed' && !outcome.order.isReplay).length
    assert.equal(await countOrders(lamp), placed + 1)
    const { rows } = await pool.query('select id from orders where product_ids @> array[$1::uuid] and total_amount = 7', [lamp.id])
    assert.equal(rows.length, what === 'the price is another' ? 2 : 0)
  })
}

test('places a new order for a key that has expired, without a look', async (t) => {
  const shop = openShop(t)
  const lamp = await addProduct(pool, { stock: 5 })
  const again = request(lamp, { key: 'old' })
  await shop.place(again)
  await pool.query(`update idempotency_keys set created_at = now() - interval '25 hours' where user_id = $1`, [again.userId])
  const [outcome] = await shop.place(again)
  assert.ok(outcome?.kind === 'placed' && !outcome.order.isReplay)
  assert.deepEqual([hasLooked(shop.sent), await countOrders(lamp)], [false, 2])
})

test('places one order for one key, and one for one reference, that come to two processes at once', async (t) => {
  const [one, other] = [openShop(t), openShop(t)]
  const lamp = await addProduct(pool, { stock: 100 })
  await Promise.all([one.place(request(lamp)), other.place(request(lamp))])
  for (let round = 0; round < 10; round++) {
    const [keyed, referring] = [request(lamp, { key: randomUUID() }), request(lamp, { reference: randomUUID() })]
    const outcomes = (await Promise.all([one.place(keyed, referring), other.place(referring, keyed)])).flat()
    assert.ok(outcomes.filter((outcome) => outcome.kind === 'placed' && !outcome.order.isReplay).length <= 2)
    assert.equal(await countOrders(lamp), 2 * round + 4)
  }
  assert.deepEqual(await readStock(pool, lamp), [78])
})

test('numbers later orders higher, however each was placed', async (t) => {
  const shop = openShop(t)
  const [lamp, vase] = [await addProduct(pool, { stock: 10 }), await addProduct(pool, { stock: 10 })]
  await shop.place(request(lamp), request(vase))
  const cautious = new Caution()
  cautious.failed()
  await pool.query(`create function dawdle() returns trigger language plpgsql as $$ begin perform pg_sleep(0.1); return new; end $$`)
  await pool.query(`create trigger dawdle before insert on orders for each row when (new.note = 'slow') execute function dawdle()`)
  const locked = Promise.withResolvers<void>()
  const slow = [{ ...request(vase), note: 'slow' }, request(vase)]
  const first = placeOrders({ ...shop.options, caution: cautious }, slow, locked.resolve)
  await locked.promise
  const sentBefore = shop.sent.length
  const second = shop.place(request(lamp))
  const numbers = [...(await first), ...(await second)].map((outcome) =>
    outcome.kind === 'placed' ? Number(JSON.parse(outcome.order.json).number) : Number.NaN,
  )
  await pool.query('drop trigger dawdle on orders')
  assert.deepEqual([hasLooked(shop.sent), hasLooked(shop.sent.slice(sentBefore))], [true, false])
  assert.deepEqual(
    numbers,
    numbers.toSorted((a, b) => a - b),
  )
})

test('rejects, and leaves no failure unheard, when the connection is gone as it is used', async (t) => {
  const shop = openShop(t)
  const lamp = await addProduct(pool, { stock: 5 })
  await shop.place(request(lamp))
  const { rows } = await shop.options.pool.query<{ pid: number }>('select pg_backend_pid() as pid')
  const pid = rows[0]?.pid ?? assert.fail()
  process.kill(pid, 'SIGSTOP')
  const placing = assert.rejects(shop.place(request(lamp)), /terminat|ECONNRESET|ended/i)
  // What is written in one turn of the event loop leaves at its end.
  await setImmediate()
  await setImmediate()
  process.kill(pid, 'SIGTERM')
  process.kill(pid, 'SIGCONT')
  await placing
  assert.equal(await countOrders(lamp), 1)
  assert.deepEqual(kinds(await shop.place(request(lamp))), ['placed'])
})

test('leaves nothing behind when the transaction cannot begin', async (t) => {
  const shop = openShop(t)
  const lamp = await addProduct(pool, { stock: 5 })
  await shop.place(request(lamp))
  const key = randomUUID()
  let refuses = true
  const client = await shop.options.pool.connect()
  const query = client.query.bind(client) as (...args: unknown[]) => unknown
  client.query = ((...args: unknown[]) =>
    refuses && String(args[0]).startsWith('begin') ? query('select 1/0') : query(...args)) as typeof client.query
  client.release()
  await assert.rejects(shop.place(request(lamp, { key }), request(lamp, { reference: 'r' })), { code: '22012' })
  assert.deepEqual([await countOrders(lamp), await readStock(pool, lamp)], [1, [4]])
  assert.equal((await pool.query('select from idempotency_keys where key = $1', [key])).rowCount, 0)
  refuses = false
  assert.deepEqual(kinds(await shop.place(request(lamp, { key }))), ['placed'])
})
