import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { mendSearchTexts } from '../src/orders/mend-search-texts.ts'
import { makeKey } from './api-keys.ts'
import { addBuyer } from './buyers.ts'
import { assertProblem } from './problem.ts'
import { type Account, startStore } from './store.ts'

const store = await startStore({ after })
const admin = await addBuyer(store, 'admin')
const warehouse = await addBuyer(store, 'warehouse')
const operator = admin.token
const ADDRESS = { name: 'Zoë Brontë-O’Neill', line1: '12 St James Square', city: 'London', postal_code: 'SW1Y 4JH', country: 'GB' }

async function place({ token }: Account, given: object = {}, product?: string): Promise<{ id: string; number: string }> {
  const product_id = product ?? (await store.addProduct({ stock: null })).id
  const { status, json, text } = await store.call('POST', '/orders', { token, body: { items: [{ product_id, quantity: 1 }], ...given } })
  assert.equal(status, 201, text)
  return json
}

async function search(q: string, path = '/admin/orders', token = operator, more = ''): Promise<string[]> {
  const { status, json, text } = await store.call('GET', `${path}?q=${encodeURIComponent(q)}${more}`, { token })
  assert.equal(status, 200, text)
  return json.data.map((found: { id: string }) => found.id)
}

const ada = await store.register({ email: 'ada.quimby@example.com', name: 'Augusta Quimby' })
const other = await store.register()
const lamp = await store.addProduct({ stock: null, name: 'Xanadu chandelier', sku: 'XAN-77' })
const wanted = await place(ada, { shipping_address: { ...ADDRESS, phone: '+44 (0)20 7946-0958' }, client_reference: 'cart/18-43' }, lamp.id)
await place(other, { shipping_address: { ...ADDRESS, name: 'Someone Else', postal_code: 'N1 9GU', phone: '030 1234567' } })
const move = (to: string, given: object) =>
  store.call('POST', `/admin/orders/${wanted.id}/transitions`, { token: operator, body: { to, ...given } })
assert.equal((await move('confirmed', { reference: 'pi_3NqX' })).status, 200)

test('an operator finds an order by each thing that its customer may say', async () => {
  const said = {
    'its number': wanted.number,
    'its number with a sign': `#${wanted.number}`,
    'a part of the name': 'bront',
    'the name without accents, in another case and order': 'ONEILL zoe',
    'the postal code': 'SW1Y 4JH',
    'the postal code without a blank': 'sw1y4jh',
    'the reference of its client': 'cart/18-43',
    'the reference of the payment': 'PI_3nqx',
    'a part of the address of the account': 'quimby@exam',
    'a part of the name of the account': 'augus',
    'the SKU': 'xan-77',
    'the name of the product': 'xanadu chand',
    'a name with a typing error': 'Brontte',
    'the name of the account with a typing error': 'Augsta',
    'the phone with the code of the country': '+44 20 7946 0958',
    'the phone with zeros in front': '0044 (0) 20 / 7946 0958',
    'the phone as it is dialled in the country': '020 79460958',
  }
  for (const [what, q] of Object.entries(said)) assert.deepEqual(await search(q), [wanted.id], what)
  assert.deepEqual(
    await search('+49 30 1234567').then((found) => found.length),
    1,
    'a phone that was stored without the code of its country',
  )
  assert.deepEqual(await search('bronte', '/admin/orders', operator, '&status=pending'), [], 'filters combine')
  assert.deepEqual(await search('bronte', '/admin/orders', operator, `&user_id=${ada.id}`), [wanted.id])
  assert.deepEqual(await search(`#${wanted.number.slice(0, -1)}`), [], 'a number is whole')
})

test('an order is found by the tracking number from the move on that adds it', async () => {
  assert.deepEqual(await search('1Z 999 AA1 01'), [])
  assert.equal((await move('shipped', { tracking: { carrier: 'UPS', number: '1Z999AA101' } })).status, 200)
  assert.deepEqual(await search('1Z 999 AA1 01'), [wanted.id])
  assert.deepEqual(await search('1z999aa101'), [wanted.id])
})

test('customers are found by address, name and what their orders have', async () => {
  for (const q of ['quimby@', 'augusta q', 'sw1y 4jh', '020 7946 0958', `#${wanted.number}`, 'augusta quimpy']) {
    assert.deepEqual(await search(q, '/admin/customers'), [ada.id], q)
  }
})

