import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { makeKey } from '../../test/api-keys.ts'
import { addBuyer } from '../../test/buyers.ts'
import { assertProblem, faults } from '../../test/problem.ts'
import { startSecondProcess, startStore } from '../../test/store.ts'
import { eraseCopies } from '../app/housekeeping.ts'
import type { Scope } from '../http/scopes.ts'
import { eraseDueAddresses } from './erase-addresses.ts'

const store = await startStore({ after })
const other = await startSecondProcess({ after }, store)
const operator = await addBuyer(store, 'admin')
const token = operator.token
const OLD = { name: 'Ada Lovelace', line1: '12 St James Square', city: 'London', postal_code: 'SW1Y 4JH', country: 'GB' }
const NEW = { ...OLD, line1: '21 Albemarle Street', postal_code: 'W1S 4BS' }
const PARCEL = { carrier: 'DHL', number: '1' }

const amend = (id: string, body: unknown, headers: Record<string, string> = {}, query = '', by: Pick<typeof store, 'call'> = store) =>
  by.call('POST', `/admin/orders/${id}/amendments${query}`, { token, body, headers })
const move = (id: string, to: string, more: object = {}) =>
  store.call('POST', `/admin/orders/${id}/transitions`, { token, body: { to, ...more } })
const row = async (id: string) =>
  (await store.pool.query('select version, status, shipping_address, email, former_values, status_history from orders where id = $1', [id]))
    .rows[0]

/** Places a customer's order of two lamps and moves it to the given statuses in turn. */
async function place(...moves: string[]) {
  const buyer = await store.register()
  const lamp = await store.addProduct({ stock: 10, amount: 1_000 })
  const body = { items: [{ product_id: lamp.id, quantity: 2 }], shipping_address: OLD, note: 'ring' }
  const { status, json, text } = await store.call('POST', '/orders', { token: buyer.token, body })
  assert.equal(status, 201, text)
  for (const to of moves) assert.equal((await move(json.id, to, to === 'shipped' ? { tracking: PARCEL } : {})).status, 200)
  return { id: json.id as string, buyer }
}

test('an amendment changes the delivery and mail addresses in one version with its actor, and keeps the former values apart', async () => {
  const { id, buyer } = await place('confirmed')
  const amended = await amend(
    id,
    { shipping_address: NEW, email: 'Ada@Example.com', reason: 'A call.', reference: 'call-1' },
    { 'if-match': '"2"' },
  )
  assert.equal(amended.status, 200, amended.text)
  const { order, is_preview, mails } = amended.json
  assert.deepEqual(
    [order.shipping_address, order.email, order.version, order.status, is_preview],
    [NEW, 'ada@example.com', 3, 'confirmed', false],
  )
  assert.deepEqual(mails, [
    { kind: 'amended', to: 'customer' },
    { kind: 'readdressed', to: 'former_address' },
  ])
  const { at, actor, ...entry } = order.status_history[2]
  assert.deepEqual([actor, Date.parse(at) > 0], [{ type: 'admin', id: operator.id }, true])
  assert.deepEqual(entry, {
    ...{ status: 'confirmed', reason: 'A call.', reference: 'call-1' },
    change: { type: 'amended', amended: ['shipping_address', 'email'] },
  })
  const own = await store.call('GET', `/orders/${id}`, { token: buyer.token })
  assert.deepEqual([own.json.shipping_address, own.json.email, own.json.total], [NEW, 'ada@example.com', order.total])
  const stored = await row(id)
  assert.deepEqual(stored.former_values, { 2: { shipping_address: OLD, email: null } })
  const { rows } = await store.pool.query('select before, after, action from activities where subject_id = $1 order by id desc limit 1', [
    id,
  ])
  assert.deepEqual(rows[0], {
    ...{ action: 'amendOrder', before: { status: 'confirmed', version: 2 } },
    after: { status: 'confirmed', version: 3, change: { type: 'amended', amended: ['shipping_address', 'email'] } },
  })
  const found = await store.call('GET', '/admin/orders?email=ADA%40example.com', { token })
  assert.deepEqual(
    found.json.data.map((each: { id: string }) => each.id),
    [id],
  )
})

test('a preview has the same answers and refusals, and changes nothing', async () => {
  const { id } = await place()
  const before = await row(id)
  const body = { shipping_address: NEW, email: 'new@example.com' }
  const previewed = await amend(id, body, {}, '?preview=true')
  assert.equal(previewed.status, 200, previewed.text)
  assert.deepEqual([previewed.json.is_preview, previewed.json.order.version, previewed.json.order.shipping_address], [true, 2, NEW])
  assert.deepEqual(await row(id), before)
  assert.equal((await store.pool.query(`select from activities where subject_id = $1`, [id])).rowCount, 0)
  const made = await amend(id, body)
  const { order, mails } = made.json
  const withoutTime = ({ updated_at: _u, status_history: history, ...rest }: typeof order) => [rest, history.length]
  assert.deepEqual([withoutTime(order), mails], [withoutTime(previewed.json.order), previewed.json.mails])
  assertProblem(await amend(id, { email: 'third@example.com' }, { 'if-match': '"1"' }, '?preview=true'), 412, 'precondition_failed')
})

