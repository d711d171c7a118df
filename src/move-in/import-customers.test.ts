import assert from 'node:assert/strict'
import { test } from 'node:test'
import { aCustomer, anOrder, moveCustomersIn, moveOrdersIn } from '../../test/move-in-harness.ts'
import { assertProblem } from '../../test/problem.ts'
import { startStore } from '../../test/store.ts'
import { hashToken } from '../auth/tokens/opaque-token.ts'

const BCRYPT = '$2y$10$abcdefghijklmnopqrstuuMjqeRRMw4ZKN8D5l6vArgO1H7dflcbO'

test('customers keep address, name, time and password, and a second run changes nothing', async (t) => {
  const store = await startStore(t)
  const file = [
    aCustomer('ada', { name: ' Ada King ', created_at: '2019-05-01T12:00:00Z', password: BCRYPT, address_proven: true }),
    aCustomer('ben', { email: 'Ben@Exämple.com', address_proven: false }),
  ]
  const first = await moveCustomersIn(store, file)
  assert.deepEqual([first.problems, first.outcomes.created, first.isEqual], [[], 2, true])
  const { rows } = await store.pool.query(
    'select email, name, role, created_at, email_verified_at is not null as is_proven from users order by email',
  )
  assert.deepEqual(
    rows.map(({ created_at, ...row }) => row),
    [
      { email: 'ada@example.com', name: 'Ada King', role: 'customer', is_proven: true },
      { email: 'ben@xn--exmple-cua.com', name: null, role: 'customer', is_proven: false },
    ],
  )
  assert.equal(rows[0]?.created_at.toISOString(), '2019-05-01T12:00:00.000Z')
  const login = (email: string, password: string) => store.call('POST', '/auth/login', { body: { email, password } })
  assert.equal((await login('ada@example.com', 'an old passphrase')).status, 200)
  assertProblem(await login('ben@exämple.com', ''), 401, 'invalid_credentials')
  const again = await moveCustomersIn(store, file)
  assert.deepEqual([again.outcomes.unchanged, again.outcomes.created, again.problems, again.isEqual], [2, 0, [], true])
  const changed = await moveCustomersIn(store, [{ ...file[0], name: 'Ada Lovelace' }, file[1]])
  assert.deepEqual(changed.problems, ['1: it differs from what was imported before; the store keeps what it has'])
  const { rows: activities } = await store.pool.query(
    `select actor_type, subject_type, after from activities where action = 'import customers'`,
  )
  assert.deepEqual(activities, [{ actor_type: 'system', subject_type: 'account', after: { source: 'import', created: 2, linked: 0 } }])
})

test('refuses invalid customers by line, and imports the others', async (t) => {
  const store = await startStore(t)
  const lines: [unknown, RegExp | null][] = [
    [aCustomer('ada'), null],
    [aCustomer('two', { email: 'ADA@Example.COM' }), /email was already on line 1/],
    [aCustomer('ada', { email: 'other@example.com' }), /external_id was already on line 1/],
    [aCustomer('md5', { password: '5f4dcc3b5aa765d61d8327deb882cf99' }), /password: its hash is of an unknown kind/],
    [aCustomer('costly', { password: BCRYPT.replace('$10$', '$31$') }), /password: its hash costs too much/],
    [aCustomer('future', { created_at: '2999-01-01T00:00:00Z' }), /created_at is in the future/],
    [aCustomer('early', { created_at: '1969-12-31T00:00:00Z' }), /created_at is before 1970/],
    [aCustomer('feb', { created_at: '2023-02-30T00:00:00Z' }), /created_at must be a time/],
    [aCustomer('spam', { name: 'Win at https://spam.example' }), /name contains a link/],
    [aCustomer('plain', { email: 'no address' }), /email is no address/],
    [aCustomer('extra', { phone: '1' }), /the line has the unknown property "phone"/],
    [{ email: 'x@example.com' }, /the line must have required properties external_id/],
    ['{"external_id": "half"', /not valid JSON/],
    [Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d]), /not valid UTF-8/],
    [Buffer.alloc(1_048_577, 0x20).fill('x'), /longer than 1 MiB/],
    ['['.repeat(40) + ']'.repeat(40), /must be object/],
    ['null', /must be object/],
    [aCustomer('zoe'), null],
  ]
  const result = await moveCustomersIn(
    store,
    lines.map(([line]) => line),
  )
  const expected = lines.flatMap(([, reason], index) => (reason === null ? [] : [[index + 1, reason] as const]))
  assert.equal(result.problems.length, expected.length, result.problems.join('\n'))
  for (const [line, reason] of expected) {
    const problem = result.problems.find((text) => text.startsWith(`${line}: `)) ?? ''
    assert.match(problem, reason)
    assert.ok(!problem.includes('@'), 'no personal data in a reason')
  }
  assert.deepEqual([result.outcomes.created, result.outcomes.refused, result.isEqual], [2, expected.length, false])
  const { rows } = await store.pool.query('select count(*) as accounts from users')
  assert.deepEqual(rows, [{ accounts: 2 }])
  const without = await moveCustomersIn(store, [lines[3]?.[0], lines[4]?.[0]], { dropsUnusableHashes: true })
  assert.deepEqual([without.outcomes.created, without.isEqual], [2, true])
  const { rows: hashes } = await store.pool.query(
    `select password_hash like '$argon2id$%' as is_argon2id from users where email ~ '^(md5|costly)@'`,
  )
  assert.deepEqual(hashes, [{ is_argon2id: true }, { is_argon2id: true }])
})

