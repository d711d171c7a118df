import assert from 'node:assert/strict'
import { randomInt, randomUUID } from 'node:crypto'
import { after, type TestContext, test } from 'node:test'
import { addBuyer } from '../../../test/buyers.ts'
import { onCleanup } from '../../../test/cleanup.ts'
import { findWaiting } from '../../../test/database.ts'
import { eventually, untilTaken } from '../../../test/eventually.ts'
import { createGuest } from '../../../test/guests.ts'
import { assertProblem, faults } from '../../../test/problem.ts'
import { startSecondProcess, startStore, type TestStore } from '../../../test/store.ts'

const store = await startStore({ after })
const [ada, bob] = [await store.register(), await store.register()]

const line = (product: { id: string }, quantity = 1) => ({ product_id: product.id, quantity })
const order = (
  items: object[],
  more: object = {},
  { by = ada, headers = {}, at = store }: { by?: typeof ada; headers?: Record<string, string>; at?: TestStore } = {},
) => at.call('POST', '/orders', { token: by.token, body: { items, ...more }, headers })

/**
 * Locks the stock of a product, so orders for it wait. `letGo` commits `change` and ends the lock. `untilWaitedFor`
 * returns when an order waits.
 */
async function holdStock(t: TestContext, product: { id: string }, change = '') {
  const holder = await store.pool.connect()
  await holder.query('begin')
  await holder.query('select from inventory where product_id = $1 for update', [product.id])
  let isHeld = true
  const letGo = async () => {
    if (!isHeld) return
    isHeld = false
    await holder.query(change === '' ? 'rollback' : `${change}; commit`)
    holder.release()
  }
  onCleanup(t, letGo)
  const untilWaitedFor = () => eventually(async () => (await findWaiting(store.pool, holder)).length > 0)
  return { letGo, untilWaitedFor }
}

/**
 * Delays each transaction that takes a product's stock, or that inserts an order with this note. The transaction does
 * not wait for a lock, so no lock timeout ends it.
 */
async function holdUp(t: TestContext, at: { product: { id: string } } | { note: string }) {
  const name = `hold_up_${randomUUID().replaceAll('-', '')}`
  const key = randomInt(2 ** 31 - 1)
  const [event, condition] =
    'note' in at ? ['insert on orders', `new.note = '${at.note}'`] : ['update on inventory', `new.product_id = '${at.product.id}'`]
  await store.pool.query(`create function ${name}() returns trigger language plpgsql as $$
    begin
      while not pg_try_advisory_xact_lock_shared(${key}) loop perform pg_sleep(0.02); end loop;
      return new;
    end $$`)
  await store.pool.query(`create trigger ${name} before ${event} for each row when (${condition}) execute function ${name}()`)
  const holder = await store.pool.connect()
  await holder.query('select pg_advisory_lock($1)', [key])
  let isHeld = true
  const letGo = async () => {
    if (!isHeld) return
    isHeld = false
    await holder.query('select pg_advisory_unlock($1)', [key])
    holder.release()
  }
  onCleanup(t, async () => {
    await letGo()
    await store.pool.query(`drop function ${name} cascade`)
  })
  const untilHeldUp = () =>
    eventually(async () => {
      const { rows } = await store.pool.query(`select from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'`)
      return rows.length > 0
    })
  return { letGo, untilHeldUp }
}

/** Places an order that waits for stock while the product gets another stock level and price. */
async function orderDuringRestock(t: TestContext, product: { id: string }, { stock, amount }: { stock: number; amount: number }) {
  const restock = `update products set price_amount = ${amount} where id = '${product.id}';
    update inventory set available = ${stock} where product_id = '${product.id}'`
  const { letGo, untilWaitedFor } = await holdStock(t, product, restock)
  const waiting = untilTaken(() => order([line(product)]))
  await untilWaitedFor()
  await letGo()
  return waiting
}

test('places waiting orders in one transaction, numbered in the sequence of their arrival', async (t) => {
  const lamp = await store.addProduct({ stock: 30 })
  const { letGo, untilHeldUp } = await holdUp(t, { product: lamp })
  const first = order([line(lamp)])
  await untilHeldUp()
  const waiting = Array.from({ length: 40 }, () => order([line(lamp)]))
  // This refusal needs no database, so the requests before it have been read and are in the queue.
  assertProblem(await order([]), 422, 'invalid_body')
  await letGo()
  const answers = await Promise.all([first, ...waiting])
  assert.deepEqual(
    answers.map(({ status }) => status),
    [...Array(30).fill(201), ...Array(11).fill(409)],
  )
  const numbers = answers.slice(0, 30).map(({ json }) => Number(json.number))
  assert.deepEqual(
    numbers,
    numbers.toSorted((a, b) => a - b),
  )
  const { rows } = await store.pool.query<{ count: number }>(
    `select count(distinct xmin::text) as count from orders where product_ids @> array[$1::uuid]`,
    [lamp.id],
  )
  assert.ok(Number(rows[0]?.count) <= 3, `${rows[0]?.count} transactions`)
  assert.deepEqual(await store.readStock(lamp), [0])
})

