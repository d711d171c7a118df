import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { addBuyer } from '../../test/buyers.ts'
import { placeLinkedOrder } from '../../test/order-links.ts'
import { assertProblem, faults } from '../../test/problem.ts'
import { startStore } from '../../test/store.ts'
import { findInvalidRows } from '../audit/verify/invalid-rows.ts'
import { toOrderEvents } from './events.ts'
import { getOrderRecords } from './order-column-sql.ts'
import { findVatNumberFault } from './vat-number.ts'

const store = await startStore({ after })
const { token } = await addBuyer(store, 'admin')
const buyer = await store.register()
const lamp = await store.addProduct({ stock: null })
const items = [{ product_id: lamp.id, quantity: 1 }]
const SHIPPING = { name: 'Ada Lovelace', line1: '12 St James Square', city: 'London', postal_code: 'SW1Y 4JH', country: 'GB' }
const BILLING = { name: 'Accounts', company: 'Quadrille & Söhne GmbH', line1: 'Ring 1', city: 'Wien', postal_code: '1010', country: 'AT' }

const post = (path: string, body: object, more: object = {}) => store.call('POST', path, { token: buyer.token, body, ...more })
async function place(given: object) {
  const { status, json, text } = await post('/orders', { items, ...given })
  assert.equal(status, 201, text)
  return json
}
const amend = (id: string, body: object, query = '') => store.call('POST', `/admin/orders/${id}/amendments${query}`, { token, body })
const row = async (id: string) =>
  (await store.pool.query('select billing_address, vat_number, former_values from orders where id = $1', [id])).rows[0]

test('an order has a billing address and a normalized VAT number, and an order without them has no such members', async () => {
  const order = await place({ shipping_address: SHIPPING, billing_address: BILLING, vat_number: ' atu 1234.56-78 ' })
  assert.deepEqual([order.billing_address, order.vat_number], [BILLING, 'ATU12345678'])
  for (const path of [`/orders/${order.id}`, `/admin/orders/${order.id}`]) {
    const read = await store.call('GET', path, { token: path.startsWith('/admin') ? token : buyer.token })
    assert.deepEqual([read.json.billing_address, read.json.vat_number], [BILLING, 'ATU12345678'], path)
  }
  const plain = await place({ shipping_address: SHIPPING, vat_number: ' ' })
  assert.deepEqual(
    ['billing_address', 'vat_number'].filter((name) => name in plain),
    [],
  )
  assert.deepEqual(await row(plain.id), { billing_address: null, vat_number: null, former_values: null })
})

test('an order and a quote refuse an undeliverable billing address and an impossible VAT number', async () => {
  const cases = [
    [{ billing_address: { ...BILLING, postal_code: undefined } }, '#/billing_address/postal_code', 'is required'],
    [
      { billing_address: { ...BILLING, country: 'ZZ' } },
      '#/billing_address/country',
      'must be the ISO 3166-1 code of a country, such as GB',
    ],
    [{ vat_number: '123456789' }, '#/vat_number', 'must begin with the two letters of its country, as in DE123456789'],
    [{ vat_number: 'DE12345678' }, '#/vat_number', 'must be written like DE123456789'],
    [{ vat_number: 'GR123456789' }, '#/vat_number', 'must begin with EL, which stands for Greece in VAT numbers'],
    [{ vat_number: 'AU-' }, '#/vat_number', 'must be AU and 2 to 18 letters and digits'],
  ] as const
  for (const path of ['/orders', '/orders/quote']) {
    for (const [given, pointer, detail] of cases) {
      const problem = assertProblem(await post(path, { items, ...given }), 422, 'invalid_body', JSON.stringify(given))
      assert.deepEqual(problem.errors, [{ pointer, detail }], path)
    }
    assert.ok((await post(path, { items, billing_address: BILLING, vat_number: 'DE 123 456 789' })).status < 300, path)
  }
})

test('accepts VAT numbers of each EU country and of others in their national spelling', () => {
  const written = `ATU12345678 BE0123456789 BG123456789 CY12345678X CZ12345678 DE123456789 DK12345678 EE123456789 EL123456789 ESX1234567X
    ES12345678Z FI12345678 FR12123456789 FRK7399859412 HR12345678901 HU12345678 IE1234567WA IE1A23456B IT12345678901 LT123456789
    LT123456789012 LU12345678 LV12345678901 MT12345678 NL123456789B01 PL1234567890 PT123456789 RO12 SE123456789001 SI12345678 SK1234567890
    GB123456789 GBGD123 XI123456789 CHE123456789MWST NO123456789MVA AU51824753556 IN27AAPFU0939F1ZV`.split(/\s+/)
  assert.deepEqual(
    written.filter((number) => findVatNumberFault(number) !== null),
    [],
  )
  const wrong = [
    '',
    'D',
    'DE',
    'DE12345678X',
    'ES123456789',
    'NL123456789B1',
    'ATX12345678',
    'ZZ123456789',
    'USABC',
    'DE123456789\n',
    'AU1',
  ]
  assert.deepEqual(
    wrong.filter((number) => findVatNumberFault(number) === null),
    [],
  )
})

test('the same request in another spelling is a repeat, and a request with another number is not', async () => {
  const headers = { 'idempotency-key': '"billing-1"' }
  const send = (vat_number: string) => post('/orders', { items, billing_address: BILLING, vat_number }, { headers })
  const first = await send('DE 123456789')
  const again = await send('de-123.456.789')
  assert.deepEqual([again.json.id, again.headers['idempotency-replayed']], [first.json.id, 'true'], again.text)
  assertProblem(await send('DE987654321'), 422, 'idempotency_key_reused')
})

