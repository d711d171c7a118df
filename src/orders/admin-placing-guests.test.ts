import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { createGuest, placeOrder } from '../../test/guests.ts'
import { assertProblem } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { type Answer, startSecondProcess, startStore } from '../../test/store.ts'

const store = await startStore({ after }, { duplicateOrderSeconds: 60, maxQuantityPerProductAndUser: 50 })
const second = await startSecondProcess({ after }, store)
const operator = await registerOperator(store)

/** Places an operator's order for an e-mail address. */
async function place(product: { id: string }, email: string, body: object = {}, at: Pick<typeof store, 'call'> = store): Promise<Answer> {
  return at.call('POST', '/admin/orders', {
    token: operator.token,
    body: { email, items: [{ product_id: product.id, quantity: 1 }], ...body },
    headers: { 'idempotency-key': randomUUID() },
  })
}
const prove = (id: string, email: string | null = null) =>
  store.pool.query('update users set email_verified_at = now(), email = coalesce($2, email) where id = $1', [id, email])
const guestsOf = async (email: string) =>
  (
    await store.pool.query<{ id: string; owner_id: string | null; language: string | null }>(
      `select id, owner_id, language from users where email = $1 and role = 'guest' order by id`,
      [email],
    )
  ).rows
const customers = async (query: string): Promise<{ id: string }[]> =>
  (await store.call('GET', `/admin/customers?${query}`, { token: operator.token })).json.data

test('orders for one address share one guest, even from two processes at once, and the guest is listed by its age', async () => {
  const [lamp, email] = [await store.addProduct({ stock: 50 }), 'one-guest@example.com']
  const answers = await Promise.all(
    Array.from({ length: 10 }, (_, i) => place(lamp, i % 2 ? email : email.toUpperCase(), { again: true }, i % 4 < 2 ? store : second)),
  )
  for (const { status, text } of answers) assert.equal(status, 201, text)
  const [guest, ...others] = await guestsOf(email)
  assert.deepEqual(others, [])
  assert.equal(guest?.id[14], '7', 'an id with the time, by which lists are sorted')
  const ada = await store.register()
  const newest = (await customers('limit=2')).map(({ id }) => id)
  assert.equal(newest[0], ada.id)
})

test('finds the account of an address however many guests have the address', async () => {
  const [lamp, ada] = [await store.addProduct({ stock: 50 }), await store.register()]
  for (let i = 0; i < 3; i++) await placeOrder(store, (await createGuest(store, ada.email)).token, lamp)
  const q = encodeURIComponent(ada.email)
  assert.equal(
    (await customers(`q=${q}&limit=3`)).some(({ id }) => id === ada.id),
    false,
  )
  assert.deepEqual(
    (await customers(`q=${q}&limit=3&role=customer`)).map(({ id }) => id),
    [ada.id],
  )
  assert.equal((await customers(`email=${q}&role=guest`)).length, 3)
})

test('a guest who types the same address in the shop does not see the orders that operators placed for it', async () => {
  const [lamp, email] = [await store.addProduct({ stock: 50 }), 'typed@example.com']
  const typist = await createGuest(store, email)
  const { json } = await place(lamp, email)
  assert.notEqual(json.user_id, typist.id)
  const later = await createGuest(store, email)
  const { json: next } = await place(lamp, email, { again: true, language: 'fr' })
  assert.deepEqual([next.user_id, (await guestsOf(email)).find(({ id }) => id === json.user_id)?.language], [json.user_id, 'fr'])
  for (const { token } of [typist, later]) {
    assert.deepEqual((await store.call('GET', '/orders', { token })).json.data, [])
    assertProblem(await store.call('GET', `/orders/${json.id}`, { token }), 404, 'not_found')
  }
})

