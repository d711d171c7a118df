import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { assertProblem } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { type CallOptions, startStore } from '../../test/store.ts'
import { productTag } from './events.ts'

const store = await startStore({ after })
const { token } = await registerOperator(store)
let lastSku = 0

const call = (method: string, path: string, options: CallOptions = {}) => store.call(method, path, { token, ...options })
const create = (changes: object = {}) =>
  call('POST', '/admin/products', {
    body: { name: 'A lamp', category: 'lamps', price: { amount: 1_999, currency: 'EUR' }, sku: `SKU-${++lastSku}`, ...changes },
  })
const patch = (id: string, body: object) => call('PATCH', `/admin/products/${id}`, { body, headers: { 'if-match': '*' } })
const bySlug = (slug: string, headers: Record<string, string> = {}) =>
  store.call('GET', `/products/by-slug/${encodeURIComponent(slug)}`, { headers })
const slugsOf = async (id: string) =>
  (
    await store.pool.query('select slug from product_slugs where product_id = $1 order by retired_at desc nulls first, slug', [id])
  ).rows.map(({ slug }) => slug)

test('makes a slug from the letters and digits of the name, in any script', async () => {
  for (const [name, slug] of [
    ['Blue Mug, 300 ml', 'blue-mug-300-ml'],
    ['  Größe XL – Käse & Brot  ', 'grosse-xl-kase-brot'],
    ['青い カップ がぎぐ', '青い-カップ-がぎぐ'],
    ['한국어 머그', '한국어-머그'],
    ['Кружка «Ёлка»', 'кружка-елка'],
    ['हिन्दी कप', 'हिन्दी-कप'],
    ['𐐀 ﬁ Ⅳ ㈱', '𐐨-fi-iv-株'],
    ['A/B ../..', 'a-b'],
    [`${'long '.repeat(19)}exactly`, `${'long-'.repeat(19)}exact`],
    [`${'long '.repeat(59)}`.trim(), 'long-'.repeat(20).slice(0, -1)],
  ] as const) {
    const { json, text } = await create({ name })
    assert.equal(json.slug, slug, text)
    assert.equal((await bySlug(slug)).json.id, json.id)
  }
})

test('if the name has no letter or digit, the slug comes from the sku, otherwise from the id', async () => {
  assert.equal((await create({ name: '🙂🎉', sku: 'Smile_1' })).json.slug, 'smile-1')
  const { id, slug } = (await create({ name: '🙂🎉', sku: '🙂' })).json
  assert.equal(slug, id.slice(-12))
})

test('if a slug is taken, also by a former slug or an archived product, it gets the sku or a part of the id appended', async () => {
  const first = (await create({ name: 'Taken' })).json
  const second = (await create({ name: 'TAKEN!', sku: 'T-2' })).json
  assert.deepEqual([first.slug, second.slug], ['taken', 'taken-t-2'])
  // A slug takes ASCII letters and digits of a sku, so this one is T-2, too.
  const third = (await create({ name: 'Taken', sku: 'T_2' })).json
  assert.equal(third.slug, `taken-${third.id.slice(-12)}`)
  await patch(first.id, { slug: 'free-again' })
  assert.equal((await create({ name: 'Taken', sku: 'T-4' })).json.slug, 'taken-t-4')
  assert.equal((await call('DELETE', `/admin/products/${first.id}`)).status, 204)
  assertProblem(await create({ slug: 'free-again' }), 409, 'slug_taken')
  assertProblem(await create({ slug: 'Taken' }), 409, 'slug_taken')
  assertProblem(await bySlug('taken'), 404, 'not_found')
})

test('letters of two scripts that look alike make two slugs', async () => {
  const [cyrillic, latin] = [await create({ slug: 'mаma' }), await create({ slug: 'mama' })]
  assert.deepEqual([cyrillic.status, cyrillic.json.slug], [201, 'mаma'])
  assert.deepEqual([latin.status, latin.json.slug], [201, 'mama'])
})

test('slugs with the same normal form are refused with 409, also in a change', async () => {
  for (const [first, ...others] of [
    ['Größe XL', 'grosse-xl', 'GRÖSSE  xl', 'gro\u0308ße/xl', 'ｇｒöße-XL', 'grosse🎉xl'],
    ['Kafé 😀 Küche', 'kafe kuche', 'kafe-🎁-kuche', '--KAFÉ_küche--'],
    ['Лампа Ёлка', 'лампа-елка', 'ЛАМПА «ЁЛКА»'],
    ['ＡＢＣ１２３', 'abc123', '𝐀𝐛𝐜𝟏𝟐𝟑', 'ⓐⓑⓒ①②③'],
    ['ハンドブック', 'ﾊﾝﾄﾞﾌﾞｯｸ'],
  ]) {
    const { json, status, text } = await create({ slug: first })
    assert.equal(status, 201, text)
    const other = (await create()).json
    for (const slug of others) {
      assertProblem(await create({ slug }), 409, 'slug_taken', slug)
      assertProblem(await patch(other.id, { slug }), 409, 'slug_taken', slug)
      assert.deepEqual([(await patch(json.id, { slug })).status, (await bySlug(json.slug)).json.id], [200, json.id], slug)
      const found = await bySlug(slug)
      assert.ok(found.json.id === json.id || found.json.moved_to === json.slug, slug)
    }
    assert.deepEqual(await slugsOf(json.id), [json.slug])
  }
})

