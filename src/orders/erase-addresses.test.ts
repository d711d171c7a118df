import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { startAuditedStore } from '../../test/pipeline-audit.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { type Account, startStore, type TestStore } from '../../test/store.ts'
import { eraseCopies } from '../app/housekeeping.ts'
import { eraseDueAddresses } from './erase-addresses.ts'
import { GIVEN_EXAMPLES, ORDER_COLUMNS, type OrderColumn } from './order-columns.ts'

const RETAIN_DAYS = 100
const DAY_MS = 86_400_000
const ERASURE = { eraseCopies, retainDays: RETAIN_DAYS }
const ADDRESS = { name: 'Ada Lovelace', line1: '12 St James Square', city: 'London', postal_code: 'SW1Y', country: 'GB', phone: '+44 20 1' }

const startShop = (t: TestContext) => startAuditedStore(t, { retainOrderAddressDays: RETAIN_DAYS })

async function order(store: TestStore, { token }: Account, isCancelled = false): Promise<string> {
  const { id: product_id } = await store.addProduct({ stock: null })
  const given = { ...GIVEN_EXAMPLES, shipping_address: ADDRESS, note: 'ring twice', client_reference: product_id }
  const body = { items: [{ product_id, quantity: 1, attributes: { engraving: 'for Byron' } }], ...given }
  const { status, json, text } = await store.call('POST', '/orders', { token, body, headers: { 'idempotency-key': `"${product_id}"` } })
  assert.equal(status, 201, text)
  if (isCancelled) assert.equal((await store.call('POST', `/orders/${json.id}/cancel`, { token })).status, 200)
  return json.id
}

const backdate = (store: TestStore, ids: string[], days = RETAIN_DAYS * 2) =>
  store.pool.query(`update orders set updated_at = updated_at - make_interval(days => $2) where id = any($1)`, [ids, days])

/** Copies the topic's events to the table that keeps them for webhooks. */
const keepForWebhooks = (store: TestStore) =>
  store.pool.query(`insert into webhook_events (event_id, type, body) select id, event ->> 'type', event from topic_messages`)

/** The orders that still have an address, phone, engraving or note, in their rows, in the topic and for webhooks. */
async function holding(store: TestStore, ids: string[]): Promise<{ rows: string[]; events: string[]; webhooks: string[] }> {
  const { rows } = await store.pool.query(
    'select id::text from orders where id = any($1) and concat(shipping_address, note, item_attributes) <> $2',
    [ids, ''],
  )
  const events = await store.pool.query(
    `select distinct event ->> 'subject' as subject from topic_messages where event ->> 'subject' = any($1) and event::text ~ 'Lovelace|James|44 20 1|ring twice|Byron'`,
    [ids],
  )
  const webhooks = await store.pool.query(
    `select distinct split_part(event_id, '.', 1) as subject from webhook_events where body ~ 'Lovelace|James|44 20 1|ring twice|Byron'`,
  )
  const inOrder = (found: string[]) => ids.filter((id) => found.includes(id))
  const subjectsOf = (found: { rows: { subject: string }[] }) => inOrder(found.rows.map(({ subject }) => subject))
  return { rows: inOrder(rows.map(({ id }) => id)), events: subjectsOf(events), webhooks: subjectsOf(webhooks) }
}

