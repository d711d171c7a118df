import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { makeKey } from '../../../test/api-keys.ts'
import { addBuyer, addBuyers, type Buyer } from '../../../test/buyers.ts'
import { promptly } from '../../../test/eventually.ts'
import { collectLog } from '../../../test/logs.ts'
import { assertProblem, faults } from '../../../test/problem.ts'
import { startSecondProcess, startStore, type TestStore } from '../../../test/store.ts'
import { changeSecretTo } from '../../app/secrets.ts'
import { hashToken } from '../tokens/opaque-token.ts'
import { createApiKey, MAX_ACTIVE_KEYS } from './create-api-key.ts'
import { formatKey, newSecret, parseKey } from './key-text.ts'

const store = await startStore({ after })
const other = await startSecondProcess({ after }, store)
const admin = await addBuyer(store, 'admin')
const A_SECOND = { withinMs: 1_000, what: 'the change in the other process' }

const create = (body: object, { call = store.call, token = admin.token } = {}) => call('POST', '/admin/api-keys', { token, body })
const read = async (call: TestStore['call'], token: string) => (await call('GET', '/admin/orders', { token })).status
const activitiesOf = async (id: string) =>
  (
    await store.pool.query(
      'select actor_type, actor_id, action, subject_type, before, after from activities where subject_id = $1 order by id',
      [id],
    )
  ).rows

test('an operator makes a key, which is shown once, stored as a hash, and valid in every process at once', async () => {
  const made = await create({ name: 'Warehouse scanner', scopes: ['orders:read', 'stock:write'], expires_at: null })
  assert.equal(made.status, 201, made.text)
  assert.equal(made.headers['cache-control'], 'no-store')
  const { key, ...shown } = made.json
  assert.deepEqual(shown, {
    ...{ id: shown.id, name: 'Warehouse scanner', state: 'active', scopes: ['orders:read', 'stock:write'], created_by: admin.id },
    ...{ created_at: shown.created_at, expires_at: null, last_used_at: null, previous_secret_expires_at: null },
    ...{ revoked_at: null, revoked_reason: null },
  })
  for (const { call } of [store, other]) assert.equal(await read(call, key), 200)
  const { rows } = await store.pool.query(
    'select encode(secret_hash, $2) as hash, to_jsonb(api_keys)::text as row from api_keys where id = $1',
    [shown.id, 'hex'],
  )
  const secret = parseKey(key)?.secret ?? ''
  assert.equal(rows[0].hash, hashToken(secret).toString('hex'))
  assert.ok(!rows[0].row.includes(secret))
  const json = await admin.ok('GET', '/admin/api-keys')
  // The use above may have been recorded in the meantime.
  assert.deepEqual({ ...json.data[0], last_used_at: null }, shown)
  assert.deepEqual(await activitiesOf(shown.id), [
    {
      ...{ actor_type: 'admin', actor_id: admin.id, action: 'createApiKey', subject_type: 'api_key', before: null },
      after: { scopes: ['orders:read', 'stock:write'], expires_at: null },
    },
  ])
})

test('a key can do what its scopes permit, and a refusal names the missing scope', async () => {
  const { key } = await makeKey(store, ['orders:read'])
  assert.equal(await read(store.call, key), 200)
  const refused = await store.call('GET', '/admin/stock?ids=01900000-0000-7000-8000-000000000000', { token: key })
  assert.equal(assertProblem(refused, 403, 'forbidden').required_scope, 'stock:read')
  assert.equal(refused.headers['www-authenticate'], 'Bearer realm="storefront", error="insufficient_scope", scope="stock:read"')
})

