import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { createGuest } from '../../test/guests.ts'
import { assertProblem } from '../../test/problem.ts'
import { startSecondProcess, startStore } from '../../test/store.ts'
import { MAX_ADDRESSES } from './addresses.ts'

const ADDRESS = { name: 'Ada', line1: 'Ring 1', city: 'Wien', postal_code: '1010', country: 'AT' }

test('an account keeps addresses with one default, even when several become the default at once in two processes', async (t) => {
  const store = await startStore(t)
  const other = await startSecondProcess(t, store)
  const [ada, bob, guest] = [await store.register(), await store.register(), await createGuest(store, 'ada@example.com')]
  const add = (token: string, body: object, call = store.call) =>
    call('POST', '/me/addresses', { token, body: { address: ADDRESS, ...body } })
  const list = async (token: string) => (await store.ok('GET', '/me/addresses', { token })).data
  const added = await Promise.all(
    Array.from({ length: 8 }, (_, i) => add(ada.token, { is_default: true }, i % 2 === 0 ? store.call : other.call)),
  )
  assert.deepEqual(new Set(added.map(({ status }) => status)), new Set([201]))
  const defaults = async () => (await list(ada.token)).filter(({ is_default }: { is_default: boolean }) => is_default)
  assert.equal((await defaults()).length, 1)
  const [first, second] = await list(ada.token)
  const change = (id: string, body: object, token = ada.token) => store.call('PATCH', `/me/addresses/${id}`, { token, body })
  await Promise.all([first, second].map(({ id }) => change(id, { is_default: true })))
  assert.equal((await defaults()).length, 1)
  assert.equal((await change(first.id, { address: { ...ADDRESS, city: 'Graz' } })).json.address.city, 'Graz')
  assert.deepEqual((await change(first.id, {})).json.address, { ...ADDRESS, city: 'Graz' })
  await assert.rejects(store.pool.query('update customer_addresses set is_default = true'), /customer_addresses_one_default/)

  for (const id of [first.id, randomUUID()]) {
    assertProblem(await change(id, { is_default: true }, bob.token), 404, 'not_found')
    assertProblem(await bob.call('DELETE', `/me/addresses/${id}`), 404, 'not_found')
  }
  assert.deepEqual(await list(bob.token), [])
  assert.equal((await add(guest.token, {})).status, 201, 'a guest has addresses, too')
  await ada.ok('DELETE', `/me/addresses/${first.id}`)
  assertProblem(await ada.call('DELETE', `/me/addresses/${first.id}`), 404, 'not_found')
  assert.equal((await list(ada.token)).length, 7)
  await ada.call('DELETE', '/me')
  assert.equal((await store.pool.query('select from customer_addresses where user_id = $1', [ada.id])).rowCount, 0)
})

test('an account has at most 50 addresses, even when many are added at once, and each is valid for an order', async (t) => {
  const store = await startStore(t)
  const customer = await store.register()
  const add = (address: object) => customer.call('POST', '/me/addresses', { body: { address } })
  const answers = await Promise.all(Array.from({ length: MAX_ADDRESSES + 6 }, () => add(ADDRESS)))
  assert.equal(answers.filter(({ status }) => status === 201).length, MAX_ADDRESSES)
  for (const answer of answers.filter(({ status }) => status !== 201)) assertProblem(answer, 409, 'too_many_addresses')
  const broken = [
    { ...ADDRESS, name: 'a\u0000b' },
    { ...ADDRESS, name: '\ud800' },
    { ...ADDRESS, country: 'Austria' },
    { ...ADDRESS, country: 'ZZ' },
    { ...ADDRESS, extra: 1 },
    { ...ADDRESS, line1: 'x'.repeat(201) },
  ]
  for (const address of broken) assert.equal((await add(address)).status, 422, JSON.stringify(address))
})