test('corrects the tracking of a parcel that is named by its version', async () => {
  const { id } = await place('confirmed', 'shipped')
  const tracking = { carrier: 'UPS', number: '1Z', url: 'https://ups.example/1Z' }
  const amended = await amend(id, { parcel: { version: 3, tracking } })
  assert.equal(amended.status, 200, amended.text)
  const [parcel] = amended.json.order.parcels
  assert.deepEqual([parcel.version, parcel.tracking, amended.json.order.status], [3, tracking, 'shipped'])
  assert.deepEqual(amended.json.order.status_history[3].change, { type: 'amended', amended: ['tracking'], parcel: 3 })
  assert.deepEqual(amended.json.mails, [{ kind: 'amended', to: 'customer' }])
  assert.deepEqual(faults(assertProblem(await amend(id, { parcel: { version: 2, tracking } }), 422, 'invalid_body')), ['#/parcel/version'])
  const script = { parcel: { version: 3, tracking: { ...tracking, url: 'https://me:secret@ups.example' } } }
  assert.deepEqual(faults(assertProblem(await amend(id, script), 422, 'invalid_body')), ['#/parcel/tracking/url'])
  assert.equal((await row(id)).version, 4)
})

test('refuses late amendments and points to each value, and changes nothing', async () => {
  const shipped = await place('confirmed', 'shipped')
  const late = assertProblem(await amend(shipped.id, { shipping_address: NEW, email: 'a@example.com' }), 409, 'too_late_to_amend')
  assert.deepEqual([faults(late), late.current_status], [['#/shipping_address'], 'shipped'])
  assert.equal((await row(shipped.id)).version, 3)
  assert.equal((await amend(shipped.id, { email: 'a@example.com' })).status, 200, 'mails still come')
  for (const to of ['cancelled', 'returned']) {
    const { id } = await place(...(to === 'returned' ? ['confirmed', 'shipped', 'returned'] : [to]))
    const parcel = to === 'returned' ? { parcel: { version: 3, tracking: { carrier: 'UPS', number: '2' } } } : {}
    const problem = assertProblem(await amend(id, { shipping_address: NEW, email: 'a@example.com', ...parcel }), 409, 'too_late_to_amend')
    assert.deepEqual(faults(problem), ['#/shipping_address', '#/email', ...(to === 'returned' ? ['#/parcel'] : [])])
  }
})

test('refuses bodies that change nothing or have an invalid address or e-mail address', async () => {
  const { id } = await place()
  const cases = [
    [{}, '#'],
    [{ reason: 'A call.' }, '#'],
    [{ shipping_address: null }, '#/shipping_address'],
    [{ shipping_address: { ...NEW, postal_code: null } }, '#/shipping_address/postal_code'],
    [{ email: 'Ada <ada@example.com>' }, '#/email'],
    [{ billing_address: { ...NEW, postal_code: null } }, '#/billing_address/postal_code'],
    [{ vat_number: '123456789' }, '#/vat_number'],
    [{ note: 'Ring.' }, '#/note'],
  ] as const
  for (const [body, pointer] of cases) {
    assert.deepEqual(faults(assertProblem(await amend(id, body), 422, 'invalid_body', JSON.stringify(body))), [pointer])
  }
  assertProblem(await amend('01997a60-2b33-7e45-a1c8-6d0e9f7b3a55', { email: 'a@example.com' }), 404, 'not_found')
  assert.equal((await row(id)).version, 1)
})

test('a key needs the scope for amendments', async () => {
  const { id } = await place()
  const body = { shipping_address: NEW }
  const call = async (scope: Scope) => {
    const { key } = await makeKey(store, [scope])
    return store.call('POST', `/admin/orders/${id}/amendments`, { token: key, body })
  }
  assertProblem(await call('orders:move'), 403, 'forbidden')
  const { key } = await makeKey(store, ['orders:amend'])
  const previewed = await store.call('POST', `/admin/orders/${id}/amendments?preview=true`, { token: key, body })
  assertProblem(previewed, 403, 'forbidden', 'it would read an order without a trace')
  const amended = await call('orders:amend')
  assert.equal(amended.json.order?.status_history[1].actor.type, 'key', amended.text)
})

test('the same amendment again changes nothing, with or without its reference, and another one may not use the reference', async () => {
  const { id } = await place()
  const body = { shipping_address: NEW, email: 'ada@example.com', reference: 'call-1' }
  assert.equal((await amend(id, body)).status, 200)
  assert.equal((await amend(id, { shipping_address: OLD, reference: 'call-2' })).status, 200)
  for (const again of [body, { email: 'ada@example.com' }, { shipping_address: OLD }]) {
    const repeated = await amend(id, again, { 'if-match': '"1"' })
    assert.deepEqual([repeated.status, repeated.headers['idempotency-replayed']], [200, 'true'], repeated.text)
    assert.deepEqual([repeated.json.order.version, repeated.json.order.shipping_address, repeated.json.mails], [3, OLD, []])
  }
  assertProblem(await amend(id, { ...body, email: 'bob@example.com' }), 409, 'change_reference_taken')
  assertProblem(await amend(id, { email: 'ada@example.com', reference: 'call-1' }), 409, 'change_reference_taken', 'it amended more')
  const sameWithNull = { shipping_address: { ...OLD, line2: null } }
  assert.equal((await amend(id, sameWithNull)).headers['idempotency-replayed'], 'true')
  assert.equal((await row(id)).version, 3)
})