test('no key can have the scope for keys or make another key', async () => {
  const { id } = await makeKey(store, ['orders:read', 'customers:write', 'webhooks:write'])
  assertProblem(await create({ name: 'A', scopes: ['access:write'] }), 422, 'invalid_body')
  const forced = store.pool.query(`update api_keys set scopes = '{access:write}' where id = $1`, [id])
  await assert.rejects(forced, { constraint: 'api_keys_scopes_without_access' })
  const auditContext = { actor: { type: 'key' as const, id }, action: 'createApiKey', requestId: null }
  await assert.rejects(
    createApiKey(store.pool, { name: 'A', scopes: ['orders:read'], expiresAt: null }, { auditContext, now: new Date() }),
    {
      code: 'forbidden',
    },
  )
})

test('refuses an expiry in the past or in more than two years, and any other change of a key', async () => {
  const scopes = ['orders:read']
  const far = new Date(Date.now() + 732 * 86_400_000).toISOString()
  const wrong: [object, string][] = [
    [{ name: 'A', scopes, expires_at: '2020-01-01T00:00:00Z' }, '#/expires_at'],
    [{ name: 'A', scopes, expires_at: far }, '#/expires_at'],
  ]
  for (const [body, pointer] of wrong)
    assert.ok(faults(assertProblem(await create(body), 422, 'invalid_body', JSON.stringify(body))).includes(pointer), JSON.stringify(body))
  const nobody = randomUUID()
  assertProblem(await admin.call('POST', `/admin/api-keys/${nobody}/revoke`), 404, 'not_found')
  assertProblem(await admin.call('POST', `/admin/api-keys/${nobody}/rotate`, { body: {} }), 404, 'not_found')
})

test('a revoked key is refused here at once and in another process within a second, and stays revoked', async () => {
  const [{ id, key }, { key: another }] = [await makeKey(store, ['orders:read']), await makeKey(store, ['orders:read'])]
  for (const { call } of [store, other]) assert.equal(await read(call, key), 200)
  const { status, json } = await admin.call('POST', `/admin/api-keys/${id}/revoke`)
  assert.deepEqual([status, json.state, json.revoked_reason], [200, 'revoked', 'revoked'])
  assertProblem(await store.call('GET', '/admin/orders', { token: key }), 401, 'invalid_token')
  await promptly(store.pool, async () => (await read(other.call, key)) === 401, A_SECOND)
  for (const { call } of [store, other]) assert.equal(await read(call, another), 200, 'another key lives on')
  const again = await admin.call('POST', `/admin/api-keys/${id}/revoke`)
  // The use from above may be recorded in the meantime.
  assert.deepEqual({ ...again.json, last_used_at: null }, { ...json, last_used_at: null }, 'twice is once')
  const rotated = await admin.call('POST', `/admin/api-keys/${id}/rotate`, { body: {} })
  assertProblem(rotated, 409, 'api_key_ended')
  assert.deepEqual(
    (await activitiesOf(id)).map(({ actor_type, action, before, after: changed }) => ({ actor_type, action, before, changed })),
    [
      { actor_type: 'system', action: 'keys create', before: null, changed: { scopes: ['orders:read'], expires_at: null } },
      {
        actor_type: 'admin',
        action: 'revokeApiKey',
        before: { state: 'active' },
        changed: { state: 'revoked', revoked_reason: 'revoked' },
      },
    ],
  )
})

test('SQL can revoke a key, within a second, and cannot delete one', async () => {
  const { id, key } = await makeKey(store, ['orders:read'])
  assert.equal(await read(other.call, key), 200)
  await store.pool.query(`update api_keys set revoked_at = now(), revoked_reason = 'revoked' where id = $1`, [id])
  for (const { call } of [store, other]) await promptly(store.pool, async () => (await read(call, key)) === 401, A_SECOND)
  await assert.rejects(store.pool.query('delete from api_keys where id = $1', [id]), /revoked, not deleted/)
})

/** A key that the operator has made. */
async function makeOwnKey(): Promise<{ id: string; key: string }> {
  const body = { name: 'A scanner', scopes: ['orders:read'] }
  const json = await admin.ok('POST', '/admin/api-keys', { body })
  return json
}

