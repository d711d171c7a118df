import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createGuest } from '../../../test/guests.ts'
import { assertProblem } from '../../../test/problem.ts'
import { type Answer, startSecondProcess, startStore } from '../../../test/store.ts'
import { readIdempotencyKey } from './idempotency.ts'

/** SHA-256 of `{"items":[{"product_id":"p","quantity":1}],"note":"n"}`. */
const FINGERPRINT = 'ad7a3a30aa142be662c919f749a40c99977bee174d47463cf91ddbdd3f846f74'
const store = await startStore(
  { after },
  { duplicateOrderSeconds: 60, maxPendingOrdersPerUser: null, guestPendingOrderTtlSeconds: null, maxGuestStockPercent: null },
)
const other = await startSecondProcess({ after }, store)
const HOME = { name: 'Ada', line1: 'Ring 1', city: 'Wien', postal_code: '1010', country: 'AT' }

interface Ordering {
  token: string
  key?: string
  body?: object
  at?: Pick<typeof store, 'call'>
}

/**
 * Orders one unit of a product, always to the same address unless `body` has another. Repeats the request while the
 * same order is being placed.
 */
async function order(product: { id: string }, { token, key, body = {}, at = store }: Ordering): Promise<Answer> {
  for (;;) {
    const answer = await at.call('POST', '/orders', {
      token,
      body: { items: [{ product_id: product.id, quantity: 1 }], shipping_address: HOME, ...body },
      headers: key === undefined ? {} : { 'idempotency-key': key },
    })
    if (answer.json.code !== 'request_in_progress') return answer
  }
}
const twoGuests = async (email: string) => [await createGuest(store, email), await createGuest(store, email)] as const

test('refuses the same order of an account, whatever its key, with the earlier id, until it is confirmed or a minute has passed', async () => {
  const [lamp, ada, bob] = [await store.addProduct({ stock: 100 }), await store.register(), await store.register()]
  const first = await order(lamp, { token: ada.token, key: 'first' })
  assert.equal(first.status, 201, first.text)
  for (const key of [undefined, 'second']) {
    const again = await order(lamp, { token: ada.token, ...(key === undefined ? {} : { key }) })
    assert.equal(assertProblem(again, 409, 'probably_placed_already').order_id, first.json.id)
    assert.match(again.headers.location ?? '', new RegExp(`/orders/${first.json.id}$`))
  }
  assert.equal((await order(lamp, { token: ada.token, key: 'first' })).text, first.text, 'a retry is no second order')
  const split = { items: [{ product_id: lamp.id, quantity: 1 }], note: 'Please ring twice.', again: false }
  assertProblem(await order(lamp, { token: ada.token, body: split }), 409, 'probably_placed_already')

  assert.equal((await order(lamp, { token: bob.token })).status, 201, 'another person')
  assert.equal((await order(lamp, { token: ada.token, body: { shipping_address: { ...HOME, line1: 'Ring 2' } } })).status, 201)
  assert.equal((await order(lamp, { token: ada.token, body: { items: [{ product_id: lamp.id, quantity: 2 }] } })).status, 201)
  const meant = await order(lamp, { token: ada.token, body: { again: true } })
  assert.equal(meant.status, 201, meant.text)
  assert.equal(assertProblem(await order(lamp, { token: ada.token }), 409, 'probably_placed_already').order_id, meant.json.id)
  await store.pool.query(`update order_repeats set created_at = now() - interval '61 seconds' where user_id = $1`, [ada.id])
  assert.equal((await order(lamp, { token: ada.token })).status, 201)
  assert.deepEqual(await store.readStock(lamp), [93])
})

test('places one of the same orders that two processes get at once, and each of those that are confirmed', async () => {
  const [lamp, ada] = [await store.addProduct({ stock: 100 }), await store.register()]
  const [guest, twin] = await twoGuests('two-at-once@example.com')
  const places = (tokens: string[], body: object = {}) =>
    Promise.all(
      Array.from({ length: 20 }, (_, i) => order(lamp, { token: tokens[i % tokens.length] ?? '', body, at: i % 4 < 2 ? store : other })),
    )
  for (const tokens of [[ada.token], [guest.token, twin.token]]) {
    const answers = await places(tokens)
    assert.equal(answers.filter(({ status }) => status === 201).length, 1)
    for (const answer of answers) if (answer.status !== 201) assertProblem(answer, 409, 'probably_placed_already')
  }
  assert.deepEqual(await store.readStock(lamp), [98])
  for (const { status, text } of await places([ada.token], { again: true })) assert.equal(status, 201, text)
  assert.deepEqual(await store.readStock(lamp), [78])
})

test('a guest with the same address, key and body gets the first order, and learns nothing with another body', async () => {
  const lamp = await store.addProduct({ stock: 100 })
  const [first, second] = await twoGuests('double-click@example.com')
  const stranger = await createGuest(store, 'somebody-else@example.com')
  const key = crypto.randomUUID()
  const placed = await order(lamp, { token: first.token, key })
  const repeated = await order(lamp, { token: second.token, key, at: other })
  assert.deepEqual([repeated.status, repeated.text, repeated.headers['idempotency-replayed']], [201, placed.text, 'true'])
  const another = { items: [{ product_id: lamp.id, quantity: 2 }] }
  assert.equal((await order(lamp, { token: second.token, key, body: another })).status, 201, 'its own first order with the key')
  assert.notEqual((await order(lamp, { token: stranger.token, key })).json.id, placed.json.id)
  const unowned = assertProblem(await order(lamp, { token: second.token }), 409, 'probably_placed_already')
  assert.equal(unowned.order_id, undefined)
  assert.deepEqual(await store.readStock(lamp), [96])
})