test('one search finds orders, customers and products', async () => {
  const find = async (q: string, token = operator) => {
    const { status, json, text } = await store.call('GET', `/admin/search?q=${encodeURIComponent(q)}`, { token })
    assert.equal(status, 200, text)
    return Object.fromEntries(
      Object.entries(json as Record<string, { id: string }[]>).map(([kind, found]) => [kind, found.map(({ id }) => id)]),
    )
  }
  assert.deepEqual(await find('xanadu'), { orders: [wanted.id], customers: [], products: [lamp.id] })
  assert.deepEqual(await find('quimby'), { orders: [wanted.id], customers: [ada.id], products: [] })
  const { key: ordersOnly } = await makeKey(store, ['orders:read'])
  assert.deepEqual(await find('bronte', ordersOnly), { orders: [wanted.id], customers: [], products: [] })
  assert.deepEqual(await find('quimby', ordersOnly), { orders: [], customers: [], products: [] }, 'an address is no way to guess accounts')
})

test('the order with the number comes first, however many newer orders have its digits', async () => {
  const newer = []
  for (let n = 0; n < 6; n++) newer.push(await place(other, { client_reference: `again ${wanted.number} ${n}` }))
  const { json } = await store.call('GET', `/admin/search?q=${wanted.number}`, { token: operator })
  const expected = [wanted, ...newer.toReversed()].slice(0, 5)
  assert.deepEqual(
    json.orders.map(({ id }: { id: string }) => id),
    expected.map(({ id }) => id),
  )
})

test('an archived product finds its orders by its SKU', async () => {
  const old = await store.addProduct({ stock: null, name: 'Yesteryear gramophone', sku: 'YES-1' })
  const order = await place(other, {}, old.id)
  await store.pool.query('update products set archived_at = now() where id = $1', [old.id])
  assert.deepEqual(await search('YES-1'), [order.id])
  assert.deepEqual(await search('yesteryear'), [])
})

test('an address filters all customers with what was typed, and its host resembles no name', async () => {
  await store.pool.query(
    `insert into users (id, email, role, password_hash, name)
    select ('ffffffff-ffff-7fff-bfff-' || lpad(n::text, 12, '0'))::uuid, 'horde' || n || '@example.com', 'customer', 'none', 'Augusta ' || n
    from generate_series(1, 600) as n`,
  )
  assert.deepEqual(await search('augusta', '/admin/customers', operator, '&email=ada.'), [ada.id])
  assert.deepEqual(await search('augusta', '/admin/customers', operator, `&id=${ada.id}`), [ada.id])
  assert.deepEqual(await search('augustta', '/admin/customers', operator, '&email=ada.'), [ada.id])
  assert.deepEqual(await search('exanple', '/admin/customers'), [])
  await store.pool.query(`delete from users where email like 'horde%'`)
})

test('who may not read accounts finds nobody by a part of an address, and who may not read orders nobody by a phone', async () => {
  assert.deepEqual(await search('quimby@', '/admin/orders', warehouse.token), [])
  assert.deepEqual(await search('bronte', '/admin/orders', warehouse.token), [wanted.id])
  const { key } = await makeKey(store, ['customers:read'])
  assert.deepEqual(await search('quimby', '/admin/customers', key), [ada.id])
  assert.deepEqual(await search('020 7946 0958', '/admin/customers', key), [])
  assert.deepEqual(await search(`#${wanted.number}`, '/admin/customers', key), [])
  assertProblem(await store.call('GET', '/admin/orders?q=bronte', { token: key }), 403, 'forbidden')
  assertProblem(await store.call('GET', '/admin/orders?q=bronte', { token: ada.token }), 403, 'forbidden')
})