test('a block and the orders of a guest who typed the address in the shop do not count for orders that operators place for it', async () => {
  const [lamp, email] = [await store.addProduct({ stock: 500 }), 'not-eve@example.com']
  const idle = await createGuest(store, email)
  const eve = await createGuest(store, email)
  const body = { items: [{ product_id: lamp.id, quantity: 1 }] }
  assert.equal((await store.call('POST', '/orders', { token: eve.token, body })).status, 201)
  for (const { id } of [idle, eve])
    assert.equal(
      (await store.call('POST', `/admin/customers/${id}/block`, { token: operator.token, body: { reason: 'Fraud' } })).status,
      204,
    )
  const { status, json, text } = await place(lamp, email, { again: true })
  assert.equal(status, 201, text)
  // Housekeeping deletes ended sessions.
  await store.pool.query('delete from sessions where user_id = any($1)', [[idle.id, eve.id]])
  const next = await place(lamp, email, { again: true })
  assert.equal(next.json.user_id, json.user_id, next.text)
})

test('orders for one address share its limits, and a corrected address gets another guest', async () => {
  const [lamp, email] = [await store.addProduct({ stock: 500 }), 'limits@example.com']
  const of = (quantity: number) => ({ items: [{ product_id: lamp.id, quantity }] })
  const { json } = await place(lamp, email, of(40))
  assertProblem(await place(lamp, email, of(11)), 409, 'purchase_limit')
  await store.pool.query('update orders set email = $2 where id = $1', [json.id, 'right@example.com'])
  const other = await place(lamp, email, of(11))
  assert.equal(other.status, 201, other.text)
  assert.notEqual(other.json.user_id, json.user_id, 'who proves the address does not get the order of another mailbox')
})

test('a guest belongs to the account that has proven the address most recently', async () => {
  const [lamp, ada, bob] = [await store.addProduct({ stock: 5 }), await store.register(), await store.register()]
  const { email } = ada
  await prove(ada.id)
  const tooMany = { items: [{ product_id: lamp.id, quantity: 6 }] }
  for (let i = 0; i < 2; i++) assertProblem(await place(lamp, email, tooMany), 409, 'insufficient_stock')
  assert.deepEqual(
    (await guestsOf(email)).map(({ owner_id }) => owner_id),
    [ada.id],
  )
  await prove(ada.id, 'new-address@example.com')
  await prove(bob.id, email)
  const { json } = await place(lamp, email)
  assert.deepEqual([(await guestsOf(email)).find(({ id }) => id === json.user_id)?.owner_id, (await guestsOf(email)).length], [bob.id, 2])
})

test('the same lines are refused as a repeat, whether the account, a guest or an operator ordered them first', async () => {
  const [lamp, ada] = [await store.addProduct({ stock: 50 }), await store.register()]
  await prove(ada.id)
  const body = (product: { id: string }) => ({ items: [{ product_id: product.id, quantity: 1 }] })
  const own = await store.call('POST', '/orders', { token: ada.token, body: body(lamp) })
  assert.equal(assertProblem(await place(lamp, ada.email), 409, 'probably_placed_already').order_id, own.json.id)
  for (const by of [ada.token, (await createGuest(store, ada.email)).token]) {
    const mug = await store.addProduct({ stock: 50 })
    assert.equal((await place(mug, ada.email)).status, 201)
    assertProblem(await store.call('POST', '/orders', { token: by, body: body(mug) }), 409, 'probably_placed_already')
  }
})

test('an account that is erased while an operator orders for its address owns no guest', async () => {
  const [lamp, ada] = [await store.addProduct({ stock: 5 }), await store.register()]
  await prove(ada.id)
  const eraser = await store.pool.connect()
  try {
    await eraser.query('begin')
    await eraser.query('delete from users where id = $1', [ada.id])
    const placing = place(lamp, ada.email)
    const isWaiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query ~ 'into users'`
    await eventually(async () => (await store.pool.query(isWaiting)).rowCount === 1, { what: 'the guest waits for its owner' })
    await eraser.query('commit')
    const { status, text } = await placing
    assert.equal(status, 201, text)
  } finally {
    eraser.release()
  }
  assert.deepEqual(
    (await guestsOf(ada.email)).map(({ owner_id }) => owner_id),
    [null],
  )
})
