import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { newestToken } from '../../test/account-mails.ts'
import { setStatus } from '../../test/broken-rows.ts'
import { eventually } from '../../test/eventually.ts'
import { collectLog } from '../../test/logs.ts'
import { GUEST_ADDRESS, type LinkedOrder, makeOrderToken, placeLinkedOrder } from '../../test/order-links.ts'
import { assertProblem } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { type Answer, startSecondProcess, startStore } from '../../test/store.ts'
import { inTransaction } from '../db/transaction.ts'

const store = await startStore({ after })
const lamp = await store.addProduct({ name: 'Lamp', stock: 100 })

const read = (token: string, more: object = {}, call = store.call) => call('POST', '/orders/by-link', { body: { token, ...more } })
const cancel = (token: string, call = store.call) => call('POST', '/orders/by-link/cancel', { body: { token } })
const assertEnded = (answer: Answer, what?: string) => assertProblem(answer, 422, 'invalid_order_link', what)

test('a link shows its order without note, reasons, references, attributes and phone', async () => {
  const order = await placeLinkedOrder(store, lamp, {
    ...{ note: 'Ring twice', client_reference: 'cart-1', attributes: { channel: 'kiosk' } },
  })
  const { token } = await registerOperator(store)
  const tracking = { carrier: 'DHL', number: 'JJD1', url: 'https://www.dhl.com/track?id=JJD1' }
  for (const body of [
    { to: 'confirmed', reason: 'Called Ada' },
    { to: 'shipped', tracking, reference: 'parcel-7781' },
  ]) {
    await store.ok('POST', `/admin/orders/${order.id}/transitions`, { token, body })
  }
  const adjustment = { kind: 'shipping', label: 'Express', amount: { amount: 100, currency: 'EUR' }, reference: 'rate-551' }
  const adjusted = await store.call('POST', `/admin/orders/${order.id}/adjustments`, { token, body: adjustment })
  assert.ok(adjusted.status < 300, adjusted.text)
  const payment = { provider: 'stripe', reference: 'pi_1', state: 'paid' }
  await store.ok('PUT', `/admin/orders/${order.id}/payment`, { token, body: payment })
  const refund = { amount: { amount: 50, currency: 'EUR' }, reference: 're_1', reason: 'Called Ada' }
  await store.ok('POST', `/admin/orders/${order.id}/refunds`, { token, body: refund })
  const { status, headers, json, text } = await read(order.token)
  assert.equal(status, 200, text)
  assert.deepEqual(json.refunded, { amount: 50, currency: 'EUR' })
  assert.equal(headers['cache-control'], 'no-store')
  assert.deepEqual([json.number, json.status, json.can_cancel, json.shipping_address], [order.number, 'shipped', false, null])
  assert.deepEqual([json.asks_postal_code, json.language], [true, 'en'])
  assert.deepEqual(
    json.history.map((entry: { status: string }) => entry.status),
    ['pending', 'confirmed', 'shipped'],
  )
  assert.deepEqual([json.parcels[0].tracking, json.adjustments[0].label], [tracking, 'Express'])
  const shown = await read(order.token, { postal_code: '1010' })
  const { phone: _, ...address } = GUEST_ADDRESS
  assert.deepEqual(shown.json.shipping_address, address)
  assert.deepEqual(json.items[0].name, 'Lamp')
  for (const secret of ['Ada', 'Ring', 'Wien', '1010', 'cart-1', order.email, order.guest.id, 'admin'])
    assert.ok(!text.includes(secret), secret)
  for (const secret of ['Called Ada', 'Ring twice', 'kiosk', 'cart-1', 'parcel-7781', 'rate-551', 'pi_1', 're_1', GUEST_ADDRESS.phone])
    assert.ok(!shown.text.includes(secret), secret)
})

test('shows the address for its postal code, and refuses every code when there is none', async () => {
  const order = await placeLinkedOrder(store, lamp)
  assert.equal((await read(order.token, { postal_code: ' A-1010' })).json.shipping_address.line1, GUEST_ADDRESS.line1)
  const without = await placeLinkedOrder(store, lamp, { shipping_address: undefined })
  assert.equal((await read(without.token)).json.asks_postal_code, false)
  const dash = await placeLinkedOrder(store, lamp, { shipping_address: { ...GUEST_ADDRESS, country: 'IE', postal_code: '-' } })
  assert.equal((await read(dash.token)).json.asks_postal_code, false)
  const [wrong, none] = await Promise.all([order, without].map(({ token }) => read(token, { postal_code: '1011' })))
  const problems = [wrong, none].map((answer) => assertProblem(answer as Answer, 422, 'wrong_postal_code'))
  assert.equal(problems[0]?.detail, problems[1]?.detail)
})

test('a link shows the attributes of lines, such as an engraving, for the postal code of the delivery address', async () => {
  const items = ['Grace', 'Alan'].map((engraving) => ({ product_id: lamp.id, quantity: 1, attributes: { engraving } }))
  const order = await placeLinkedOrder(store, lamp, { items })
  const { json, text } = await read(order.token)
  assert.equal(json.items.length, 2)
  assert.doesNotMatch(text, /Grace|Alan|engraving/, 'a mail may be forwarded')
  const shown = await read(order.token, { postal_code: '1010' })
  assert.deepEqual(
    shown.json.items.map(({ attributes }: { attributes: object }) => attributes),
    items.map(({ attributes }) => attributes),
  )
})

