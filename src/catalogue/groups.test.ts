import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { makeKey } from '../../test/api-keys.ts'
import { connectTo, findWaiting } from '../../test/database.ts'
import { eventually } from '../../test/eventually.ts'
import { assertProblem, faults } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { type CallOptions, startStore } from '../../test/store.ts'
import { deleteEmptyGroups } from './change-group.ts'
import { MAX_VARIANTS } from './product-rules.ts'

const store = await startStore({ after })
const { token } = await registerOperator(store)
const SIZES = Array.from({ length: 12 }, (_, index) => String(36 + index))
const SHARED = {
  description: 'A boot for mud.',
  brand: 'Fenwick',
  images: [{ url: 'https://images.example/boot.jpg', alt: 'A boot', width: 800, height: 600 }],
  attributes: { material: 'leather', lining: 'wool' },
  seo: { title: 'Boots', description: null },
  availability_text: 'Ships in 3 days',
  translations: { de: { description: 'Ein Stiefel.', seo_title: 'Stiefel' }, fr: { description: 'Une botte.' } },
}

const call = (method: string, path: string, options: CallOptions = {}) => store.call(method, path, { token, ...options })
const groupOf = (group: string) => `/admin/groups/${encodeURIComponent(group)}`
const get = async (path: string) => (await call('GET', path)).json
const patch = (path: string, body: object, ifMatch = '*') => call('PATCH', path, { body, headers: { 'if-match': ifMatch } })
const product = (id: string) => get(`/admin/products/${id}`)
let last = 0

async function add(group: string, size: string, more: object = {}): Promise<string> {
  const body = { sku: `BOOT-${++last}`, name: `Boot ${size}`, category: 'boots', price: { amount: 9_900, currency: 'EUR' }, group }
  const { status, json, text } = await call('POST', '/admin/products', { body: { ...body, options: { size }, ...more } })
  assert.equal(status, 201, text)
  return json.id
}

async function addGroup(more: object = SHARED, sizes = SIZES): Promise<{ group: string; ids: string[] }> {
  const group = `boot ${randomUUID()}`
  const ids: string[] = []
  for (const size of sizes) ids.push(await add(group, size, more))
  return { group, ids }
}

async function importLine(line: object): Promise<void> {
  const raw = `${JSON.stringify({ category: 'boots', price: { amount: 9_900, currency: 'EUR' }, ...line })}\n`
  const { text } = await call('POST', '/admin/products/import', { raw, headers: { 'content-type': 'application/x-ndjson' } })
  assert.match(text, /"failed":0/, text)
}

async function countEvents(ids: readonly string[]): Promise<number[]> {
  const { rows } = await store.pool.query(
    `select (select count(*)::int from product_events where product_id = wanted.id and stream = 'product') as events
     from unnest($1::uuid[]) with ordinality as wanted (id, at) order by at`,
    [ids],
  )
  return rows.map(({ events }) => events)
}

async function countDeadlocks(): Promise<number> {
  await store.pool.query('select pg_stat_force_next_flush()')
  return (await store.pool.query('select deadlocks from pg_stat_database where datname = current_database()')).rows[0].deadlocks
}

test('one PATCH changes eleven of twelve sizes, with one event each, and leaves the one that overrides', async () => {
  const { group, ids } = await addGroup()
  const [own = ''] = ids
  await patch(`/admin/products/${own}`, { description: 'The smallest boot.' })
  const before = await Promise.all(ids.map(product))
  const events = await countEvents(ids)
  const { status, json, text } = await patch(groupOf(group), { description: 'A boot for snow.' })
  assert.equal(status, 200, text)
  const now = await Promise.all(ids.map(product))
  assert.deepEqual(
    now.map(({ updated_at: _, ...shown }) => shown),
    before.map(({ updated_at: _, ...shown }) => (shown.id === own ? shown : { ...shown, description: 'A boot for snow.' })),
  )
  assert.deepEqual(
    (await countEvents(ids)).map((count, index) => count - (events[index] ?? 0)),
    ids.map((id) => (id === own ? 0 : 1)),
  )
  assert.deepEqual([json.group, json.description, json.name], [group, 'A boot for snow.', null])
  assert.deepEqual(json.variants[0], {
    ...{ id: own, sku: before[0].sku, name: 'Boot 36', options: { size: '36' } },
    overrides: ['description'],
  })
  assert.ok(json.variants.slice(1).every(({ overrides }: { overrides: string[] }) => overrides.length === 0))
  assert.deepEqual(await get(groupOf(group)), json)
})