test('after a rotation both secrets are valid until the overlap ends; a second rotation ends the oldest secret at once', async () => {
  const { id, key: first } = await makeOwnKey()
  const rotate = (overlap_seconds: number) => admin.ok('POST', `/admin/api-keys/${id}/rotate`, { body: { overlap_seconds } })
  const rotated = await rotate(3_600)
  const second = rotated.key
  assert.equal(rotated.id, id)
  assert.ok(Math.abs(Date.parse(rotated.previous_secret_expires_at) - Date.now() - 3_600_000) < 60_000)
  for (const key of [first, second]) {
    assert.equal(await read(store.call, key), 200)
    await promptly(store.pool, async () => (await read(other.call, key)) === 200, A_SECOND)
  }
  const { key: third } = await rotate(3_600)
  assert.deepEqual(await Promise.all([first, second, third].map((key) => read(store.call, key))), [401, 200, 200])
  await promptly(store.pool, async () => (await read(other.call, first)) === 401, A_SECOND)
  const { key: fourth, previous_secret_expires_at: none } = await rotate(0)
  assert.equal(none, null)
  assert.deepEqual(await Promise.all([third, fourth].map((key) => read(store.call, key))), [401, 200])
  const [, , , last] = await activitiesOf(id)
  assert.deepEqual(last, {
    ...{ actor_type: 'admin', actor_id: admin.id, action: 'rotateApiKey', subject_type: 'api_key', before: null },
    after: { previous_secret_expires_at: null },
  })
})

test('an operator cannot rotate the key of another operator or of a command, because the secret would outlive the account', async () => {
  const eve = await addBuyer(store, 'admin')
  for (const { id, key } of [await makeOwnKey(), await makeKey(store, ['orders:read'])]) {
    const refused = await eve.call('POST', `/admin/api-keys/${id}/rotate`, { body: {} })
    assertProblem(refused, 403, 'forbidden')
    assert.equal(await read(store.call, key), 200)
  }
})

test('two rotations at once leave two valid secrets: the last two', async () => {
  const { id, key } = await makeOwnKey()
  const answers = await Promise.all(
    [store, other].map(({ call }) => call('POST', `/admin/api-keys/${id}/rotate`, { token: admin.token, body: {} })),
  )
  const [a, b] = answers.map(({ json }) => json.key)
  assert.notEqual(a, b)
  await promptly(store.pool, async () => (await read(store.call, key)) === 401, A_SECOND)
  for (const fresh of [a, b])
    for (const { call } of [store, other]) await promptly(store.pool, async () => (await read(call, fresh)) === 200, A_SECOND)
})

test('refuses a key within a second after its operator is deleted or is no longer an operator', async () => {
  const [deleted, demoted, kept] = (await addBuyers(store, 3, 'admin')) as [Buyer, Buyer, Buyer]
  const keyOf = async ({ token }: Buyer) => (await create({ name: 'A', scopes: ['orders:read'] }, { token })).json
  const [ofDeleted, ofDemoted, ofKept] = [await keyOf(deleted), await keyOf(demoted), await keyOf(kept)]
  for (const { key } of [ofDeleted, ofDemoted, ofKept]) for (const { call } of [store, other]) assert.equal(await read(call, key), 200)
  await deleted.ok('DELETE', '/me')
  await store.pool.query(`update users set role = 'customer' where id = $1`, [demoted.id])
  for (const { key } of [ofDeleted, ofDemoted])
    for (const { call } of [store, other]) await promptly(store.pool, async () => (await read(call, key)) === 401, A_SECOND)
  for (const { call } of [store, other]) assert.equal(await read(call, ofKept.key), 200)
  await store.pool.query(`update users set role = 'admin' where id = $1`, [demoted.id])
  await promptly(store.pool, async () => (await read(store.call, ofKept.key)) === 200, A_SECOND)
  assert.equal(await read(store.call, ofDemoted.key), 401, 'promoted again, the key stays revoked')
  for (const [{ id }, reason] of [
    [ofDeleted, 'maker_deleted'],
    [ofDemoted, 'maker_demoted'],
  ] as const) {
    const { rows } = await store.pool.query('select revoked_reason from api_keys where id = $1', [id])
    assert.equal(rows[0].revoked_reason, reason)
    const [, revocation] = await activitiesOf(id)
    assert.deepEqual(
      [revocation.actor_type, revocation.action, revocation.after],
      ['system', 'revokeApiKeysOfAccount', { revoked_reason: reason }],
    )
  }
})

