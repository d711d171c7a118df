import assert from 'node:assert/strict'
import { test } from 'node:test'
import { anOrder, moveOrdersIn, startMoved } from '../../test/move-in-harness.ts'

test('the address and note of an imported order are erased like those of any other, and the next run leaves them erased', async (t) => {
  const store = await startMoved(t, { retainOrderAddressDays: 30 })
  const file = [
    anOrder(1, {
      note: 'Ring twice',
      shipping_address: { name: 'Ada', line1: 'Street 1', city: 'Ulm', postal_code: '89073', country: 'DE' },
    }),
  ]
  await moveOrdersIn(store, file)
  const login = await store.call('POST', '/auth/login', { body: { email: 'ada@example.com', password: 'an old passphrase' } })
  assert.equal((await store.call('DELETE', '/me', { token: login.json.access_token })).status, 204)
  const again = await moveOrdersIn(store, file)
  assert.deepEqual([again.outcomes.unchanged, again.problems], [1, []])
  const { rows } = await store.pool.query('select shipping_address, note from orders')
  assert.deepEqual(rows, [{ shipping_address: null, note: null }])
  const more = await moveOrdersIn(store, [anOrder(2)])
  assert.deepEqual(more.problems, ['1: its customer has deleted their account here'])
})

test('a note or an address that the source has got since the first run, or has lost, is a difference', async (t) => {
  const store = await startMoved(t)
  const address = { name: 'Ada', line1: 'Street 1', city: 'Ulm', postal_code: '89073', country: 'DE' }
  const with_ = { note: 'Ring twice', shipping_address: address }
  assert.equal((await moveOrdersIn(store, [anOrder(1), anOrder(2, with_)])).outcomes.created, 2)
  const same = await moveOrdersIn(store, [anOrder(1, { note: null }), anOrder(2, with_)])
  assert.deepEqual([same.outcomes.unchanged, same.problems], [2, []])
  for (const [first, second] of [
    [{ note: 'new' }, { ...with_, note: null }],
    [{ shipping_address: address }, { note: with_.note }],
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