test('products that are inserted without a slug get one each, in one statement and in concurrent ones', async () => {
  const insert = (skus: readonly string[]) =>
    store.pool.query(
      `insert into products (id, sku, name, category, price_amount, price_currency, in_stock)
       select gen_random_uuid(), sku, 'Inserted', 'lamps', 1, 'EUR', true from unnest($1::text[]) as sku`,
      [skus],
    )
  await Promise.all([insert(['I1', 'I2', 'i1']), insert(['I3', 'I4'])])
  const { rows } = await store.pool.query(
    `select sku, slug from product_slugs join products on id = product_id where name = 'Inserted' and retired_at is null order by sku`,
  )
  assert.equal(rows.length, 5)
  assert.equal(new Set(rows.map(({ slug }) => slug)).size, 5)
  assert.equal(rows.filter(({ slug }) => slug === 'inserted').length, 1)
})

test('a renamed product keeps its slug, and a new slug redirects the old one', async () => {
  const { json: product } = await create({ name: 'Old name' })
  const renamed = await patch(product.id, { name: 'New name' })
  assert.equal(renamed.json.slug, 'old-name')
  assert.ok((await bySlug('old-name')).headers.etag?.startsWith(renamed.headers.etag?.slice(0, -1) ?? '?'))
  const moved = await patch(product.id, { slug: ' New  Näme ' })
  assert.equal(moved.json.slug, 'new-name')
  const found = await bySlug('new-name')
  assert.deepEqual([found.status, found.json.id], [200, product.id])
  assert.ok(found.headers.etag?.startsWith(moved.headers.etag?.slice(0, -1) ?? '?'))
  const old = await bySlug('old-name')
  assert.deepEqual([old.status, old.json], [301, { moved_to: 'new-name' }])
  assert.match(String(old.headers.location), /^https?:\/\/.+\/products\/by-slug\/new-name$/)
  assert.match(String(old.headers['surrogate-key']), new RegExp(productTag(product.id)))
  // The same answer again, from memory: RFC 9110 §13.2.1 ignores conditions of a redirection.
  assert.equal((await bySlug('old-name', { 'if-none-match': '*' })).status, 301)
  assert.equal((await bySlug('OLD_Name')).json.moved_to, 'new-name')
  const back = await patch(product.id, { slug: 'old-name' })
  assert.equal(back.json.slug, 'old-name')
  assert.equal((await bySlug('old-name')).status, 200)
  assert.equal((await bySlug('new-name')).json.moved_to, 'old-name')
  assert.deepEqual(await slugsOf(product.id), ['old-name', 'new-name'])
})

test('a browser that has seen a slug change and change back does not follow redirects in circles', async () => {
  const { json: product } = await create({ slug: 'way-there' })
  await patch(product.id, { slug: 'way-back' })
  const there = await bySlug('way-there')
  await patch(product.id, { slug: 'way-there' })
  const back = await bySlug('way-back')
  for (const { status, headers } of [there, back]) {
    assert.equal(status, 301)
    assert.match(String(headers['cache-control']), /^public, max-age=0, s-maxage=\d+$/)
  }
  assert.match(String((await bySlug('way-there')).headers['cache-control']), /stale-while-revalidate/)
})

test('a slug in another script redirects to a percent-encoded address', async () => {
  const { json } = await create({ slug: '字'.repeat(100) })
  assert.equal((await bySlug('字'.repeat(100))).status, 200)
  await patch(json.id, { slug: 'カップ' })
  const { headers } = await bySlug('字'.repeat(100))
  assert.ok(String(headers.location).endsWith(`/products/by-slug/${encodeURIComponent('カップ')}`))
})

test('a product that is renamed many times keeps its newest 100 former slugs', async () => {
  const { id } = (await create({ slug: 'there' })).json
  for (let turn = 0; turn < 20; turn++) for (const slug of ['here', 'there']) assert.equal((await patch(id, { slug })).status, 200)
  assert.deepEqual(await slugsOf(id), ['there', 'here'])
  for (let number = 1; number <= 103; number++) await patch(id, { slug: `place ${number}` })
  const slugs = await slugsOf(id)
  assert.equal(slugs.length, 101)
  assert.equal(slugs[0], 'place-103')
  assertProblem(await bySlug('here'), 404, 'not_found')
  assert.equal((await bySlug('place-3')).status, 301)
  // A slug that no longer redirects is free.
  assert.equal((await create({ slug: 'here' })).status, 201)
})

test('of two concurrent changes to one slug, one is refused', async () => {
  const ids = [(await create()).json.id, (await create()).json.id]
  const answers = await Promise.all(ids.map((id) => patch(id, { slug: 'contested' })))
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 409])
  const winner = ids[answers.findIndex(({ status }) => status === 200)]
  assert.equal((await bySlug('contested')).json.id, winner)
})

test('refuses slugs without a letter or digit, and addresses that cannot be a slug', async () => {
  const { id } = (await create()).json
  for (const slug of ['🙂', '---', ' ']) {
    assertProblem(await patch(id, { slug }), 422, 'invalid_body', String(slug))
    assertProblem(await create({ slug }), 422, 'invalid_body', String(slug))
  }
  for (const slug of ['nothing-has-this', '🙂', '../admin', 'a\0b', 'x'.repeat(101), 'x'.repeat(5_000), "' or true --"]) {
    const { status } = await bySlug(slug)
    assert.ok(status === 404 || status === 422, `${status} for ${slug.slice(0, 20)}`)
  }
})