test('a key can never do more than its maker, neither when it is made nor later', async () => {
  const operator = await addBuyer(store, 'admin')
  const { json } = await create({ name: 'A', scopes: ['orders:read', 'lake:query'] }, { token: operator.token })
  assert.equal(await read(store.call, json.key), 200)
  const becomes = (role: string) => store.pool.query('update users set role = $2 where id = $1', [operator.id, role])
  await becomes('analyst')
  for (const { call } of [store, other]) await promptly(store.pool, async () => (await read(call, json.key)) === 403, A_SECOND)
  const query = await store.call('POST', '/admin/lake/queries', { token: json.key, body: {} })
  assertProblem(query, 422, 'invalid_body', 'what the role may do as well, the key still may')
  await becomes('support')
  await promptly(store.pool, async () => (await read(store.call, json.key)) === 200, A_SECOND)

  const auditContext = { actor: { type: 'admin' as const, id: operator.id }, action: 'createApiKey', requestId: null }
  const lacking = createApiKey(
    store.pool,
    { name: 'A', scopes: ['orders:read', 'lake:query'], expiresAt: null },
    { auditContext, now: new Date() },
  )
  await assert.rejects(lacking, { code: 'forbidden', details: { members: { required_scope: 'lake:query' } } })
  const nobody = { ...auditContext, actor: { type: 'admin' as const, id: randomUUID() } }
  const orphan = createApiKey(
    store.pool,
    { name: 'A', scopes: ['orders:read'], expiresAt: null },
    { auditContext: nobody, now: new Date() },
  )
  await assert.rejects(orphan, { code: 'invalid_token' })
})

test('a key made while its maker is deleted or demoted does not outlive the change', async () => {
  for (const statement of ['delete from users where id = $1', `update users set role = 'customer' where id = $1`]) {
    const operator = await addBuyer(store, 'admin')
    const [made] = await Promise.all([
      create({ name: 'A', scopes: ['orders:read'] }, { token: operator.token }),
      store.pool.query(statement, [operator.id]),
    ])
    if (made.status === 201) await promptly(store.pool, async () => (await read(store.call, made.json.key)) === 401, A_SECOND)
    else assert.ok([401, 403].includes(made.status), made.text)
    const { rows } = await store.pool.query('select from api_keys where created_by = $1 and revoked_at is null', [operator.id])
    assert.equal(rows.length, 0)
  }
})

test('malformed keys, wrong checksums, wrong secrets, unknown ids and two headers get the same 401, without a query for each', async () => {
  const { id, key } = await makeKey(store, ['orders:read'])
  const wrong = [
    'storefront_key_',
    key.slice(0, -1),
    `${key}0`,
    `${key.slice(0, -6)}AAAAAA`,
    key.toUpperCase(),
    key.replace('storefront', 'Storefront'),
    formatKey({ id, secret: newSecret() }),
    formatKey({ id: randomUUID(), secret: parseKey(key)?.secret ?? '' }),
    formatKey({ id: randomUUID(), secret: newSecret() }),
  ]
  const details = new Set<string>()
  for (const token of wrong) {
    const answer = await store.call('GET', '/admin/orders', { token })
    details.add(assertProblem(answer, 401, 'invalid_token', token).detail)
    assert.match(answer.headers['www-authenticate'] ?? '', /error="invalid_token"/)
  }
  assert.equal(details.size, 1, 'nothing shows which part was wrong')
  assert.equal(await read(store.call, key), 200)
  const basic = await store.call('GET', '/admin/orders', {
    headers: { authorization: `Basic ${Buffer.from(`${key}:`).toString('base64')}` },
  })
  assertProblem(basic, 401, 'invalid_token')
  for (const headers of [{ 'x-api-key': key }, { cookie: `key=${key}` }] as Record<string, string>[]) {
    assertProblem(await store.call('GET', '/admin/orders', { headers: headers }), 401, 'unauthenticated')
  }
})