test('an amendment replaces and removes billing data, keeps the former values, and each version has its own', async () => {
  const order = await place({ shipping_address: SHIPPING })
  const body = { billing_address: BILLING, vat_number: 'atu12345678', reference: 'call-9' }
  const preview = await amend(order.id, body, '?preview=true')
  assert.equal(preview.status, 200, preview.text)
  assert.deepEqual(await row(order.id), { billing_address: null, vat_number: null, former_values: null })
  const made = await amend(order.id, body)
  assert.deepEqual([made.json.order.billing_address, made.json.order.vat_number], [BILLING, 'ATU12345678'], made.text)
  assert.deepEqual(made.json.order.status_history[1].change, { type: 'amended', amended: ['billing_address', 'vat_number'] })
  assert.deepEqual((await amend(order.id, body)).headers['idempotency-replayed'], 'true')
  assertProblem(await amend(order.id, { ...body, vat_number: 'DE123456789' }), 409, 'change_reference_taken')

  for (const to of ['confirmed', 'shipped']) {
    assert.equal((await store.call('POST', `/admin/orders/${order.id}/transitions`, { token, body: { to } })).status, 200)
  }
  assert.deepEqual((await row(order.id)).billing_address, BILLING, 'a move leaves it')
  const late = assertProblem(await amend(order.id, { shipping_address: BILLING, billing_address: SHIPPING }), 409, 'too_late_to_amend')
  assert.deepEqual(faults(late), ['#/shipping_address'], 'an invoice is corrected after the parcel has left')
  const removed = await amend(order.id, { billing_address: null, vat_number: null })
  assert.equal(removed.status, 200, removed.text)
  assert.deepEqual(await row(order.id), {
    ...{ billing_address: null, vat_number: null },
    former_values: { 1: { billing_address: null, vat_number: null }, 4: { billing_address: BILLING, vat_number: 'ATU12345678' } },
  })
  const [record] = await getOrderRecords(store.pool, [order.id])
  assert.ok(record)
  assert.deepEqual(
    toOrderEvents(record).map(({ data }) => [data.order.billing_address?.company, data.order.vat_number]),
    [[undefined, undefined], ...Array.from({ length: 3 }, () => [BILLING.company, 'ATU12345678']), [undefined, undefined]],
  )
  const { status_history } = removed.json.order
  assert.doesNotMatch(JSON.stringify(status_history), /Quadrille|ATU12345678/, 'the history is never erased')
})

test('operators find an order by company, VAT number and billing address until these are removed', async () => {
  const order = await place({
    shipping_address: { ...SHIPPING, company: 'Difference Engines' },
    billing_address: BILLING,
    vat_number: 'EL123456000',
  })
  const other = await place({ shipping_address: SHIPPING })
  const search = async (q: string) =>
    (await store.call('GET', `/admin/orders?q=${encodeURIComponent(q)}`, { token })).json.data.map(({ id }: { id: string }) => id)
  const said = ['difference eng', 'EL 123-456-000', 'el123456000']
  for (const q of said) assert.deepEqual(await search(q), [order.id], q)
  for (const q of ['quadrille sohne', '1010']) assert.ok((await search(q)).includes(order.id) && !(await search(q)).includes(other.id), q)
  assert.equal((await amend(order.id, { billing_address: null, vat_number: null, shipping_address: SHIPPING })).status, 200)
  for (const q of said) assert.deepEqual(await search(q), [], q)
  assert.deepEqual(await findInvalidRows(store.pool, 5), [])
})

test('the order-link page shows billing data for a postal code that both addresses have, without a phone', async () => {
  const linked = await placeLinkedOrder(store, lamp, { billing_address: { ...BILLING, phone: '+43 99' }, vat_number: 'ATU12345678' })
  const read = (more: object = {}) => store.call('POST', '/orders/by-link', { body: { token: linked.token, ...more } })
  const closed = await read()
  assert.deepEqual([closed.json.billing_address, closed.json.vat_number], [null, null])
  assert.doesNotMatch(closed.text, /Quadrille|ATU/)
  const { json, text } = await read({ postal_code: '1010' })
  assert.deepEqual([json.billing_address, json.vat_number], [BILLING, 'ATU12345678'])
  assert.doesNotMatch(text, /\+43/)
})

test('the order-link page does not show the recipient of a present where the buyer lives', async () => {
  const readWith = async (given: object, postal_code: string) => {
    const { token } = await placeLinkedOrder(store, lamp, { vat_number: 'ATU12345678', ...given })
    return store.call('POST', '/orders/by-link', { body: { token, postal_code } })
  }
  const present = { billing_address: { ...BILLING, postal_code: '8010' } }
  const { json, text } = await readWith(present, '1010')
  assert.deepEqual([json.shipping_address.postal_code, json.billing_address, json.vat_number], ['1010', null, null])
  assert.doesNotMatch(text, /Quadrille|ATU/)
  assertProblem(await readWith(present, '8010'), 422, 'wrong_postal_code')
  assert.equal((await readWith({}, '1010')).json.vat_number, 'ATU12345678', 'the delivery address is that of the invoice')
  assertProblem(await readWith({ shipping_address: undefined, billing_address: BILLING }, '1010'), 422, 'wrong_postal_code')
})