test('deleting an account erases personal data of its orders after the retention period, in the rows, in the topic and for webhooks, and later of its other orders', async (t) => {
  const store = await startShop(t)
  await store.startPipeline()
  const [ada, bob] = [await store.register(), await store.register()]
  const [old, recent, open, ofBob] = [
    await order(store, ada, true),
    await order(store, ada, true),
    await order(store, ada),
    await order(store, bob, true),
  ]
  const all = [old, recent, open, ofBob]
  await store.untilDelivered()
  await backdate(store, [old, open, ofBob])
  await keepForWebhooks(store)
  const holdingEverywhere = (ids: string[]) => ({ rows: ids, events: ids, webhooks: ids })
  assert.deepEqual(await holding(store, all), holdingEverywhere(all), 'while the account is there, nothing is erased')
  const countMessages = async () => (await store.pool.query('select from topic_messages')).rowCount
  const messages = await countMessages()

  assert.equal((await store.call('DELETE', '/me', { token: ada.token })).status, 204)
  const kept = [recent, open, ofBob]
  assert.deepEqual(await holding(store, all), holdingEverywhere(kept), 'what is past its time, and is not still to be shipped')
  assert.equal(
    (await store.pool.query('select from idempotency_keys where user_id = $1', [ada.id])).rowCount,
    0,
    'answers have addresses too',
  )
  const row = await store.pool.query(
    'select version, status, total_amount, client_reference is not null as referenced from orders where id = $1',
    [old],
  )
  assert.deepEqual(row.rows, [{ version: 2, status: 'cancelled', total_amount: 1_250, referenced: true }], 'the rest stays')

  const later = new Date(Date.now() + (RETAIN_DAYS + 1) * DAY_MS)
  const erased = await Promise.all([eraseDueAddresses(store.pool, ERASURE, later), eraseDueAddresses(store.pool, ERASURE, later)])
  assert.equal(erased[0] + erased[1], 1, 'two processes at once')
  assert.deepEqual(await holding(store, all), holdingEverywhere([open, ofBob]))
  const findings = async () => (await store.verify()).findings.map(({ place, kind, examples }) => [place, kind, examples.toSorted()])
  const moved = [`${old}.2`, `${open}.1`, `${ofBob}.2`].toSorted()
  assert.deepEqual(await findings(), [['topic', 'altered', moved]], 'only the orders whose time this test has moved')
  assert.equal(await countMessages(), messages, 'nothing was published')

  // Events that the topic has lost are published again without the erased values and otherwise unchanged.
  await backdate(store, [old], -RETAIN_DAYS * 2)
  await store.pool.query(`delete from topic_messages where event ->> 'subject' = $1`, [old])
  assert.equal((await store.replay()).published, 2)
  assert.deepEqual((await holding(store, [old])).events, [])
  assert.deepEqual(await findings(), [['topic', 'altered', moved.filter((id) => !id.startsWith(old))]])
})

test('an order that was changed after a promotion of the database, with a version of millions, is read and erased', async (t) => {
  const store = await startStore(t, {
    retainOrderAddressDays: RETAIN_DAYS,
    // A row for each number up to the version takes far more.
    fill: async ({ name, pool }) => void (await pool.query(`alter database ${name} set temp_file_limit = '10MB'`)),
  })
  const [ada, operator] = [await store.register(), await registerOperator(store)]
  const id = await order(store, ada)
  await store.pool.query(
    `set session_replication_role = replica;
    update orders
    set version = 28800001, status = 'cancelled',
      status_history = status_history || jsonb_build_array(status_history -> 0 || '{"status": "cancelled", "version": 28800001}');
    set session_replication_role = origin`,
  )
  for (const [path, { token }] of [
    [`/orders/${id}`, ada],
    [`/admin/orders/${id}`, operator],
  ] as const) {
    const { status, json, text } = await store.call('GET', path, { token })
    assert.deepEqual([status, json.version], [200, 28_800_001], text)
  }
  await backdate(store, [id])
  assert.equal((await store.call('DELETE', '/me', { token: ada.token })).status, 204)
  assert.deepEqual((await holding(store, [id])).rows, [])
})

test('an account whose orders cannot be erased is named, and those of the others are erased', async (t) => {
  const store = await startStore(t, { retainOrderAddressDays: RETAIN_DAYS })
  const accounts = [await store.register(), await store.register(), await store.register()]
  const orders: string[] = []
  for (const account of accounts) orders.push(await order(store, account, true))
  for (const { token } of accounts) assert.equal((await store.call('DELETE', '/me', { token })).status, 204)
  const [bad = ''] = accounts.map(({ id }) => id).toSorted()
  const index = accounts.findIndex(({ id }) => id === bad)
  const erasure = {
    ...ERASURE,
    async eraseCopies(...[tx, ids]: Parameters<typeof eraseCopies>) {
      if (ids.includes(orders[index] ?? '')) throw new Error('a damaged event')
      await eraseCopies(tx, ids)
    },
  }
  const failed: string[] = []
  const later = new Date(Date.now() + (RETAIN_DAYS + 1) * DAY_MS)
  assert.equal(await eraseDueAddresses(store.pool, erasure, later, (userId) => failed.push(userId)), 2)
  assert.deepEqual(failed, [bad])
  assert.deepEqual((await holding(store, orders)).rows, [orders[index]])
})