test('refuses a key in the address, even beside a correct key in the header, and logs neither', async (t) => {
  const { logger, lines } = collectLog()
  const logged = await startStore(t, { logger })
  const { key } = await makeKey(logged, ['orders:read'])
  const secret = parseKey(key)?.secret ?? ''
  for (const path of [
    `/admin/orders?access_token=${key}`,
    `/admin/orders?api_key=${key}`,
    `/admin/orders?q=${key.replaceAll('_', '%5F')}`,
    `/admin/orders/${key}`,
  ])
    for (const token of [{}, { token: key }]) {
      const problem = assertProblem(await logged.call('GET', path, token), 401, 'invalid_token', path)
      assert.ok(!JSON.stringify(problem).includes(secret))
    }
  assert.equal(await read(logged.call, key), 200)
  assertProblem(await logged.call('GET', '/admin/orders', { token: `${key.slice(0, -1)}!` }), 401, 'invalid_token')
  await logged.call('GET', '/admin/orders', { token: formatKey({ id: randomUUID(), secret }) })
  assert.ok(lines.some((line) => line.includes('api_key_refused')))
  for (const line of lines) assert.ok(!line.includes(secret), line)
})

test("an expired key is refused by the process's clock and listed as expired", async (t) => {
  const clock = { now: new Date() }
  const timed = await startStore(t, { now: () => clock.now })
  const operator = await addBuyer(timed, 'admin')
  const expiresAt = new Date(clock.now.getTime() + 600_000)
  const { id, key } = await makeKey(timed, ['orders:read'], { expiresAt, now: clock.now })
  clock.now = new Date(expiresAt.getTime() - 1)
  assert.equal(await read(timed.call, key), 200)
  clock.now = expiresAt
  assertProblem(await timed.call('GET', '/admin/orders', { token: key }), 401, 'invalid_token')
  const json = await operator.ok('GET', '/admin/api-keys')
  assert.deepEqual([json.data[0].id, json.data[0].state, json.data[0].expires_at], [id, 'expired', expiresAt.toISOString()])
  assertProblem(await operator.call('POST', `/admin/api-keys/${id}/rotate`, { body: {} }), 409, 'api_key_ended')
})

test('a store has at most 500 active keys, even when many are made at once', async (t) => {
  const own = await startStore(t)
  await own.pool.query(
    `insert into api_keys (id, name, scopes, secret_hash)
    select gen_random_uuid(), 'A', '{orders:read}', sha256(n::text::bytea) from generate_series(1, $1::int) as n`,
    [MAX_ACTIVE_KEYS - 1],
  )
  const attempts = await Promise.allSettled(Array.from({ length: 4 }, () => makeKey(own, ['orders:read'])))
  assert.deepEqual(attempts.map(({ status }) => status).sort(), ['fulfilled', 'rejected', 'rejected', 'rejected'])
  const operator = await addBuyer(own, 'admin')
  const refused = await operator.call('POST', '/admin/api-keys', { body: { name: 'A', scopes: ['orders:read'] } })
  assertProblem(refused, 409, 'too_many_api_keys')
})

test("keys stay valid when the store's secret changes", async (t) => {
  const own = await startStore(t)
  const { key } = await makeKey(own, ['orders:read'])
  assert.equal(await read(own.call, key), 200)
  const next = 'another secret for tests, long enough to be one'
  await changeSecretTo(next, own.config.secret ?? '', { pool: own.pool, url: own.addresses.api })
  assert.equal(await read(own.call, key), 200)
  const restarted = await startSecondProcess(t, own, { secret: next })
  assert.equal(await read(restarted.call, key), 200)
})
