import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { createGuest, placeOrder } from '../../test/guests.ts'
import { startStore } from '../../test/store.ts'
import { identifier, sql } from '../db/sql.ts'
import { exportAccount } from './export-account.ts'

const DOCUMENT = readFileSync(new URL('../../docs/inside/personal-data.md', import.meta.url), 'utf8')
/** Maps each table to the member of the export that contains it, or to null and the reason for leaving it out. */
const documented = new Map(
  [...DOCUMENT.matchAll(/^\| (`\w+`(?:, `\w+`)*) \| (?:`(\w+)`|not exported): ([^|]+) \|$/gm)].flatMap(([, tables = '', member]) =>
    [...tables.matchAll(/\w+/g)].map(([table]): [string, string | null] => [table, member ?? null]),
  ),
)
const MARK = 'Zaphodine'

test('the list of personal data has every table of the store, and the export has all personal data', async (t) => {
  const store = await startStore(t, { roles: ['api', 'stream', 'email', 'webhook'] })
  const { pool } = store
  const lamp = await store.addProduct()
  const email = `${MARK.toLowerCase()}@example.com`
  const [ada, bob, guest] = [
    await store.register({ email, name: MARK }),
    await store.register({ name: 'Trillian' }),
    await createGuest(store, email),
  ]
  for (const { token } of [ada, bob, guest])
    await placeOrder(store, token, lamp, { note: token === bob.token ? 'Trillian' : MARK }, { 'idempotency-key': '"k"' })
  await pool.query('update users set owner_id = $1 where id = $2', [ada.id, guest.id])
  const address = { name: MARK, line1: 'Ring 1', city: 'Wien', postal_code: '1010', country: 'AT' }
  await ada.call('POST', '/me/addresses', { body: { address } })
  await pool.query('update sessions set user_agent = $1 where user_id = any($2)', [MARK, [ada.id, guest.id]])
  await pool.query(
    `insert into passkeys (id, user_id, credential_id, public_key, sign_count, transports, name)
    values (gen_random_uuid(), $1, 'c', 'key', 0, '{}', $2)`,
    [ada.id, MARK],
  )
  await store.call('POST', '/auth/password-reset', { body: { email } })
  await ada.call('POST', '/me/email', { body: { email: `${MARK}@new.example` } })
  await pool.query(`insert into oidc_identities (issuer, subject, user_id) values ('https://id.example', 's', $1)`, [ada.id])
  await eventually(async () => (await pool.query(`select from email_deliveries where status = 'sent'`)).rowCount === 3, {
    what: 'the mails',
  })

  await pool.query('update orders set former_values = $1 where user_id = $2', [{ 1: { shipping_address: address } }, ada.id])
  const { rows: tables } = await pool.query<{ name: string }>(
    `select relname as name from pg_class where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p') order by 1`,
  )
  assert.deepEqual(
    [...documented.keys()].toSorted(),
    tables.map(({ name }) => name).toSorted(),
    'docs/inside/personal-data.md: tables with personal data',
  )

  const answer = await ada.call('GET', '/me/export')
  assert.equal(answer.status, 200)
  for (const [table, member] of documented) {
    // Finds every row that contains the person's name or ids, in any column.
    const marks = [MARK, ada.id, guest.id].map((text) => `%${text}%`)
    const { rowCount } = await pool.query(sql`select from ${identifier(table)} as stored where stored::text ilike any(${marks})`)
    if (member === null) continue
    assert.ok(Number(rowCount) > 0, `${table} has something of the person here`)
    assert.equal(answer.json[member].length, rowCount, `${table} as ${member}`)
  }
  assert.equal(answer.json.orders.length, 2)
  assert.deepEqual(
    answer.json.amendments.map(({ former_values }: { former_values: object }) => former_values),
    [{ 1: { shipping_address: address } }],
  )
  assert.ok(
    answer.json.orders.every(
      (order: { note: string; status_history: object[] }) => order.note === MARK && order.status_history.length === 1,
    ),
  )
  assert.doesNotMatch(answer.text, /Trillian|argon2|password_hash|token_hash/)
  assert.ok(!answer.text.includes(bob.id))
})

test('exports each of 10,000 orders once, in pieces that the reader asks for', async (t) => {
  const store = await startStore(t, { isRateLimited: true })
  const ada = await store.register()
  await placeOrder(store, ada.token, await store.addProduct())
  await store.pool.query(
    `insert into orders (id, user_id, status, items, total_amount, currency, status_history, created_at, updated_at)
    select gen_random_uuid(), user_id, status, items, total_amount, currency, status_history, now(), now()
    from orders cross join generate_series(1, 9999)`,
  )
  let longest = 0
  let text = ''
  const pieces = exportAccount(store.pool, ada.id, new Date(), ['pending'])
  for await (const piece of pieces) {
    longest = Math.max(longest, piece.length)
    text += piece
  }
  assert.ok(longest < 200_000, `${longest} characters in memory at once`)
  const numbers = JSON.parse(text).orders.map(({ number }: { number: string }) => number)
  assert.equal(new Set(numbers).size, 10_000)

  const statuses = []
  for (let i = 0; i < 6; i++) statuses.push((await ada.call('GET', '/me/export')).status)
  assert.deepEqual(statuses, [200, 200, 200, 200, 200, 429])
})
