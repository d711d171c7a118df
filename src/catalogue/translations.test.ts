import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { assertProblem } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { type CallOptions, startStore } from '../../test/store.ts'

const store = await startStore({ after })
const { token } = await registerOperator(store)
let lastSku = 0

const call = (method: string, path: string, options: CallOptions = {}) => store.call(method, path, { token, ...options })
const create = (changes: object = {}) =>
  call('POST', '/admin/products', {
    body: { name: 'A lamp', category: 'lamps', price: { amount: 1_999, currency: 'EUR' }, sku: `SKU-${++lastSku}`, ...changes },
  })
const patch = (id: string, body: object, ifMatch = '*') =>
  call('PATCH', `/admin/products/${id}`, { body, headers: { 'if-match': ifMatch } })
const page = (path: string, acceptLanguage?: string) =>
  store.call('GET', path, { headers: acceptLanguage === undefined ? {} : { 'accept-language': acceptLanguage } })
const languages = async () => {
  const { rows } = await store.pool.query('select language, products from catalogue_languages where products > 0 order by language')
  return Object.fromEntries(rows.map(({ language, products }) => [language, products]))
}

const GERMAN = {
  name: 'Eine Lampe',
  description: 'Hell.',
  seo_title: 'Lampen',
  seo_description: 'Die hellste',
  availability_text: 'In drei Tagen',
}

test('without translations an answer has no language, and does not vary', async () => {
  const { id } = (await create()).json
  for (const path of ['/products', `/products/${id}`, '/products/by-slug/a-lamp', '/products?lang=de']) {
    const { headers } = await page(path, 'de')
    assert.equal(headers.vary, 'Accept-Encoding')
    assert.equal(headers['content-language'], path.includes('lang') ? 'en' : undefined)
  }
})

test('answers in the preferred language, and falls back to the own text for each missing translation', async () => {
  const { id, slug } = (
    await create({
      name: 'A bright lamp',
      description: 'Bright.',
      seo: { title: 'Lamps', description: 'The brightest' },
      translations: { de: GERMAN, 'de-AT': { name: 'A Lampn' }, 'pt-BR': { description: 'Clara.' } },
    })
  ).json
  const own = ['A bright lamp', 'Bright.', { title: 'Lamps', description: 'The brightest' }, null]
  const german = ['Eine Lampe', 'Hell.', { title: 'Lampen', description: 'Die hellste' }, 'In drei Tagen']
  const cases: [string | undefined, string, unknown[]][] = [
    [undefined, 'en', own],
    ['de', 'de', german],
    ['de-CH, en;q=0.9', 'de', german],
    ['de-AT', 'de-AT', ['A Lampn', ...german.slice(1)]],
    ['fr, DE-at;q=0.9', 'de-AT', ['A Lampn', ...german.slice(1)]],
    ['pt-br', 'pt-BR', ['A bright lamp', 'Clara.', own[2], null]],
    ['pt', 'en', own],
    ['en, de;q=0.9', 'en', own],
    ['*', 'en', own],
    ['de;q=0', 'en', own],
    ['de;q=0, *', 'en', own],
    ['\u00ff;;;=,de;q=0.1', 'de', german],
    [`${'x,'.repeat(512)}de`, 'en', own],
    [`de,${'x,'.repeat(8_000)}`, 'de', german],
  ]
  for (const [header, language, texts] of cases) {
    const what = header?.slice(0, 50) ?? 'no header'
    for (const path of [`/products/${id}`, `/products/by-slug/${slug}`]) {
      const { json, headers } = await page(path, header)
      assert.deepEqual([json.name, json.description, json.seo, json.availability_text], texts, what)
      assert.equal(headers['content-language'], language, what)
      assert.equal(headers.vary, 'Accept-Encoding, Accept-Language', what)
    }
    const { json, headers } = await page(`/products?ids=${id}`, header)
    assert.deepEqual([json.data[0].name, json.data[0].description], texts.slice(0, 2), what)
    assert.deepEqual([headers['content-language'], headers.vary], [language, 'Accept-Encoding, Accept-Language'], what)
  }
})