test('attributes are shared by name, and translations by language and text', async () => {
  const { group, ids } = await addGroup(SHARED, ['S', 'M', 'L'])
  const [small = '', medium = '', large = ''] = ids
  await patch(groupOf(group), { availability_text: 'Ships today' })
  await patch(`/admin/products/${medium}`, { attributes: { ...SHARED.attributes, material: 'rubber', weight_g: 900 } })
  const translations = { ...SHARED.translations, de: { ...SHARED.translations.de, description: 'Der Stiefel.' } }
  await patch(`/admin/products/${large}`, { translations })
  await patch(groupOf(group), {
    attributes: { material: 'canvas', lining: null, sole: ['rubber', 'cork'] },
    translations: { de: { description: 'Ein Schuh.', seo_title: null, name: 'Schuh' }, fr: null },
    seo: { description: 'All boots' },
  })
  const shown = await Promise.all([small, medium, large].map(product))
  assert.deepEqual(
    shown.map(({ attributes }) => attributes),
    [
      { material: 'canvas', sole: ['rubber', 'cork'] },
      { material: 'rubber', weight_g: 900, sole: ['rubber', 'cork'] },
      { material: 'canvas', sole: ['rubber', 'cork'] },
    ],
  )
  assert.deepEqual(
    shown.map((each) => each.translations),
    ['Ein Schuh.', 'Ein Schuh.', 'Der Stiefel.'].map((description) => ({ de: { description, name: 'Schuh' } })),
  )
  assert.deepEqual(shown[1].seo, { title: 'Boots', description: 'All boots' })
  const { variants } = await get(groupOf(group))
  assert.deepEqual(
    variants.map(({ overrides }: { overrides: string[] }) => overrides),
    [[], ['attributes.material'], ['translations.de.description']],
  )
})

test('before its first change a group shares what all its variants have, with the value of most', async () => {
  const { group, ids } = await addGroup({ ...SHARED, name: 'Boot' }, ['S', 'M', 'L'])
  await patch(`/admin/products/${ids[0]}`, { brand: 'Ashby', attributes: { material: 'leather' }, images: [] })
  const { variants: _, ...shared } = await get(groupOf(group))
  assert.deepEqual(shared, { ...SHARED, group, name: 'Boot', images: [], attributes: { material: 'leather' } })
  await patch(groupOf(group), { brand: 'Fenwick & Sons', name: 'Boots' })
  const shown = await Promise.all(ids.map(product))
  assert.deepEqual(
    shown.map(({ name, brand, attributes }) => [name, brand, Object.keys(attributes)]),
    [
      ['Boots', 'Ashby', ['material']],
      ['Boots', 'Fenwick & Sons', ['lining', 'material']],
      ['Boots', 'Fenwick & Sons', ['lining', 'material']],
    ],
  )
})

test("a new variant and an emptied member take the group's value, by PATCH and by import", async () => {
  const { group, ids } = await addGroup(SHARED, ['S'])
  // Nothing is filled in a group that was never changed as one.
  const plain = await add(group, 'M')
  assert.equal((await product(plain)).brand, null)
  assert.equal((await patch(groupOf(group), SHARED)).status, 200)
  const isShared = async (id: string, more: object = {}) => {
    const { description, brand, images, attributes, seo, availability_text, translations, image_url } = await product(id)
    const shown = { description, brand, images, attributes, seo, availability_text, translations }
    assert.deepEqual([shown, image_url], [{ ...SHARED, ...more }, 'https://images.example/boot.jpg'])
  }
  await isShared(plain)
  const added = await add(group, 'L', { attributes: { lining: 'fleece' } })
  await isShared(added, { attributes: { material: 'leather', lining: 'fleece' } })
  const [id = ''] = ids
  await patch(`/admin/products/${id}`, { description: 'Own', brand: 'Own', attributes: { lining: 'own' }, images: [] })
  assert.deepEqual((await product(id)).description, 'Own')
  const empty = { description: '', brand: null, images: [], attributes: {}, seo: {}, availability_text: null, translations: {} }
  await patch(`/admin/products/${id}`, empty)
  await isShared(id)
  const { sku } = await product(id)
  await importLine({ sku, name: 'Boot S', group, options: { size: 'S' }, brand: 'Imported' })
  await isShared(id, { brand: 'Imported' })
  await importLine({ sku: `NEW-${sku}`, name: 'Boot XL', group, options: { size: 'XL' } })
  const { rows } = await store.pool.query('select id from products where sku = $1', [`NEW-${sku}`])
  await isShared(rows[0].id)
  // A product that joins the group is filled too.
  const other = await add(randomUUID(), 'XS')
  await patch(`/admin/products/${other}`, { group })
  await isShared(other)
  // What the group gives up, the variants lose.
  await patch(groupOf(group), { description: null, images: null })
  assert.deepEqual([(await product(other)).description, (await product(other)).image_url], ['', null])
})

