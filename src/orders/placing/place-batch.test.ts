import assert from 'node:assert/strict'
import { createHash, randomUUID } from 'node:crypto'
import { after, type TestContext, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { createTestDatabase, findWaiting } from '../../../test/database.ts'
import { eventually } from '../../../test/eventually.ts'
import { addProduct, readStock } from '../../../test/store.ts'
import { PriceList } from '../../catalogue/products.ts'
import { createPool } from '../../db/pool.ts'
import { mergeLines } from '../basket.ts'
import type { Outcome } from './batch-decision.ts'
import { LockedRows } from './locked-rows.ts'
import { OrderBatcher } from './order-batcher.ts'
import { lockKeysOf, type OrderRequest } from './order-request.ts'
import { OptimisticBackoff, type PlacingContext, placeOrders } from './place-orders.ts'

const { pool, url } = await createTestDatabase({ after })

/**
 * Opens the placing parts of one process. Counts the statements that it sends, and its batches that met a changed
 * state.
 */
function openShop(t: TestContext) {
  const placing = createPool({ url, size: 2, applicationName: 'placing', onError: () => {} })
  t.after(() => placing.end())
  const shop = { pool: placing, sent: 0, conflicts: 0 }
  placing.on('connect', (client) => {
    const query = client.query.bind(client) as (...args: unknown[]) => unknown
    client.query = ((...args: unknown[]) => {
      shop.sent += 1
      return query(...args)
    }) as typeof client.query
  })
  const context: PlacingContext = {
    pool: placing,
    now: () => new Date(),
    baseUrl: '',
    cancellableStatuses: ['pending'],
    maxQuantityPerProductAndUser: null,
    maxPendingOrdersPerUser: null,
    prices: new PriceList(),
    lockedRows: new LockedRows(pool),
    backoff: new OptimisticBackoff(),
    onConflict: () => shop.conflicts++,
  }
  return Object.assign(shop, { context, place: (...requests: OrderRequest[]) => placeOrders(context, requests) })
}

function request(
  product: { id: string },
  more: { quantity?: number; key?: string; userId?: string; reference?: string } = {},
): OrderRequest {
  const { quantity = 1, key, userId = randomUUID(), reference = null } = more
  return {
    userId,
    basket: mergeLines([{ product_id: product.id, quantity }]),
    currency: null,
    expectedTotal: null,
    clientReference: reference,
    shippingAddress: null,
    billingAddress: null,
    vatNumber: null,
    note: null,
    attributes: null,
    repeats: [],
    idempotencyKey: key === undefined ? null : { userId, key, fingerprint: createHash('sha256').update(product.id).digest() },
    traceparent: '',
  }
}

const kinds = (outcomes: readonly Outcome[]) => outcomes.map(({ kind }) => kind)
const countOrders = async ({ id }: { id: string }) =>
  Number((await pool.query<{ count: string }>('select count(*) from orders where product_ids @> array[$1::uuid]', [id])).rows[0]?.count)

test('places a batch in one round trip in the usual state', async (t) => {
  const shop = openShop(t)
  const [lamp, untracked] = [await addProduct(pool, { stock: 5 }), await addProduct(pool, { stock: null })]
  const batch = () => [request(lamp, { key: 'a', reference: 'r' }), request(untracked), request(lamp, { key: 'b' })]
  assert.deepEqual(kinds(await shop.place(...batch())), ['placed', 'placed', 'placed'])
  const sentBefore = shop.sent
  assert.deepEqual(kinds(await shop.place(...batch())), ['placed', 'placed', 'placed'])
  assert.equal(shop.sent - sentBefore, 1)
  assert.deepEqual(await readStock(pool, lamp, untracked), [1, null])
})

test('sells the last unit in one round trip, and the catalogue shows the product as sold out', async (t) => {
  const shop = openShop(t)
  const lamp = await addProduct(pool, { stock: 3 })
  await shop.place(request(lamp))
  const sentBefore = shop.sent
  assert.deepEqual(kinds(await shop.place(request(lamp), request(lamp))), ['placed', 'placed'])
  assert.equal(shop.sent - sentBefore, 1)
  const { rows } = await pool.query('select in_stock from products where id = $1', [lamp.id])
  assert.deepEqual([rows, await readStock(pool, lamp)], [[{ in_stock: false }], [0]])
})

test('rolls nothing back when the catalogue already shows that an order will be refused', async (t) => {
  const shop = openShop(t)
  const [lamp, gone] = [await addProduct(pool, { stock: 5 }), await addProduct(pool, { stock: 0 })]
  assert.deepEqual(kinds(await shop.place(request(lamp), request(gone))), ['placed', 'refused'])
  assert.equal(shop.conflicts, 0)
})

/** Each function changes the state so that the batch cannot be stored unchanged. */
for (const [what, spoil] of Object.entries({
  'more than all is ordered': async (lamp: { id: string }) => [request(lamp, { quantity: 5 })],
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
  test(`decides again and places orders only once when ${what}`, async (t) => {
    const shop = openShop(t)
    const [lamp, vase] = [await addProduct(pool, { stock: 6 }), await addProduct(pool, { stock: 5 })]
    const earlier = request(vase, { key: randomUUID(), reference: 'mine' })
    assert.deepEqual(kinds(await shop.place(earlier, request(lamp))), ['placed', 'placed'])
    assert.equal(shop.conflicts, 0)
    const neighbour = request(lamp)
    const requests = await spoil(lamp, earlier)
    const outcomes = await shop.place(...requests, neighbour)
    assert.equal(shop.conflicts, 1)
    const placed = outcomes.filter((outcome) => outcome.kind === 'placed' && !outcome.order.isReplay).length
    assert.equal(await countOrders(lamp), placed + 1)
    const { rows } = await pool.query('select id from orders where product_ids @> array[$1::uuid] and total_amount = 7', [lamp.id])
    assert.equal(rows.length, what === 'the price is another' ? 2 : 0)
  })
}

test('a customer who repeats a refused order does not slow down others: their orders need one round trip each', async (t) => {
  const shop = openShop(t)
  const batcher = new OrderBatcher({
    placeOrders: (requests, attempt) => placeOrders(shop.context, requests, attempt),
    lockKeysOf,
    untilFree: () => assert.fail('no row is locked'),
  })
  const [lamp, few] = [await addProduct(pool, { stock: 1_000 }), await addProduct(pool, { stock: 5 })]
  await batcher.place(request(lamp))
  const greedy = randomUUID()
  for (let round = 0; round < 12; round++) {
    const refused = assert.rejects(batcher.place(request(few, { userId: greedy, quantity: 6 })), { code: 'insufficient_stock' })
    await Promise.all([refused, batcher.place(request(lamp))])
  }
  assert.equal(shop.conflicts, 1, 'the first one could not be known')
  assert.equal(shop.context.backoff.shouldTry, true)
  const before = shop.sent
  await batcher.place(request(lamp))
  assert.equal(shop.sent - before, 1)
})

test('places a new order for a key that has expired, in one round trip', async (t) => {
  const shop = openShop(t)
  const lamp = await addProduct(pool, { stock: 5 })
  const again = request(lamp, { key: 'old' })
  await shop.place(again)
  await pool.query(`update idempotency_keys set created_at = now() - interval '25 hours' where user_id = $1`, [again.userId])
  const sentBefore = shop.sent
  const [outcome] = await shop.place(again)
  assert.ok(outcome?.kind === 'placed' && !outcome.order.isReplay)
  assert.deepEqual([shop.sent - sentBefore, await countOrders(lamp)], [1, 2])
})

test('places one order for each key and each reference that come to two processes at once', async (t) => {
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

test('numbers an order higher than earlier orders of its batch and earlier answered ones, on every path', async (t) => {
  const shop = openShop(t)
  const [lamp, vase] = [await addProduct(pool, { stock: 10 }), await addProduct(pool, { stock: 10 })]
  const outcomes = await shop.place(request(lamp), request(vase))
  shop.context.backoff.failed()
  outcomes.push(...(await shop.place(request(vase), request(lamp))), ...(await shop.place(request(lamp), request(vase))))
  const numbers = outcomes.map((outcome) => (outcome.kind === 'placed' ? Number(JSON.parse(outcome.order.json).number) : Number.NaN))
  assert.deepEqual(
    numbers,
    numbers.toSorted((a, b) => a - b),
  )
})

test('batches that name the same products in another sequence do not deadlock', async (t) => {
  const shops = [openShop(t), openShop(t)]
  const products = await Promise.all(Array.from({ length: 20 }, () => addProduct(pool, { stock: 1_000 })))
  const failures: unknown[] = []
  for (const { pool: placing } of shops) {
    placing.on('connect', (client) => {
      const query = client.query.bind(client) as (...args: unknown[]) => Promise<unknown>
      client.query = ((...args: unknown[]) => {
        const result = query(...args)
        if (result instanceof Promise) result.catch((error) => failures.push(error))
        return result
      }) as typeof client.query
    })
  }
  const order = (items: readonly { id: string }[]) => ({
    ...request({ id: '' }),
    basket: mergeLines(items.map(({ id }) => ({ product_id: id, quantity: 1 }))),
  })
  for (let round = 0; round < 10; round++) {
    await Promise.all(shops.map((shop, i) => shop.place(order(i === 0 ? products : products.toReversed()))))
  }
  assert.deepEqual(failures, [])
  assert.deepEqual(await readStock(pool, ...products), Array(20).fill(980))
})

test('sells at the new price when it was committed while the batch waited for the stock', async (t) => {
  const shop = openShop(t)
  const lamp = await addProduct(pool, { stock: 5 })
  await shop.place(request(lamp))
  const importing = await pool.connect()
  t.after(() => importing.release(true))
  await importing.query('begin')
  await importing.query('update inventory set available = 9 where product_id = $1', [lamp.id])
  await importing.query('update products set price_amount = 4321 where id = $1', [lamp.id])
  const placing = shop.place(request(lamp))
  await eventually(async () => (await findWaiting(pool, importing)).length === 1)
  await importing.query('commit')
  const [outcome] = await placing
  // On a slow machine the row was locked for too long, and the order was deferred.
  if (outcome?.kind === 'placed') assert.equal(JSON.parse(outcome.order.json).total.amount, 4321)
  assert.deepEqual(await readStock(pool, lamp), [outcome?.kind === 'placed' ? 8 : 9])
})

test('rejects, without an unhandled rejection, when the connection breaks while it is used', async (t) => {
  const shop = openShop(t)
  const lamp = await addProduct(pool, { stock: 5 })
  await shop.place(request(lamp))
  const { rows } = await shop.pool.query<{ pid: number }>('select pg_backend_pid() as pid')
  const pid = rows[0]?.pid ?? assert.fail()
  process.kill(pid, 'SIGSTOP')
  const placing = assert.rejects(shop.place(request(lamp)), /terminat|ECONNRESET|ended/i)
  // The statement is sent within these turns of the event loop.
  await setImmediate()
  await setImmediate()
  process.kill(pid, 'SIGTERM')
  process.kill(pid, 'SIGCONT')
  await placing
  assert.equal(await countOrders(lamp), 1)
  assert.deepEqual(kinds(await shop.place(request(lamp))), ['placed'])
})

test('stores no order of a batch when the database refuses one of them', async (t) => {
  const shop = openShop(t)
  const lamp = await addProduct(pool, { stock: 5 })
  await shop.place(request(lamp))
  await pool.query(`alter table orders add constraint poison check (note <> 'poison')`)
  t.after(() => pool.query('alter table orders drop constraint if exists poison'))
  const key = randomUUID()
  const poisoned = { ...request(lamp, { reference: 'r' }), note: 'poison' }
  await assert.rejects(shop.place(request(lamp, { key }), poisoned), { code: '23514', constraint: 'poison' })
  assert.deepEqual([await countOrders(lamp), await readStock(pool, lamp)], [1, [4]])
  assert.equal((await pool.query('select from idempotency_keys where key = $1', [key])).rowCount, 0)
  await pool.query('alter table orders drop constraint poison')
  assert.deepEqual(kinds(await shop.place(request(lamp, { key }))), ['placed'])
})