test("the customer cancels by link once, within the shop's rules, and the stock returns", async (t) => {
  const vase = await store.addProduct({ stock: 10 })
  const order = await placeLinkedOrder(store, vase)
  assert.equal((await read(order.token)).json.can_cancel, true)
  const { status, json, text } = await cancel(order.token)
  assert.deepEqual([status, json.status, json.can_cancel, json.shipping_address], [200, 'cancelled', false, null], text)
  assertProblem(await cancel(order.token), 409, 'illegal_transition')
  assert.deepEqual(await store.readStock(vase), [10])
  const { rows } = await store.pool.query('select status_history -> -1 -> $$actor$$ as actor from orders where id = $1', [order.id])
  assert.deepEqual(rows, [{ actor: { type: 'customer', id: order.guest.id } }])

  const packed = await placeLinkedOrder(store, vase)
  await setStatus(store.pool, [packed.id], 'confirmed')
  assertProblem(await cancel(packed.token), 409, 'illegal_transition')
  const { call } = await startSecondProcess(t, store, { customerCancel: 'confirmed' })
  assert.equal((await cancel(packed.token, call)).status, 200)
})

test('a link ends when either address changes, when the account is deleted, and after 90 days', async (t) => {
  const order = await placeLinkedOrder(store, lamp)
  const address = { ...GUEST_ADDRESS, line1: 'Ring 2' }
  const { token: operator } = await registerOperator(store)
  const amend = async (body: object) => {
    await store.ok('POST', `/admin/orders/${order.id}/amendments`, { token: operator, body })
  }
  await amend({ shipping_address: address })
  assertEnded(await read(order.token), 'delivery address')
  const next = makeOrderToken(order.id, { email: order.email, shippingAddress: address })
  assert.equal((await read(next)).status, 200)
  await amend({ email: 'grace@example.com' })
  assertEnded(await read(next), 'e-mail address')
  assertEnded(await cancel(next), 'e-mail address')
  assert.equal((await read(makeOrderToken(order.id, { email: 'grace@example.com', shippingAddress: address }))).status, 200)

  const moved = await placeLinkedOrder(store, lamp)
  await store.pool.query(`update users set email = 'grace@example.com' where id = $1`, [moved.guest.id])
  assertEnded(await read(moved.token), 'address of the account')

  const ada = await store.register()
  const placed = await ada.call('POST', '/orders', { body: { items: [{ product_id: lamp.id, quantity: 1 }] } })
  const token = makeOrderToken(placed.json.id, { email: ada.email, shippingAddress: null })
  assert.equal((await read(token)).status, 200)
  await setStatus(store.pool, [placed.json.id], 'delivered')
  await ada.ok('DELETE', '/me')
  assertEnded(await read(token), 'account')

  const old = await placeLinkedOrder(store, lamp)
  const later = await startSecondProcess(t, store, { now: () => new Date(Date.now() + 90 * 86_400_000 + 1_000) })
  assertEnded(await read(old.token, {}, later.call), '90 days')
  assert.equal((await read(old.token)).status, 200)
})

test('the account that has proven the address cancels by the link of its guest', async (t) => {
  const proving = await startStore(t, { isEmailVerificationRequired: true })
  const order = await placeLinkedOrder(proving, await proving.addProduct())
  const password = 'a long enough passphrase'
  await proving.call('POST', '/auth/register', { body: { email: order.email, password } })
  const verification = { token: await newestToken(proving, 'verify_email'), password }
  const json = await proving.ok('POST', '/auth/verify-email', { body: verification })
  assert.equal((await cancel(order.token, proving.call)).json.status, 'cancelled')
  const { rows } = await proving.pool.query('select status_history -> -1 -> $$actor$$ ->> $$id$$ as actor from orders where id = $1', [
    order.id,
  ])
  assert.deepEqual(rows, [{ actor: json.user.id }])
})

test('forged, cut and foreign links get the same answer for every order', async () => {
  const [one, two] = [await placeLinkedOrder(store, lamp), await placeLinkedOrder(store, lamp)]
  const bytes = Buffer.from(one.token, 'base64url')
  const foreign = (order: LinkedOrder, email: string) => makeOrderToken(order.id, { email })
  const wrong = [
    ...Array.from(bytes, (byte, index) => Buffer.from(bytes.with(index, byte ^ 1)).toString('base64url')),
    ...[0, 1, 32, 63].map((length) => one.token.slice(0, length) || 'x'),
    ...[foreign(one, two.email), foreign(two, one.email), makeOrderToken(randomUUID(), { email: one.email }), 'x'.repeat(200)],
  ]
  const details = new Set<string>()
  for (const token of wrong) {
    const answers = [await read(token), await read(token, { postal_code: '1010' }), await cancel(token)]
    for (const answer of answers) details.add(JSON.stringify({ ...assertEnded(answer), request_id: '', trace_id: '' }))
  }
  assert.equal(details.size, 1)
  const { rows } = await store.pool.query('select distinct status from orders where id = any($1)', [[one.id, two.id]])
  assert.deepEqual(rows, [{ status: 'pending' }])
})