test('places the other orders of a batch when the database refuses one', async (t) => {
  const lamp = await store.addProduct({ stock: 30 })
  await store.pool.query(`alter table orders add constraint poison check (note <> 'poison')`)
  onCleanup(t, async () => void (await store.pool.query('alter table orders drop constraint poison')))
  const { letGo, untilHeldUp } = await holdUp(t, { product: lamp })
  const first = order([line(lamp)])
  await untilHeldUp()
  const waiting = Array.from({ length: 9 }, (_, i) =>
    order([line(lamp)], i === 4 ? { note: 'poison' } : {}, { headers: { 'idempotency-key': randomUUID() } }),
  )
  assertProblem(await order([]), 422, 'invalid_body')
  await letGo()
  const answers = await Promise.all([first, ...waiting])
  assert.deepEqual(
    answers.map(({ status }) => status),
    [201, 201, 201, 201, 201, 500, 201, 201, 201, 201],
  )
  assert.deepEqual(await store.readStock(lamp), [21])
})

test('waits for a key that another process works on, and answers with Retry-After after too long a wait', async (t) => {
  const second = await startStore(t, { databaseAddresses: store.config.databaseAddresses })
  const lamp = await store.addProduct({ stock: 30 })
  const headers = { 'idempotency-key': 'elsewhere' }
  const note = { note: 'held up' }
  const { letGo, untilHeldUp } = await holdUp(t, note)
  const first = order([line(lamp)], note, { headers })
  await untilHeldUp()
  const vase = await store.addProduct({ stock: 30 })
  const again = () => order([line(lamp)], note, { headers, at: second })
  const [late, neighbour] = [again(), order([line(vase)], {}, { at: second })]
  assert.equal((await neighbour).status, 201, 'an order without the key does not wait')
  const busy = await late
  assertProblem(busy, 409, 'request_in_progress')
  assert.match(busy.headers['retry-after'] ?? '', /^\d+$/)
  const began = performance.now()
  const patient = again()
  await letGo()
  assert.equal((await first).status, 201)
  const waitedMs = performance.now() - began
  const answer = await patient
  // The request waits two seconds at most, and a very slow machine may take as long.
  assert.equal(waitedMs > 1_500 && answer.status === 409 ? (await again()).text : answer.text, (await first).text)
  assert.equal((await again()).headers['idempotency-replayed'], 'true')
  assert.deepEqual(await store.readStock(lamp), [29])
})

for (const [what, settings, twoBuyers] of [
  [
    'guests of one network',
    { isNetworkLimited: true },
    () => Promise.all([createGuest(store, 'a@shop.example'), createGuest(store, 'b@shop.example')]),
  ],
  ['one customer who may have few of each product', { maxQuantityPerProductAndUser: 50 }, async () => [ada, ada]],
] as const) {
  test(`orders of ${what} for other products do not wait for one another, and no answer says that one is in progress`, async (t) => {
    const [one, two] = [await startSecondProcess(t, store, settings), await startSecondProcess(t, store, settings)]
    const [lamp, vase] = [await store.addProduct({ stock: 30 }), await store.addProduct({ stock: 30 })]
    const [first, second] = await twoBuyers()
    const note = { note: `held up: ${what}` }
    const { letGo, untilHeldUp } = await holdUp(t, note)
    const heldUp = one.call('POST', '/orders', { token: first?.token, body: { items: [line(lamp)], ...note } })
    await untilHeldUp()
    const other = await two.call('POST', '/orders', { token: second?.token, body: { items: [line(vase)] } })
    assert.equal(other.status, 201, other.text)
    await letGo()
    assert.equal((await heldUp).status, 201)
  })
}

test('answers a retry at once while the stock of its product is locked', async (t) => {
  const lamp = await store.addProduct({ stock: 3 })
  const headers = { 'idempotency-key': randomUUID() }
  const first = await order([line(lamp)], {}, { headers })
  const { letGo } = await holdStock(t, lamp)
  const retry = await order([line(lamp)], {}, { headers })
  assert.deepEqual([retry.status, retry.text], [201, first.text])
  await letGo()
  assert.deepEqual(await store.readStock(lamp), [2])
})

test('sells at the price that was committed with the stock it waited for', async (t) => {
  const lamp = await store.addProduct({ stock: 0 })
  const { status, json } = await orderDuringRestock(t, lamp, { stock: 5, amount: 99_999 })
  assert.deepEqual([status, json.total?.amount], [201, 99_999])
})