test('what is typed is no pattern and no statement', async () => {
  for (const q of [
    '%%',
    '__',
    "''",
    '";--',
    `${'a'.repeat(99)}b`,
    '😀😀',
    '؜‮שלום',
    '\\\\',
    '- -',
    '####',
    'br%te',
    'q_onte',
    ') or (true',
    'a b c d e f g h',
  ]) {
    for (const path of ['/admin/orders', '/admin/customers']) assert.deepEqual(await search(q, path), [], `${path} ${q}`)
    assert.equal((await store.call('GET', `/admin/search?q=${encodeURIComponent(q)}`, { token: operator })).status, 200, q)
  }
  for (const q of ['', 'a', 'a'.repeat(101), 'a\u0000b']) {
    assertProblem(await store.call('GET', `/admin/orders?q=${encodeURIComponent(q)}`, { token: operator }), 400, 'invalid_query')
  }
})

test('an erased order is found by nothing of its address, and what is left of it finds it', async () => {
  const order = await place(other, {
    shipping_address: { ...ADDRESS, name: 'Gone Tomorrow', postal_code: 'E1 6AN', phone: '+44 1632 960001' },
    client_reference: 'kept-9',
  })
  for (const q of ['tomorrow', 'E1 6AN', '01632 960001', 'kept-9']) assert.deepEqual(await search(q), [order.id], q)
  await store.pool.query('update orders set shipping_address = null where id = $1', [order.id])
  for (const q of ['tomorrow', 'E1 6AN', '01632 960001']) assert.deepEqual(await search(q), [], q)
  assert.deepEqual(await search('kept-9'), [order.id])
})

test('a text that a write around the triggers has left refuses no order', async () => {
  await store.pool.query(
    `insert into order_search_texts (number, words)
    select newest + step, ' left over' from (select max(number) as newest from orders) as last, generate_series(1, 1000) as step`,
  )
  const order = await place(other, { client_reference: 'fresh-1' })
  assert.deepEqual([await search('fresh-1'), await search('left over')], [[order.id], []])
  await store.pool.query(`delete from order_search_texts where words = ' left over'`)
})

test('a thousand orders of one name are paged without gaps, also beside a filter that few of them meet', async () => {
  const { rows } = await store.pool.query<{ id: string }>(
    `insert into orders (id, user_id, status, items, total_amount, currency, shipping_address, status_history, version, created_at, updated_at)
    select gen_random_uuid(), $2, 'pending', items, total_amount, currency, shipping_address || jsonb_build_object('name', 'Legion ' || n),
      jsonb_build_array(status_history -> 0), 1, now(), now()
    from orders cross join generate_series(1, 2100) as n where id = $1 order by n
    returning id`,
    [wanted.id, randomUUID()],
  )
  const walk = async (more: string) => {
    const found: string[] = []
    let pages = 0
    for (let cursor = ''; ; pages++) {
      const { status, json, text } = await store.call('GET', `/admin/orders?q=legion&limit=100${more}${cursor}`, { token: operator })
      assert.equal(status, 200, text)
      found.push(...json.data.map(({ id }: { id: string }) => id))
      if (!json.has_more) return { found, pages }
      cursor = `&cursor=${json.next_cursor}`
    }
  }
  assert.deepEqual((await walk('')).found, rows.map(({ id }) => id).reverse())
  const first = rows[0]?.id as string
  await store.pool.query(`update orders set user_id = $2 where id = $1`, [first, ada.id])
  const few = await walk(`&user_id=${ada.id}`)
  assert.deepEqual(few.found, [first])
  assert.ok(few.pages <= 5, `${few.pages} pages`)
})

test('texts that are missing or differ are mended batch by batch, except those of orders that somebody is changing', async (t) => {
  const read = async () => (await store.pool.query('select number, words from order_search_texts order by number')).rows
  const whole = await read()
  const [{ number: held }, { number: differing }] = whole as [{ number: number }, { number: number }]
  await store.pool.query('delete from order_search_texts where number <> $1', [differing])
  await store.pool.query(`update order_search_texts set words = ' other'`)
  const client = await store.pool.connect()
  t.after(() => client.release())
  await client.query('begin')
  await client.query('select from orders where number = $1 for update', [held])
  const examined = { last: 0 }
  assert.equal(await mendSearchTexts(store.pool, examined), whole.length - 1)
  await client.query('rollback')
  assert.equal(examined.last, 0, 'behind the last order it begins again')
  assert.equal(await mendSearchTexts(store.pool, examined), 1)
  assert.deepEqual(await read(), whole)
  assert.equal(await mendSearchTexts(store.pool, { last: 0 }), 0)
})