test('guests of one address share their references for a day, and a guest who did not place the order learns no id', async () => {
  const lamp = await store.addProduct({ stock: 100 })
  const [first, second] = await twoGuests('reference@example.com')
  const of = (quantity: number) => ({ items: [{ product_id: lamp.id, quantity }], client_reference: 'cart-1' })
  const placed = await order(lamp, { token: first.token, body: of(1) })
  assert.equal(
    assertProblem(await order(lamp, { token: first.token, body: of(2) }), 409, 'client_reference_taken').order_id,
    placed.json.id,
  )
  assert.equal((await order(lamp, { token: second.token, body: of(3) })).status, 201, 'a stranger cannot block a reference')
  const third = await createGuest(store, first.email)
  const taken = await order(lamp, { token: third.token, body: of(1) })
  assert.equal(assertProblem(taken, 409, 'client_reference_taken').order_id, undefined)
  assert.equal(taken.headers.location, undefined)
  await store.pool.query(`update order_repeats set created_at = now() - interval '25 hours' where user_id = $1`, [first.id])
  assert.equal((await order(lamp, { token: third.token, body: of(1) })).status, 201)
})

test('a request that is refused anyway does not show whether another guest of the address has ordered', async () => {
  const lamp = await store.addProduct({ stock: 100, amount: 500 })
  const [first, second] = await twoGuests('oracle@example.com')
  const body = { client_reference: 'cart-2' }
  assert.equal((await order(lamp, { token: first.token, body })).status, 201)
  const probe = { expected_total: { amount: 1, currency: 'EUR' } }
  assertProblem(await order(lamp, { token: second.token, body: { ...body, ...probe } }), 409, 'price_changed')
  assert.equal(assertProblem(await order(lamp, { token: first.token, body: probe }), 409, 'probably_placed_already').status, 409)
})

test('a fingerprint is the same in later versions', () => {
  const body = { items: [{ product_id: 'p', quantity: 1 }], currency: null, expected_total: null, note: 'n', client_reference: undefined }
  const later = { ...body, a_later_member: null }
  for (const each of [body, later]) {
    const { fingerprint } = readIdempotencyKey('k', 'u', each) ?? assert.fail('no key')
    assert.equal(fingerprint.toString('hex'), FINGERPRINT)
  }
})

test('a repeat name shows no owner, and is deleted with the account and after a day', async (t) => {
  const only = await startStore(t, { duplicateOrderSeconds: 60 })
  const lamp = await only.addProduct({ stock: 10 })
  const [guest, ada] = [await createGuest(only, 'names@example.com'), await only.register()]
  const place = (token: string) => order(lamp, { token, key: 'k', body: { client_reference: 'r' }, at: only })
  await place(guest.token)
  await place(ada.token)
  const read = async () => (await only.pool.query<{ name: string; user_id: string }>('select name, user_id from order_repeats')).rows
  const rows = await read()
  assert.equal(rows.length, 4, 'key, reference and content of the guest, content of the account')
  for (const { name } of rows) assert.match(name, /^[\w-]{43}$/)
  await only.call('DELETE', '/me', { token: guest.token })
  assert.deepEqual(
    (await read()).map(({ user_id }) => user_id),
    [ada.id],
  )
})

test('a store can require a key, and keeps no repeat names for accounts unless it refuses the same content', async (t) => {
  const strict = await startStore(t, { isIdempotencyKeyRequired: true })
  const [lamp, ada] = [await strict.addProduct({ stock: 10 }), await strict.register()]
  assertProblem(await order(lamp, { token: ada.token, at: strict }), 400, 'idempotency_key_required')
  for (const key of ['one', 'two']) assert.equal((await order(lamp, { token: ada.token, key, at: strict })).status, 201)
  assert.deepEqual((await strict.pool.query('select from order_repeats')).rowCount, 0)
})

test('a request is the same whatever the formatting of its JSON', async () => {
  const [lamp, ada] = [await store.addProduct({ stock: 10 }), await store.register()]
  const texts = [
    `{"items":[{"product_id":"${lamp.id}","quantity":1}],"shipping_address":${JSON.stringify(HOME)}}`,
    `{ "shipping_address": ${JSON.stringify(Object.fromEntries(Object.entries(HOME).reverse()))}, "items": [ {"quantity": 1.0, "product_id": "${lamp.id}"} ] }`,
    `{"items":[{"product_id":"${lamp.id}","quantity":1e0}],"attributes":{},"again":true,"shipping_address":${JSON.stringify(HOME)}}`,
  ]
  const answers = []
  for (const text of texts) {
    answers.push(
      await store.call('POST', '/orders', {
        token: ada.token,
        raw: text,
        headers: { 'content-type': 'application/json', 'idempotency-key': 'spellings' },
      }),
    )
  }
  assert.equal(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size, 1)
  assert.equal(answers[0]?.status, 201)
  assert.deepEqual(await store.readStock(lamp), [9])
})
