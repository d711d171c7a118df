import assert from 'node:assert/strict'
import { test } from 'node:test'
import { anOrder, moveOrdersIn, startMoved } from '../../test/move-in-harness.ts'

const ADDRESS = { name: 'Ada', line1: 'Street 1', city: 'Ulm', postal_code: '89073', country: 'DE' }

test("an imported order's address and note are erased like any other's, and the next run leaves them erased", async (t) => {
  const store = await startMoved(t, { retainOrderAddressDays: 30 })
  const file = [
    anOrder(1, {
      note: 'Ring twice',
      shipping_address: ADDRESS,
      billing_address: { ...ADDRESS, company: 'Engines' },
      vat_number: 'DE123456789',
    }),
  ]
  await moveOrdersIn(store, file)
  const login = await store.call('POST', '/auth/login', { body: { email: 'ada@example.com', password: 'an old passphrase' } })
  await store.ok('DELETE', '/me', { token: login.json.access_token })
  const again = await moveOrdersIn(store, file)
  assert.deepEqual([again.outcomes.unchanged, again.problems], [1, []])
  const { rows } = await store.pool.query('select shipping_address, billing_address, vat_number, note from orders')
  assert.deepEqual(rows, [{ shipping_address: null, billing_address: null, vat_number: null, note: null }])
  const more = await moveOrdersIn(store, [anOrder(2)])
  assert.deepEqual(more.problems, ['1: its customer has deleted their account here'])
})

test('a note or address that the source has added or removed since the first run is a difference', async (t) => {
  const store = await startMoved(t)
  const with_ = {
    note: 'Ring twice',
    shipping_address: ADDRESS,
    billing_address: { ...ADDRESS, company: 'Engines' },
    vat_number: 'DE123456789',
  }
  assert.equal((await moveOrdersIn(store, [anOrder(1), anOrder(2, with_)])).outcomes.created, 2)
  const same = await moveOrdersIn(store, [anOrder(1, { note: null }), anOrder(2, { ...with_, vat_number: ' de 123.456-789' })])
  assert.deepEqual([same.outcomes.unchanged, same.problems], [2, []])
  for (const [first, second] of [
    [{ note: 'new' }, { ...with_, note: null }],
    [{ shipping_address: ADDRESS }, { ...with_, shipping_address: null }],
    [{ billing_address: ADDRESS }, { ...with_, billing_address: ADDRESS }],
    [{ vat_number: 'ATU12345678' }, { ...with_, vat_number: null }],
  ]) {
    const again = await moveOrdersIn(store, [anOrder(1, first), anOrder(2, second)])
    assert.deepEqual([again.outcomes.changed, again.problems.length], [2, 2])
  }
  const { rows } = await store.pool.query('select note, shipping_address is not null as has_address from orders order by number')
  assert.deepEqual(rows, [
    { note: null, has_address: false },
    { note: 'Ring twice', has_address: true },
  ])
})