test('makes one of two amendments from the same version, in any process', async () => {
  for (let round = 0; round < 5; round++) {
    const { id } = await place()
    const answers = await Promise.all([
      amend(id, { email: 'one@example.com' }, { 'if-match': '"1"' }),
      amend(id, { shipping_address: NEW }, { 'if-match': '"1"' }, '', other),
    ])
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 412])
    const { version, shipping_address, email } = await row(id)
    assert.equal(version, 2)
    assert.equal(email === null, shipping_address.line1 === NEW.line1)
  }
})

test('an amendment beside a shipment or a cancellation is made before it or refused as too late', async () => {
  for (const to of ['shipped', 'cancelled', 'shipped', 'cancelled']) {
    const { id } = await place('confirmed')
    const [moved, amended] = await Promise.all([move(id, to), amend(id, { shipping_address: NEW }, {}, '', other)])
    assert.equal(moved.status, 200)
    const { status, version, status_history: history, shipping_address } = await row(id)
    assert.equal(status, to)
    if (amended.status !== 200) assertProblem(amended, 409, 'too_late_to_amend')
    const isAmended = amended.status === 200
    assert.deepEqual(
      [version, history.length, shipping_address.line1],
      [isAmended ? 4 : 3, isAmended ? 4 : 3, (isAmended ? NEW : OLD).line1],
    )
    if (isAmended) assert.equal(history[2].change.type, 'amended', 'it was first')
  }
})

test('an erased order takes no new personal data, and an order that is amended during its erasure keeps none', async () => {
  const erasure = { eraseCopies, retainDays: 30 }
  const later = new Date(Date.now() + 40 * 86_400_000)
  const { id, buyer } = await place('confirmed', 'shipped')
  assert.equal((await amend(id, { email: 'ada@example.com' })).status, 200)
  assert.equal((await store.call('DELETE', '/me', { token: buyer.token })).status, 204)
  await eraseDueAddresses(store.pool, erasure, later)
  const { shipping_address, email, former_values } = await row(id)
  assert.deepEqual([shipping_address, email, former_values], [null, null, null])
  await store.pool.query('delete from deleted_accounts where user_id = $1', [buyer.id])
  assertProblem(await amend(id, { email: 'again@example.com' }), 409, 'order_erased')
  assert.equal((await amend(id, { parcel: { version: 3, tracking: { carrier: 'UPS', number: '2' } } })).status, 200, 'this names nobody')

  for (let round = 0; round < 5; round++) {
    const racing = await place('confirmed', 'shipped')
    assert.equal((await store.call('DELETE', '/me', { token: racing.buyer.token })).status, 204)
    await Promise.all([amend(racing.id, { email: 'ada@example.com' }), eraseDueAddresses(store.pool, erasure, later)])
    await eraseDueAddresses(store.pool, erasure, later)
    const erased = await row(racing.id)
    assert.deepEqual([erased.shipping_address, erased.email, erased.former_values], [null, null, null])
  }
})

test('an amended e-mail address is removed again, operators see the former values, and a search by it finds only this order', async () => {
  const { id, buyer } = await place()
  const other = (
    await store.call('POST', '/orders', {
      token: buyer.token,
      body: { items: [{ product_id: (await store.addProduct()).id, quantity: 1 }], shipping_address: OLD },
    })
  ).json.id
  const find = async (email: string) =>
    (await store.call('GET', `/admin/orders?email=${encodeURIComponent(email)}`, { token })).json.data.map(
      (order: { id: string }) => order.id,
    )
  const email = `${id}@example.com`
  assert.equal((await amend(id, { email })).status, 200)
  assert.deepEqual(await find(email), [id])
  assert.deepEqual(await find(buyer.email), [other, id], 'the orders of the account stay its orders')
  const shown = await store.call('GET', `/admin/orders/${id}`, { token })
  assert.deepEqual(shown.json.former_values, { 1: { email: null } })
  const back = await amend(id, { email: null })
  assert.deepEqual([back.status, back.json.order.email, back.json.mails.length], [200, undefined, 2], back.text)
  assert.deepEqual(back.json.order.former_values, { 1: { email: null }, 2: { email } })
  assert.equal((await row(id)).email, null)
  const own = await amend(id, { email: buyer.email })
  assert.deepEqual(own.json.mails, [{ kind: 'amended', to: 'customer' }], 'nobody has lost the mails')
  assert.equal((await store.call('GET', `/orders/${id}`, { token: buyer.token })).json.former_values, undefined)
})
