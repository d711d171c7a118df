import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { addBuyer } from '../../../test/buyers.ts'
import { assertProblem, faults } from '../../../test/problem.ts'
import { type CallOptions, startStore } from '../../../test/store.ts'

const store = await startStore({ after })
const admin = await addBuyer(store, 'admin')

test('rotating and revoking a key need no body, and refuse a body with unknown properties', async () => {
  const body = { name: 'A scanner', scopes: ['orders:read'] }
  const { id, key } = await admin.ok('POST', '/admin/api-keys', { body })
  const send = (what: string, options: CallOptions = {}) =>
    store.call('POST', `/admin/api-keys/${id}/${what}`, { token: admin.token, ...options })
  for (const what of ['rotate', 'revoke']) {
    const refused = await send(what, { body: { reason: 'leaked' } })
    assert.deepEqual(faults(assertProblem(refused, 422, 'invalid_body', what)), ['#/reason'])
    for (const raw of ['null', '[]', '"now"']) assertProblem(await send(what, { raw }), 422, 'invalid_body', `${what} ${raw}`)
  }
  assert.equal((await store.call('GET', '/admin/orders', { token: key })).status, 200, 'nothing was done')
  const rotated = await send('rotate')
  assert.equal(rotated.status, 200, rotated.text)
  assert.ok(Math.abs(Date.parse(rotated.json.previous_secret_expires_at) - Date.now() - 86_400_000) < 60_000, 'a day, the default')
  for (const options of [{}, { body: {} }, { raw: '' }]) {
    const revoked = await send('revoke', options)
    assert.deepEqual([revoked.status, revoked.json.state], [200, 'revoked'])
  }
  assertProblem(await store.call('GET', '/admin/orders', { token: rotated.json.key }), 401, 'invalid_token')
})