test('an account with an unproven address is not linked; one with a proven address is, and keeps its password', async (t) => {
  const store = await startStore(t)
  const [proven, unproven] = [await store.register(), await store.register()]
  await store.pool.query('update users set email_verified_at = now() where id = $1', [proven.id])
  const file = [aCustomer('a', { email: proven.email, password: BCRYPT }), aCustomer('b', { email: unproven.email, password: BCRYPT })]
  const result = await moveCustomersIn(store, file)
  assert.deepEqual([result.outcomes.linked, result.outcomes.refused, result.isEqual], [1, 1, false])
  assert.match(result.problems.join(), /^2: there is an account with this address, and its holder has not proven the address$/)
  await store.ok('POST', '/auth/login', { body: { email: proven.email, password: proven.password } })
})

test('refuses the same customer under another source, with the reason', async (t) => {
  const store = await startStore(t)
  await moveCustomersIn(store, [aCustomer('ada')], { source: 'shopify' })
  const { problems } = await moveCustomersIn(store, [aCustomer('ada')])
  assert.match(problems.join(), /^1: the account with this address was imported with another --source or external_id/)
})

test('a customer who has deleted the account is not recreated, and none of the line is stored', async (t) => {
  const store = await startStore(t)
  const file = [aCustomer('ada', { password: BCRYPT }), aCustomer('ben')]
  await moveCustomersIn(store, file)
  const json = await store.ok('POST', '/auth/login', { body: { email: 'ada@example.com', password: 'an old passphrase' } })
  await store.ok('DELETE', '/me', { token: json.access_token })
  const { rows } = await store.pool.query(
    'select user_id is null as is_erased, digest is null as has_no_digest from imported_customers order by 1',
  )
  assert.deepEqual(rows, [
    { is_erased: false, has_no_digest: false },
    { is_erased: true, has_no_digest: true },
  ])
  const again = await moveCustomersIn(store, file)
  assert.deepEqual([again.outcomes.erased, again.outcomes.unchanged, again.outcomes.created], [1, 1, 0])
})

test('a guest has no password, may share an address, and proving the address takes over the orders', async (t) => {
  const store = await startStore(t)
  const guests = ['g1', 'g2'].map((id) => aCustomer(id, { email: 'ada@example.com', guest: true }))
  const result = await moveCustomersIn(store, [
    ...guests,
    aCustomer('g3', { guest: true, password: BCRYPT }),
    aCustomer('ada', { password: BCRYPT }),
  ])
  assert.deepEqual([result.outcomes.created, result.problems], [3, ['3: a guest has no password']])
  const { rows } = await store.pool.query(
    'select role, password_hash is null as has_none, count(*) as accounts from users group by 1, 2 order by 1',
  )
  assert.deepEqual(rows, [
    { role: 'customer', has_none: false, accounts: 1 },
    { role: 'guest', has_none: true, accounts: 2 },
  ])
  const moved = await moveOrdersIn(
    store,
    [1, 2].map((number) => anOrder(number, { customer: { external_id: `g${number}` } })),
  )
  assert.deepEqual(moved.problems, [])
  await store.call('POST', '/auth/password-reset', { body: { email: 'ada@example.com' } })
  const { rows: accounts } = await store.pool.query<{ id: string }>(`select id from users where role = 'customer'`)
  const token = 'a'.repeat(43)
  await store.pool.query(`update password_resets set token_hash = $1 where user_id = $2`, [hashToken(token), accounts[0]?.id])
  await store.ok('POST', '/auth/password-reset/confirm', { body: { token, password: 'quite another passphrase' } })
  const login = await store.call('POST', '/auth/login', { body: { email: 'ada@example.com', password: 'quite another passphrase' } })
  const orders = await store.call('GET', '/orders', { token: login.json.access_token })
  assert.deepEqual(
    orders.json.data.map(({ number }: { number: string }) => number),
    ['2', '1'],
  )
})

test('two runs at once import each customer once', async (t) => {
  const store = await startStore(t)
  const file = Array.from({ length: 700 }, (_, index) => aCustomer(`c${index}`))
  const results = await Promise.all([moveCustomersIn(store, file), moveCustomersIn(store, file)])
  const { rows } = await store.pool.query(
    'select (select count(*) from users) as users, (select count(*) from imported_customers) as imported',
  )
  assert.deepEqual(rows, [{ users: 700, imported: 700 }])
  assert.equal(
    results.reduce((sum, { outcomes }) => sum + outcomes.created, 0),
    700,
  )
})

test('a dry run stores nothing, and refuses the same lines', async (t) => {
  const store = await startStore(t)
  const result = await moveCustomersIn(store, [aCustomer('ada'), aCustomer('ben', { email: 'x' })], { isDryRun: true })
  assert.deepEqual([result.outcomes.created, result.outcomes.refused], [1, 1])
  const { rows } = await store.pool.query('select count(*) as users from users')
  assert.deepEqual(rows, [{ users: 0 }])
})