test('the column table has each column of an order, and no table has personal words of an order after its erasure', async (t) => {
  const store = await startShop(t)
  await store.startPipeline()
  const columns = await store.pool.query<{ name: string }>(
    `select attname as name from pg_attribute where attrelid = 'orders'::regclass and attnum > 0 and not attisdropped`,
  )
  const inTable = [...Object.keys(ORDER_COLUMNS), 'product_ids'].sort()
  assert.deepEqual(columns.rows.map(({ name }) => name).sort(), inTable, 'ORDER_COLUMNS in src/orders/order-columns.ts has every column')

  const ada = await store.register()
  const id = await order(store, ada)
  const { token } = await registerOperator(store)
  const amendment = {
    ...{ shipping_address: { ...ADDRESS, name: 'Grace Hopper' }, email: 'hopper@navy.example' },
    ...{ billing_address: { ...ADDRESS, company: 'Navy' }, vat_number: 'DE987654321' },
  }
  assert.equal((await store.call('POST', `/admin/orders/${id}/amendments`, { token, body: amendment })).status, 200)
  assert.equal((await store.call('POST', `/orders/${id}/cancel`, { token: ada.token })).status, 200)
  await store.untilDelivered()
  await backdate(store, [id])
  await keepForWebhooks(store)
  const isPersonal = ([, column]: [string, OrderColumn]) => column.isPersonal
  const erased = Object.entries(ORDER_COLUMNS)
    .filter(isPersonal)
    .map(([name]) => name)
  const { rows } = await store.pool.query<{ column: string; words: string[] }>(
    `select key as column, array(select matched[1] from regexp_matches(value, '[[:alnum:]]{4,}', 'g') as matched) as words
    from orders, jsonb_each_text(to_jsonb(orders)) where id = $1 and key = any($2) and value is not null`,
    [id, erased],
  )
  assert.deepEqual(rows.map(({ column }) => column).sort(), erased.sort(), 'the order of this test has a text in each erased column')
  const words = rows.flatMap(({ words }) => words).filter((word) => !KEYS.includes(word))
  assert.deepEqual(await tablesWith(store, ['Lovelace']), ['idempotency_keys', 'orders', 'topic_messages', 'webhook_events'])

  assert.equal((await store.call('DELETE', '/me', { token: ada.token })).status, 204)
  assert.deepEqual(await tablesWith(store, words), [])
})

const KEYS = [
  'name',
  'company',
  'number',
  'billing',
  'city',
  'line',
  'region',
  'phone',
  'country',
  'shipping',
  'address',
  'email',
  'example',
  'null',
]

/** The tables that contain one of these words. */
async function tablesWith({ pool }: TestStore, words: string[]): Promise<string[]> {
  const { rows } = await pool.query<{ name: string }>(
    `select format('%I.%I', nspname, relname)::regclass::text as name from pg_class join pg_namespace on pg_namespace.oid = relnamespace
    where relkind = 'r' and nspname = current_schema order by name`,
  )
  const having = await Promise.all(
    rows.map(
      async ({ name }) =>
        (await pool.query(`select from ${name} as r where r::text ~ $1 limit 1`, [String.raw`\m(${words.join('|')})\M`])).rowCount,
    ),
  )
  return rows.map(({ name }) => name).filter((_, index) => having[index] === 1)
}

test('notices an account that an operator deletes, and its last orders; an account without personal data is no longer watched', async (t) => {
  const store = await startShop(t)
  const [ada, bob] = [await store.register(), await store.register()]
  const [first, ofBob] = [await order(store, ada, true), await order(store, bob, true)]
  await backdate(store, [first, ofBob])
  await store.pool.query('delete from users where id = $1', [ada.id])
  assert.equal(await eraseDueAddresses(store.pool, ERASURE, new Date()), 1)
  assert.deepEqual((await holding(store, [first, ofBob])).rows, [ofBob])
  const watched = async () => (await store.pool.query('select user_id from deleted_accounts')).rows.map(({ user_id }) => user_id)
  assert.deepEqual(await watched(), [ada.id])

  // This order was being placed during the deletion.
  await store.pool.query('update orders set user_id = $2 where id = $1', [ofBob, ada.id])
  assert.equal(await eraseDueAddresses(store.pool, ERASURE, new Date()), 1)
  assert.deepEqual((await holding(store, [first, ofBob])).rows, [])
  await eraseDueAddresses(store.pool, ERASURE, new Date(Date.now() + 2 * DAY_MS))
  assert.deepEqual(await watched(), [])
})

test('erases the thousand orders of an account in batches', async (t) => {
  const store = await startShop(t)
  const ada = await store.register()
  const first = await order(store, ada, true)
  await backdate(store, [first])
  const { rows } = await store.pool.query(
    `insert into orders (id, user_id, status, items, product_ids, total_amount, currency, note, version, status_history, created_at, updated_at)
    select gen_random_uuid(), user_id, status, items, product_ids, total_amount, currency, note, version, status_history, created_at, updated_at
    from orders, generate_series(1, 999)
    where id = $1
    returning orders.id::text`,
    [first],
  )
  const ids = [first, ...rows.map(({ id }) => id)]
  assert.equal((await store.call('DELETE', '/me', { token: ada.token })).status, 204)
  assert.equal((await holding(store, ids)).rows.length, 800, 'the request does what is quick')
  assert.equal(await eraseDueAddresses(store.pool, ERASURE, new Date()), 800)
  assert.deepEqual((await holding(store, ids)).rows, [])
})