test('uses the new price, and refuses archived products, right after the catalogue has changed', async () => {
  const [lamp, vase] = [await store.addProduct({ amount: 500, stock: 10 }), await store.addProduct({ amount: 700, stock: 10 })]
  assert.equal((await order([line(lamp), line(vase)])).json.total.amount, 1_200)
  await store.pool.query('update products set price_amount = 600 where id = $1', [lamp.id])
  assert.equal((await order([line(lamp), line(vase)])).json.total.amount, 1_300)
  await store.pool.query('update products set archived_at = now() where id = $1', [vase.id])
  assert.deepEqual(faults(assertProblem(await order([line(lamp), line(vase)]), 422, 'unknown_product')), ['#/items/1/product_id'])
  assert.deepEqual(await store.readStock(lamp, vase), [8, 8])
})

test("uses an import's new price when the product already had stock", async (t) => {
  const lamp = await store.addProduct({ amount: 500, stock: 10 })
  assert.equal((await order([line(lamp)])).status, 201)
  assert.equal((await orderDuringRestock(t, lamp, { stock: 50, amount: 99_999 })).json.total?.amount, 99_999)
  assert.deepEqual(await store.readStock(lamp), [49])
})

test('the answer to a repeated client reference has the address of the order with that reference', async () => {
  const lamp = await store.addProduct({ stock: 10 })
  const more = { client_reference: `PO-${randomUUID()}` }
  const first = await order([line(lamp)], more)
  const repeat = await order([line(lamp)], more)
  assert.equal(assertProblem(repeat, 409, 'client_reference_taken').order_id, first.json.id)
  assert.equal(repeat.headers.location, first.headers.location)
  const rivals = await Promise.all(Array.from({ length: 6 }, () => order([line(lamp)], { client_reference: 'at once' })))
  const winner = rivals.find(({ status }) => status === 201)
  for (const rival of rivals) assert.equal(rival.headers.location, winner?.headers.location)
  assert.deepEqual(await store.readStock(lamp), [8])
})

test('sells one customer no more of a product than the limit, however many orders come at once', async (t) => {
  const limited = await startStore(t, { databaseAddresses: store.config.databaseAddresses, maxQuantityPerProductAndUser: 4 })
  const [ticket, poster] = [await store.addProduct({ stock: 100 }), await store.addProduct({ stock: 100 })]
  assert.equal((await order([line(ticket, 3)], {}, { by: bob, at: limited })).status, 201)
  const answers = await Promise.all(Array.from({ length: 10 }, () => order([line(ticket, 1), line(poster)], {}, { at: limited })))
  assert.equal(answers.filter(({ status }) => status === 201).length, 4)
  const refused = answers.find(({ status }) => status === 409)
  const problem = assertProblem(refused ?? answers[0] ?? assert.fail(), 409, 'purchase_limit')
  assert.deepEqual(problem.limits[0], { product_id: ticket.id, requested: 1, bought: 4, limit: 4 })
  assert.deepEqual(await store.readStock(ticket), [93])

  const bought = answers.find(({ status }) => status === 201)?.json.id
  await store.call('POST', `/orders/${bought}/cancel`, { token: ada.token })
  assert.equal((await order([line(ticket)], {}, { at: limited })).status, 201, 'what was cancelled does not count')
  assert.equal((await order([line(ticket)])).status, 201, 'without the setting there is no limit')
})

test('cancelled and returned units of an order do not count against the limit', async (t) => {
  const limited = await startStore(t, { databaseAddresses: store.config.databaseAddresses, maxQuantityPerProductAndUser: 4 })
  const ticket = await store.addProduct({ stock: 100 })
  const operator = await addBuyer(store, 'admin')
  const { json: placed } = await order([line(ticket, 4)], {}, { at: limited })
  const change = async (path: string, body: object) => {
    const { status, text } = await store.call('POST', `/admin/orders/${placed.id}/${path}`, { token: operator.token, body })
    assert.equal(status, 200, text)
  }
  const units = (quantity: number) => ({ lines: [{ product_id: ticket.id, quantity }] })
  await change('transitions', { to: 'confirmed' })
  await change('shipments', units(2))
  assert.equal((await order([line(ticket)], {}, { at: limited })).status, 409, 'shipped units count')
  await change('cancellations', units(1))
  await change('returns', { ...units(1), restock: false })
  const refused = await order([line(ticket, 3)], {}, { at: limited })
  assert.deepEqual(assertProblem(refused, 409, 'purchase_limit').limits, [{ product_id: ticket.id, requested: 3, bought: 2, limit: 4 }])
  const accepted = await order([line(ticket, 2)], {}, { at: limited })
  assert.equal(accepted.status, 201, accepted.text)
})