test('lang overrides the header, does not vary the answer, and stays in links', async () => {
  const { id, slug } = (await create({ translations: { de: GERMAN } })).json
  for (const [lang, language, name] of [
    ['de', 'de', 'Eine Lampe'],
    ['DE-ch', 'de', 'Eine Lampe'],
    ['en', 'en', 'A lamp'],
    ['fr', 'en', 'A lamp'],
    ['und', 'en', 'A lamp'],
  ] as const) {
    for (const path of [`/products/${id}`, `/products/by-slug/${slug}`, `/products/${id}?utm_source=mail`]) {
      const { json, headers } = await page(`${path}${path.includes('?') ? '&' : '?'}lang=${lang}`, 'fr, de')
      assert.deepEqual([json.name, headers['content-language'], headers.vary], [name, language, 'Accept-Encoding'])
    }
    const { headers } = await page(`/products?limit=1&lang=${lang}`, 'fr, de')
    assert.match(headers.link ?? '', new RegExp(`[?&]lang=${language}&`))
    assert.deepEqual([headers['content-language'], headers.vary], [language, 'Accept-Encoding'])
  }
  const first = await page('/products?limit=1&lang=de')
  const second = await page(`/products?limit=1&lang=en&cursor=${first.json.next_cursor}`)
  assert.equal(second.status, 200, 'a cursor is of the list in any language')
  await patch(id, { slug: 'moved lamp' })
  const moved = await page(`/products/by-slug/${slug}?lang=de`)
  assert.match(moved.headers.location ?? '', /\/products\/by-slug\/moved-lamp\?lang=de$/)
  for (const lang of ['DE_de', '', 'x', 'de-', '*', 'de;q=1', 'd'.repeat(9), '%00', 'de%0d%0aset-cookie:a', 'a'.repeat(1_000)]) {
    for (const path of ['/products', '/products/facets', `/products/${id}`, '/products/by-slug/moved-lamp']) {
      assertProblem(await page(`${path}?lang=${lang}`), 400, 'invalid_query', `${path} ${lang}`)
    }
  }
})

