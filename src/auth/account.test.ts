import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertProblem, faults } from '../../test/problem.ts'
import { startSecondProcess, startStore, type TestStore } from '../../test/store.ts'

const NEW_PASSWORD = 'quite another passphrase'

const login = async (store: TestStore, { email, password }: { email: string; password: string }, agent = 'test') =>
  store.call('POST', '/auth/login', { body: { email, password }, headers: { 'user-agent': agent } })
const statusOf = async (store: Pick<TestStore, 'call'>, token: string) => (await store.call('GET', '/me', { token })).status

test('lists the open sessions of the caller, newest first', async (t) => {
  const store = await startStore(t)
  const ada = await store.register()
  for (const agent of ['Firefox', 'x'.repeat(900)]) assert.equal((await login(store, ada, agent)).status, 200)
  const ended = (await login(store, ada)).json.access_token
  await store.call('POST', '/auth/logout', { token: ended })

  const listed = await ada.call('GET', '/auth/sessions')
  const sessions: { user_agent: string; current: boolean }[] = listed.json.data
  assert.deepEqual(
    sessions.map(({ user_agent }) => user_agent?.slice(0, 14)),
    ['x'.repeat(14), 'Firefox', 'lightMyRequest'],
  )
  assert.deepEqual(
    sessions.map(({ current }) => current),
    [false, false, true],
  )
  assert.deepEqual(Object.keys(sessions[0] ?? {}).sort(), ['created_at', 'current', 'id', 'last_used_at', 'user_agent'])
})

test("ends one of the caller's sessions and no others", async (t) => {
  const store = await startStore(t)
  const [ada, bob] = [await store.register(), await store.register()]
  const phone = (await login(store, ada)).json
  const [session] = (await ada.ok('GET', '/auth/sessions')).data
  assertProblem(await bob.call('DELETE', `/auth/sessions/${session.id}`), 404, 'not_found', "another user's")
  assert.equal(await statusOf(store, phone.access_token), 200)
  const end = () => ada.call('DELETE', `/auth/sessions/${session.id}`)
  assert.equal((await end()).status, 204)
  assert.equal(await statusOf(store, phone.access_token), 401)
  assert.equal(await statusOf(store, ada.token), 200)
  const refused = await store.call('POST', '/auth/refresh', { body: { refresh_token: phone.refresh_token } })
  assertProblem(refused, 401, 'invalid_refresh_token')
  assertProblem(await end(), 404, 'not_found', 'twice')
  assertProblem(await ada.call('DELETE', '/auth/sessions/x'), 404, 'not_found')
})

test('changes the password with the current one and ends the other sessions', async (t) => {
  const store = await startStore(t)
  const ada = await store.register()
  const phone = (await login(store, ada)).json
  const change = (body: object, token = ada.token) => store.call('POST', '/auth/password', { token, body })
  assertProblem(await change({ current_password: 'wrong', new_password: NEW_PASSWORD }), 401, 'invalid_credentials')
  for (const [new_password, code] of [
    ['password1', 'password_too_common'],
    [ada.email, 'password_too_common'],
  ] as const) {
    assert.deepEqual(faults(assertProblem(await change({ current_password: ada.password, new_password }), 422, code)), ['#/new_password'])
  }
  assert.equal(await statusOf(store, phone.access_token), 200, 'nothing has happened yet')

  const answer = await change({ current_password: ada.password, new_password: NEW_PASSWORD })
  assert.deepEqual([answer.status, answer.text], [204, ''])
  assert.equal(await statusOf(store, ada.token), 200, 'the caller stays logged in')
  assert.equal(await statusOf(store, phone.access_token), 401)
  assertProblem(await login(store, ada), 401, 'invalid_credentials', 'the old password')
  assert.equal((await login(store, { ...ada, password: NEW_PASSWORD })).status, 200)
})

test('lets one of two parallel password changes succeed', async (t) => {
  const store = await startStore(t)
  const ada = await store.register()
  const changes = ['passphrase number one', 'passphrase number two'].map((new_password) =>
    ada.call('POST', '/auth/password', { body: { current_password: ada.password, new_password } }),
  )
  assert.deepEqual((await Promise.all(changes)).map(({ status }) => status).toSorted(), [204, 401])
})

test('changes the name and nothing else', async (t) => {
  const store = await startStore(t)
  const ada = await store.register({ name: 'Ada' })
  const patch = (body: unknown) => ada.call('PATCH', '/me', { body })
  const renamed = await patch({ name: 'Ada Lovelace' })
  assert.deepEqual([renamed.status, renamed.json.name, renamed.json.email], [200, 'Ada Lovelace', ada.email])
  assert.equal((await patch({})).json.name, 'Ada Lovelace')
  assert.equal((await patch({ name: '' })).json.name, null, 'an empty field of a form')
  assert.equal((await patch({ name: null })).json.name, null)
  for (const body of [{ role: 'admin' }, { email: 'eve@example.com' }, { id: ada.id }, { name: 'a\r\nBcc: x' }, { name: ['x'] }, []]) {
    assertProblem(await patch(body), 422, 'invalid_body', JSON.stringify(body))
  }
})

test('erases the account, keeps its orders under its id, and ends its sessions everywhere', async (t) => {
  const store = await startStore(t)
  const other = await startSecondProcess(t, store)
  const [ada, bob] = [await store.register({ name: 'Ada' }), await store.register()]
  const lamp = await store.addProduct()
  await ada.ok('POST', '/orders', { body: { items: [{ product_id: lamp.id, quantity: 1 }] } })
  await store.call('POST', '/auth/password-reset', { body: { email: ada.email } })
  const phone = (await login(store, ada)).json

  const answer = await ada.call('DELETE', '/me')
  assert.deepEqual([answer.status, answer.text], [204, ''])
  for (const token of [ada.token, phone.access_token]) {
    assertProblem(await store.call('GET', '/me', { token }), 401, 'invalid_token')
    assertProblem(await other.call('GET', '/me', { token }), 401, 'invalid_token', 'the row is asked for, so even before the news')
  }
  assertProblem(await store.call('POST', '/auth/refresh', { body: { refresh_token: phone.refresh_token } }), 401, 'invalid_refresh_token')
  assertProblem(await login(store, ada), 401, 'invalid_credentials')
  const counts = await store.pool.query(
    `select (select count(*) from users where id = $1 or email = $2) as users, (select count(*) from sessions where user_id = $1) as sessions,
      (select count(*) from password_resets where user_id = $1) as resets, (select count(*) from orders where user_id = $1) as orders`,
    [ada.id, ada.email],
  )
  assert.deepEqual(counts.rows, [{ users: 0, sessions: 0, resets: 0, orders: 1 }])
  assert.equal(await statusOf(store, bob.token), 200)
  const again = await store.register({ email: ada.email })
  assert.notEqual(again.id, ada.id, 'the address is free, and gives no access to the old orders')
  assert.deepEqual((await again.ok('GET', '/orders')).data, [])
})

test('two deletions at once, or a deletion beside a login, leave nothing behind', async (t) => {
  const store = await startStore(t)
  const ada = await store.register()
  const [first, second, ...logins] = await Promise.all([
    ada.call('DELETE', '/me'),
    ada.call('DELETE', '/me'),
    ...Array.from({ length: 4 }, () => login(store, ada)),
  ])
  assert.ok([first.status, second.status].includes(204))
  assert.ok([first.status, second.status].every((status) => status === 204 || status === 401))
  for (const { status, json } of logins) if (status === 200) assert.equal(await statusOf(store, json.access_token), 401)
  assert.equal((await store.pool.query('select from users union all select from sessions')).rowCount, 0)
})