test('limits forged links by network, and uses and postal codes by recipient', async (t) => {
  const limited = await startStore(t, { isRateLimited: true, isNetworkLimited: true, trustProxy: false })
  const product = await limited.addProduct()
  const [order, other] = [await placeLinkedOrder(limited, product), await placeLinkedOrder(limited, product)]
  const from = (host: number, body: object) => limited.call('POST', '/orders/by-link', { body, from: `192.0.2.${host}` })
  for (let count = 0; count < 100; count++) assertEnded(await from(1, { token: 'x' }))
  assertProblem(await from(1, { token: order.token }), 429, 'rate_limited')
  const guess = (host: number, token = order.token) => from(host, { token, postal_code: '9999' })
  for (let count = 0; count < 5; count++) assertProblem(await guess(2 + count), 422, 'wrong_postal_code')
  const refused = await from(30, { token: order.token, postal_code: '1010' })
  assertProblem(refused, 429, 'rate_limited')
  assert.ok(Number(refused.headers['retry-after']) <= 86_400)
  for (let day = 1; day < 4; day++) {
    await limited.pool.query(`delete from rate_limits where key like 'postal-code-day:%'`)
    for (let count = 0; count < 5; count++) assertProblem(await guess(2 + count), 422, 'wrong_postal_code')
  }
  await limited.pool.query(`delete from rate_limits where key like 'postal-code-day:%'`)
  assertProblem(await guess(30), 429, 'rate_limited')
  assert.equal((await from(30, { token: order.token })).status, 200)
  assert.equal((await from(30, { token: other.token, postal_code: '1010' })).status, 200)

  for (let count = 0; count < 60; count++) assert.equal((await from(40, { token: order.token })).status, 200)
  assertProblem(await from(40, { token: order.token }), 429, 'rate_limited')
  for (const [host, token] of [
    [41, order.token],
    [40, other.token],
  ] as const)
    assert.equal((await from(host, { token })).status, 200)

  const [before, shippingAddress] = [other.token, { ...GUEST_ADDRESS, line1: 'Ring 2' }]
  await limited.pool.query('update orders set shipping_address = $2 where id = $1', [other.id, shippingAddress])
  for (let count = 0; count < 5; count++) await guess(50, before)
  let ended = 0
  for (let count = 0; count < 110; count++) ended += Number((await from(50, { token: before })).json.code === 'invalid_order_link')
  assert.ok(ended >= 55, 'uses of an ended link are no guesses')
  const live = makeOrderToken(other.id, { email: other.email, shippingAddress })
  assert.equal((await from(50, { token: live })).status, 200, 'uses of the ended link do not count for the live one')
  const expired = makeOrderToken(other.id, { email: other.email, shippingAddress }, new Date(Date.now() - 91 * 86_400_000))
  for (let count = 0; count < 101; count++) assertEnded(await from(51, { token: expired }))
})

test("a cancellation ends with its link, and is retried once when only the order's version has changed", async () => {
  for (const [line1, code, status] of [
    ['Ring 2', 'invalid_order_link', 'pending'],
    [GUEST_ADDRESS.line1, undefined, 'cancelled'],
  ] as const) {
    const order = await placeLinkedOrder(store, lamp)
    const cancelling = await inTransaction(store.pool, async (tx) => {
      await setStatus(tx, [order.id], 'pending')
      await tx.query('update orders set shipping_address = $2 where id = $1', [order.id, { ...GUEST_ADDRESS, line1 }])
      const { rows } = await tx.query('select pg_backend_pid() as pid')
      const answer = cancel(order.token)
      const isBlocked = async () => {
        const sql = 'select from pg_stat_activity where $1 = any(pg_blocking_pids(pid))'
        return (await store.pool.query(sql, [rows[0].pid])).rows.length > 0
      }
      await eventually(isBlocked, { what: 'the cancel waits for the order' })
      return { answer }
    })
    const { json, text } = await cancelling.answer
    assert.equal(json.code, code, text)
    const { rows } = await store.pool.query('select status from orders where id = $1', [order.id])
    assert.deepEqual(rows, [{ status }], text)
  }
})

test('no log line contains a link, an address or data of the order', async (t) => {
  const { logger, lines } = collectLog('trace')
  const logging = await startSecondProcess(t, store, { logger, loggedRequests: 'all' as never })
  const order = await placeLinkedOrder(store, lamp)
  for (const token of [order.token, `${order.token.slice(0, -1)}_`]) {
    await read(token, { postal_code: '1010' }, logging.call)
    await read(token, { postal_code: '1011' }, logging.call)
    await cancel(token, logging.call)
  }
  const log = lines.join('')
  for (const secret of [order.token.slice(0, 20), order.id, order.number, order.email, 'Ring 1', '1010'])
    assert.ok(!log.includes(secret), `${secret}: ${lines.find((line) => line.includes(secret))}`)
})