test('archived variants stay as they are, and drafts follow', async () => {
  const { group, ids } = await addGroup(SHARED, ['S', 'M', 'L'])
  const [archived = '', draft = ''] = ids
  await patch(groupOf(group), SHARED)
  await call('DELETE', `/admin/products/${archived}`)
  await patch(`/admin/products/${draft}`, { status: 'draft' })
  const { json } = await patch(groupOf(group), { brand: 'Ashby' })
  assert.equal(json.variants.length, 2)
  const shown = await Promise.all(ids.map(product))
  assert.deepEqual(
    shown.map(({ brand, status, archived_at }) => [brand, status, archived_at === null]),
    [
      ['Fenwick', 'active', false],
      ['Ashby', 'draft', true],
      ['Ashby', 'active', true],
    ],
  )
})

test('a change keeps prices, sales, slugs, stock and categories', async () => {
  const price = { amount: 9_900, currency: 'EUR' }
  const sale = { amount: 5_000, currency: 'EUR', from: '2020-01-01T00:00:00Z', until: '2999-01-01T00:00:00Z' }
  const more = {
    ...{ compare_at_price: { amount: 12_000, currency: 'EUR' }, prices: [{ amount: 10_900, currency: 'USD' }], sale_prices: [sale] },
    ...{ stock: 0, slug: randomUUID(), categories: [['Shoes', 'Boots'], ['Sale']] },
  }
  const { group, ids } = await addGroup({ ...SHARED, ...more, price, category: undefined }, ['S'])
  const [id = ''] = ids
  const { updated_at: _, ...before } = await product(id)
  await patch(groupOf(group), { description: 'Another boot.' })
  const { updated_at: __, ...now } = await product(id)
  assert.deepEqual(now, { ...before, description: 'Another boot.' })
  assert.equal((await get(`/products/${id}`)).price.amount, 5_000)
})

test('If-Match: a group that has changed meanwhile is not overwritten, and a change without it is refused', async () => {
  const { group } = await addGroup(SHARED, ['S', 'M'])
  const { headers } = await call('GET', groupOf(group))
  const first = await patch(groupOf(group), { brand: 'One' }, headers.etag)
  assert.equal(first.status, 200, first.text)
  assertProblem(await patch(groupOf(group), { brand: 'Two' }, headers.etag), 412, 'precondition_failed')
  assert.equal((await patch(groupOf(group), { brand: 'Two' }, first.headers.etag)).status, 200)
  assertProblem(await call('PATCH', groupOf(group), { body: { brand: 'Three' } }), 428, 'if_match_required')
})

test('refuses an unknown group, another scope, invalid content, and content that does not fit into a variant', async () => {
  assertProblem(await call('GET', groupOf('unknown')), 404, 'not_found')
  assertProblem(await patch(groupOf('unknown'), { brand: 'A' }), 404, 'not_found')
  const { group, ids } = await addGroup(SHARED, ['S', 'M'])
  const { key } = await makeKey(store, ['stock:write'])
  const headers = { 'if-match': '*' }
  const unscoped = await store.call('PATCH', groupOf(group), { token: key, body: { brand: 'A' }, headers })
  assert.equal(assertProblem(unscoped, 403, 'forbidden').required_scope, 'products:write')
  assertProblem(await store.call('GET', groupOf(group), { token: key }), 403, 'forbidden')
  for (const [body, pointer] of [
    [{}, '#'],
    [{ price: null }, '#/price'],
    [{ brand: ' ' }, '#/brand'],
    [{ translations: { 'de-de': { name: 'x' } } }, '#/translations'],
    [{ attributes: { '1': 'x' } }, '#/attributes/1'],
  ] as const)
    assert.equal(faults(assertProblem(await patch(groupOf(group), body), 422, 'invalid_body'))[0], pointer)
  const many = (letter: string, count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`${letter}${n}`, n]))
  await patch(`/admin/products/${ids[1]}`, { attributes: many('a', 49) })
  const tooMany = await patch(groupOf(group), { attributes: many('b', 3) })
  assert.match(assertProblem(tooMany, 422, 'invalid_body').errors[0].detail, /BOOT-\d+: attributes must be at most 50/)
  assert.deepEqual((await product(ids[0] ?? '')).attributes, SHARED.attributes)
})