test('entity tags differ by language, and each is accepted as the If-Match of a change', async () => {
  const { id } = (await create({ translations: { de: GERMAN, fr: { name: 'Une lampe' } } })).json
  const tags = await Promise.all(['en', 'de', 'fr'].map(async (header) => (await page(`/products/${id}`, header)).headers.etag ?? ''))
  assert.equal(new Set(tags).size, 3)
  const edited = await call('GET', `/admin/products/${id}`)
  const own = edited.headers.etag?.replace(/"$/, '') ?? ''
  assert.ok(tags.every((tag) => tag.startsWith(own)))
  assert.deepEqual(edited.json.translations, { de: GERMAN, fr: { name: 'Une lampe' } })
  assert.equal(edited.json.name, 'A lamp')
  const lists = await Promise.all(['en', 'de', 'fr'].map(async (header) => (await page('/products', header)).headers.etag))
  assert.equal(new Set(lists).size, 3)
  assert.equal((await patch(id, { brand: 'B' }, tags[1])).status, 200)
  for (const tag of tags) assertProblem(await patch(id, { brand: 'C' }, tag), 412, 'precondition_failed')
  const now = (await page(`/products/${id}`, 'de')).headers.etag ?? ''
  // A change of French alone counts for the German page too: its tag is that of the product.
  await patch(id, { translations: { de: GERMAN, fr: { name: 'Lampe' } } })
  assertProblem(await patch(id, { brand: 'C' }, now), 412, 'precondition_failed')
})

test('a change of translations replaces all of them and nothing else', async () => {
  const { id } = (await create({ translations: { de: GERMAN, fr: { name: 'Une lampe' } } })).json
  const { json } = await patch(id, { translations: { es: { name: ' Una lámpara ', description: '' }, it: {} } })
  assert.deepEqual(json.translations, { es: { name: 'Una lámpara' } })
  assert.deepEqual((await patch(id, { name: 'Another lamp' })).json.translations, { es: { name: 'Una lámpara' } })
  const { rows } = await store.pool.query(
    `select before, after from activities where subject_id = $1 and after ? 'translations' order by id desc limit 1`,
    [id],
  )
  assert.deepEqual(rows[0].after.translations, { es: { name: 'Una lámpara' } })
  await patch(id, { translations: { de: { description: 'x'.repeat(5_000) } } })
  const { rows: long } = await store.pool.query('select after from activities where subject_id = $1 order by id desc limit 1', [id])
  assert.ok(JSON.stringify(long[0].after).length < 2_000)
  assert.deepEqual((await patch(id, { translations: {} })).json.translations, {})
})

test('refuses invalid languages, too many languages, and texts that a product may not have', async () => {
  const { id } = (await create()).json
  const many = (count: number) =>
    Object.fromEntries(
      Array.from({ length: count }, (_, index) => [
        `de-${String.fromCharCode(65 + (index % 26), 65 + Math.trunc(index / 26))}`,
        { name: 'x' },
      ]),
    )
  const refused: unknown[] = [
    ...['DE_de', 'de_DE', 'de-at', 'DE', 'x-klingon', 'iw', 'und', 'german', 'de-DE-u-co-phonebk', '', '*', '__proto__', 'de\n', '\0'].map(
      (tag) => JSON.parse(`{${JSON.stringify(tag)}: {"name": "x"}}`),
    ),
    ...['\0', 'a\nb', '\ud800', '   \u200b '].map((name) => ({ de: { name } })),
    ...['\0', '\ud800', 'x'.repeat(65_537)].map((description) => ({ de: { description } })),
    Object.fromEntries(Object.keys(many(11)).map((tag) => [tag, { description: 'x'.repeat(10_000) }])),
  ]
  for (const translations of refused) {
    assertProblem(await patch(id, { translations } as object), 422, 'invalid_body', JSON.stringify(translations).slice(0, 80))
  }
  assertProblem(await patch(id, { translations: { de: { description: 'x'.repeat(1_048_576) } } }), 413, 'payload_too_large')
  assert.equal((await patch(id, { translations: many(30) })).status, 200)
  const longest = Object.fromEntries(Object.keys(many(10)).map((tag) => [tag, { description: '😀é ß,'.repeat(1_600) }]))
  assert.equal((await patch(id, { translations: longest })).status, 200)
  assert.deepEqual((await call('GET', `/admin/products/${id}`)).json.translations, longest)
  await patch(id, { translations: {} })
})

test('a search finds words of translations together with words of own texts, and no words of a former translation', async () => {
  const { id } = (
    await create({ sku: 'WORDS-1', name: 'Garden bench', translations: { de: { name: 'Gartenbank', description: 'Aus Eichenholz' } } })
  ).json
  const found = async (q: string) =>
    (await page(`/products?q=${encodeURIComponent(q)}`)).json.data.map((product: { id: string }) => product.id)
  for (const q of ['gartenbank', 'eichenholz', 'garden gartenbank', 'words eichen', 'gartenbnak']) assert.deepEqual(await found(q), [id], q)
  assert.deepEqual(await found('garden -gartenbank'), [])
  assert.deepEqual((await page('/products/facets?q=eichenholz')).json.categories, [{ category: 'lamps', slug: 'lamps', count: 1 }])
  assert.deepEqual((await page('/products?q=eichenholz&include=count')).json.count, { value: 1, exact: true })
  await patch(id, { name: 'Park bench' })
  assert.deepEqual([await found('park eichenholz'), await found('garden eichenholz')], [[id], []])
  await patch(id, { translations: {} })
  assert.deepEqual([await found('eichenholz'), await found('park bench')], [[], [id]])
})

test("the catalogue's languages are those of sold products, also if SQL writes the translations", async () => {
  await store.pool.query('update products set archived_at = now()')
  assert.deepEqual(await languages(), {})
  const { id } = (await create({ translations: { de: GERMAN, fr: { name: 'Une lampe' } } })).json
  const other = (await create({ translations: { de: GERMAN } })).json
  assert.deepEqual(await languages(), { de: 2, fr: 1 })
  // The previous release has no translations, and writes like this.
  await store.pool.query(`update products set name = 'A lantern', in_stock = false where id = $1`, [id])
  assert.deepEqual(await languages(), { de: 2, fr: 1 })
  await patch(id, { translations: { de: GERMAN, es: { name: 'Una lámpara' } } })
  assert.deepEqual(await languages(), { de: 2, es: 1 })
  await call('DELETE', `/admin/products/${id}`)
  assert.deepEqual(await languages(), { de: 1 })
  assert.equal((await page('/products', 'es')).headers['content-language'], 'en')
  await store.pool.query('delete from products where id = $1', [other.id])
  assert.deepEqual(await languages(), {})
  await eventually(async () => (await page('/products', 'de')).headers['content-language'] === undefined)
})