test('refuses a group that is too large for one call', async () => {
  const group = randomUUID()
  await add(group, 'S')
  const fill = (count: number) =>
    store.pool.query(
      `insert into products (id, sku, name, description, category, price_amount, price_currency, in_stock, variant_group)
       select gen_random_uuid(), gen_random_uuid(), 'Boot', '', 'boots', 1, 'EUR', true, $1 from generate_series(1, $2)`,
      [group, count],
    )
  await fill(MAX_VARIANTS - 1)
  assert.equal((await patch(groupOf(group), { brand: 'A' })).json.variants.length, MAX_VARIANTS)
  assertProblem(await patch(groupOf(group), { description: 'word '.repeat(4_000) }), 409, 'group_too_large')
  await add(group, 'M')
  assertProblem(await patch(groupOf(group), { brand: 'B' }), 409, 'group_too_large')
  assertProblem(await call('GET', groupOf(group)), 409, 'group_too_large')
  assert.equal((await get(`/products?group=${group}&limit=1`)).data[0].brand, 'A')
})

test('a change of the group and one of a variant at once lose nothing, whichever comes first', async () => {
  const { group, ids } = await addGroup(SHARED, ['S', 'M', 'L'])
  await patch(groupOf(group), SHARED)
  const deadlocks = await countDeadlocks()
  const last = ids.at(-1) ?? ''
  for (let round = 0; round < 10; round++) {
    const calls = [
      () => patch(groupOf(group), { description: `Shared ${round}`, attributes: { lining: `shared ${round}` } }),
      () =>
        patch(`/admin/products/${last}`, {
          attributes: { material: `own ${round}`, lining: '' },
          price: { amount: 100 + round, currency: 'EUR' },
        }),
      () => patch(`/admin/products/${ids[0]}`, { brand: null, description: '' }),
      () => patch(groupOf(group), { brand: `Brand ${round}` }),
    ]
    const answers = await Promise.all((round % 2 === 0 ? calls : calls.toReversed()).map((run) => run()))
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200, 200, 200],
      answers.map(({ text }) => text).join('\n'),
    )
    const shown = await Promise.all(ids.map(product))
    assert.deepEqual(
      shown.map(({ description, brand }) => [description, brand]),
      ids.map(() => [`Shared ${round}`, `Brand ${round}`]),
    )
    assert.deepEqual([shown[2].attributes.material, shown[2].price.amount], [`own ${round}`, 100 + round])
  }
  assert.equal(await countDeadlocks(), deadlocks)
})

test('a variant that joins while its group changes has the new values', async () => {
  const { group, ids } = await addGroup(SHARED, ['S'])
  await patch(groupOf(group), SHARED)
  const holder = await connectTo({ after }, store.url)
  // The change of the group waits for this variant, and the new variant waits for nothing.
  await holder.query('begin')
  await holder.query('select from products where id = $1 for no key update', ids)
  const changed = patch(groupOf(group), { brand: 'Ashby' })
  await eventually(async () => (await findWaiting(store.pool, holder)).length > 0, { what: 'the change that waits' })
  const joined = await add(group, 'M')
  await holder.query('commit')
  assert.equal((await changed).status, 200)
  assert.deepEqual([(await product(joined)).brand, (await product(ids[0] ?? '')).brand], ['Ashby', 'Ashby'])
  // The new variant waits for the change of the group.
  await holder.query('begin')
  await holder.query('select from product_groups where name = $1 for update', [group])
  await holder.query(`update product_groups set content = content || '{"brand": "Barlow"}' where name = $1`, [group])
  const waiting = add(group, 'L')
  await eventually(async () => (await findWaiting(store.pool, holder)).length > 0, { what: 'the variant that waits' })
  await holder.query('commit')
  assert.equal((await product(await waiting)).brand, 'Barlow')
})

test('the record of a group ends with its last product', async () => {
  const { group, ids } = await addGroup(SHARED, ['S'])
  await patch(groupOf(group), SHARED)
  const isKept = async () => (await store.pool.query('select from product_groups where name = $1', [group])).rowCount === 1
  await call('DELETE', `/admin/products/${ids[0]}`)
  await deleteEmptyGroups(store.pool)
  assert.ok(await isKept(), 'an archived variant keeps it')
  assertProblem(await call('GET', groupOf(group)), 404, 'not_found')
  await store.pool.query('update products set variant_group = null where id = any($1)', [ids])
  assert.ok((await deleteEmptyGroups(store.pool)) >= 1)
  assert.ok(!(await isKept()))
})
