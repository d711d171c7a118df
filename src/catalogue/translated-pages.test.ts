import assert from 'node:assert/strict'
import { request } from 'node:http'
import { connect } from 'node:net'
import { after, test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { eventually, stopClock } from '../../test/eventually.ts'
import { startSecondProcess, startStore } from '../../test/store.ts'
import { CatalogueLanguages } from './languages.ts'

const store = await startStore({ after })
const { port } = store
const lamp = await store.addProduct({ name: 'A lamp' })
const bench = await store.addProduct({ name: 'A bench' })
const SLUG = '/products/by-slug/a-lamp'
const NAMES = { en: 'A lamp', de: 'Eine Lampe', fr: 'Une lampe' }

/** Sends a request over the network, because a cached page is answered there before any other step. */
function get(path: string, headers: Record<string, string> = {}, method = 'GET') {
  return new Promise<{ status: number; headers: Record<string, string | string[] | undefined>; text: string }>((resolve, reject) => {
    request({ port, path, headers, method, agent: false }, async (response) => {
      const text = Buffer.concat(await Array.fromAsync(response)).toString()
      resolve({ status: response.statusCode ?? 0, headers: response.headers, text })
    })
      .on('error', reject)
      .end()
  })
}

/** A problem has a language too: a read that took too long tells nothing about those of the catalogue. */
const languageOf = ({ status, headers }: { status: number; headers: Record<string, unknown> }) =>
  status === 200 ? headers['content-language'] : `status ${status}`

const translate = async (translations: object) => {
  await store.pool.query('update products set translations = $2 where id = $1', [lamp.id, translations])
  const expected = Object.hasOwn(translations, 'de') ? 'de' : Object.keys(translations).length > 0 ? 'en' : undefined
  await eventually(async () => languageOf(await get('/products?limit=1', { 'accept-language': 'de' })) === expected)
}

test('a page that is cached in one language is not the answer to a request for another: page, list, 304 and HEAD', async () => {
  const paths = [`/products/${lamp.id}`, SLUG, '/products?limit=2&sort=name', `/products?ids=${lamp.id}`]
  // Each page is ready before the first translation comes.
  for (const path of paths) for (const accept of ['de', 'fr', 'en']) await get(path, { 'accept-language': accept })
  await translate({ de: { name: NAMES.de }, fr: { name: NAMES.fr } })
  for (const path of paths) {
    const tags = new Map<string, string>()
    // The second and third round are answered from memory.
    for (let round = 0; round < 3; round++) {
      for (const [accept, language] of [
        ['de', 'de'],
        ['fr-CA,fr;q=0.9', 'fr'],
        ['en', 'en'],
        ['nl, de;q=0.5', 'de'],
      ] as const) {
        const headers = { 'accept-language': accept }
        const answer = await get(path, headers)
        assert.ok(answer.text.includes(NAMES[language]), `${path} ${accept} ${answer.text}`)
        assert.equal(answer.headers['content-language'], language)
        assert.match(String(answer.headers.vary), /Accept-Language/)
        const etag = String(answer.headers.etag)
        assert.equal(tags.get(language) ?? etag, etag)
        tags.set(language, etag)
        const head = await get(path, headers, 'HEAD')
        assert.deepEqual([head.headers.etag, head.headers['content-language'], head.text], [etag, language, ''])
      }
      assert.equal(new Set(tags.values()).size, 3)
      for (const accept of ['de', 'fr', 'en'])
        for (const [language, etag] of tags) {
          const answer = await get(path, { 'accept-language': accept, 'if-none-match': etag })
          assert.deepEqual(
            [answer.status, answer.headers['content-language']],
            [accept === language ? 304 : 200, accept],
            `${path} ${accept}`,
          )
          assert.match(String(answer.headers.vary), /Accept-Language/)
        }
      // The parameter is part of the address, so the header does not matter.
      for (const accept of ['de', 'fr']) {
        const query = `${path}${path.includes('?') ? '&' : '?'}lang=en`
        assert.ok((await get(query, { 'accept-language': accept })).text.includes(NAMES.en))
      }
    }
  }
  await translate({})
  const answer = await get(SLUG, { 'accept-language': 'de' })
  assert.ok(answer.text.includes(NAMES.en))
  assert.deepEqual([answer.headers['content-language'], answer.headers.vary], [undefined, 'Accept-Encoding'])
})

test('many different headers lead to few cached pages', async (t) => {
  await translate({ de: { name: NAMES.de } })
  // The page is cached in German, so a new header that prefers German needs no query.
  const { etag } = (await get(SLUG, { 'accept-language': 'de' })).headers
  const tx = await store.pool.connect()
  const startClock = stopClock(t)
  try {
    await tx.query('begin; lock table products in access exclusive mode')
    for (let i = 0; i < 200; i++) {
      const answer = await get(SLUG, { 'accept-language': `nl-${i}, de;q=0.5, x${'y'.repeat(1_000)}` })
      assert.deepEqual([answer.headers.etag, answer.headers['content-language']], [etag, 'de'])
    }
  } finally {
    startClock()
    await tx.query('rollback')
    tx.release()
  }
})

test('remembers a limited number of headers', () => {
  const languages = new CatalogueLanguages('en')
  const version = { changes: 1, changedAt: new Date(), languages: ['de', 'fr'] }
  const before = heapUsed()
  for (let i = 0; i < 300_000; i++) assert.equal(languages.negotiate(version, `x-${i}, de;q=0.${i % 9}1, ${'y'.repeat(i % 300)}`), 'de')
  assert.ok(heapUsed() - before < 1_000_000)
  assert.equal(languages.negotiate({ ...version, languages: ['fr'] }, 'x-1, de;q=0.11, y'), 'en')
})

test('a header of any form gets an answer, or the server refuses it before it is read', async () => {
  await translate({ de: { name: NAMES.de } })
  for (const header of ['', '*', 'de;q=0', ';;;', 'de\t', '\u00ff', 'de,'.repeat(300), 'x'.repeat(10_000)]) {
    assert.equal((await get(SLUG, { 'accept-language': header })).status, 200, header.slice(0, 20))
  }
  for (const [header, language] of [
    // The first 500 characters are read.
    [`${'nl,'.repeat(300)}de`, 'en'],
    [`de,${'nl,'.repeat(3_300)}`, 'de'],
    [`${'-,;=q'.repeat(90)},de`, 'de'],
    ['q=1;de, <script>, ../de, %64%65', 'en'],
    ['de'.repeat(5_000), 'en'],
  ] as const) {
    for (const path of [SLUG, `/products/${lamp.id}`, '/products', '/products/facets']) {
      const answer = await get(path, { 'accept-language': header })
      assert.equal(answer.status, 200)
      if (path !== '/products/facets') assert.equal(answer.headers['content-language'], language, `${path} ${header.slice(0, 40)}`)
    }
  }
  assert.equal((await get(SLUG, { 'accept-language': 'x'.repeat(20_000) })).status, 431)
  assert.match(await raw(`GET ${SLUG} HTTP/1.1\r\nhost: localhost\r\naccept-language: d\0e\r\n\r\n`), /^HTTP\/1\.1 400 /)
  // A second header with the same name continues the first one.
  const twice = await raw(
    `GET ${SLUG} HTTP/1.1\r\nhost: localhost\r\naccept-language: nl\r\naccept-language: de\r\nconnection: close\r\n\r\n`,
  )
  assert.match(twice, /content-language: de/i)
})

test('cached pages of products without translations stay when another product gets the first translation', async () => {
  await translate({})
  const before = await get(`/products/${bench.id}`, { 'accept-language': 'de' })
  await translate({ de: { name: NAMES.de } })
  const now = await get(`/products/${bench.id}`, { 'accept-language': 'de' })
  assert.deepEqual([now.text, now.headers['content-language']], [before.text, 'de'])
})

function heapUsed(): number {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  return process.memoryUsage().heapUsed
}

function raw(text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = ''
    const socket = connect(port, '127.0.0.1', () => socket.write(text))
    socket.on('data', (data) => {
      answer += data
    })
    socket.on('close', () => resolve(answer))
    socket.on('error', reject)
  })
}

test('an address with `lang` is answered in that language as soon as the catalogue has it', async () => {
  await translate({ fr: { name: NAMES.fr } })
  const path = `/products/${lamp.id}?lang=de`
  assert.equal((await get(path)).headers['content-language'], 'en')
  await translate({ fr: { name: NAMES.fr }, de: { name: NAMES.de } })
  // The page that the address meant before is ready again.
  await get(`/products/${lamp.id}?lang=en`)
  const { headers, text } = await get(path)
  assert.deepEqual([headers['content-language'], JSON.parse(text).name], ['de', NAMES.de])
})

test('every process learns that a language was added or removed', async (t) => {
  await translate({})
  const other = await startSecondProcess(t, store)
  const paths = [`/products/${lamp.id}`, '/products?limit=2&sort=name']
  const languagesOf = async (accept: string) =>
    Promise.all(
      [store, other].flatMap((process) =>
        paths.map(async (path) => languageOf(await process.call('GET', path, { headers: { 'accept-language': accept } }))),
      ),
    )
  const isEverywhere = (language: string | undefined) =>
    eventually(async () => (await languagesOf('de')).every((found) => found === language), { what: `${language} everywhere` })
  await isEverywhere(undefined)
  for (const [translations, language] of [
    [{ de: { name: NAMES.de } }, 'de'],
    [{ fr: { name: NAMES.fr } }, 'en'],
    [{}, undefined],
  ] as const) {
    await store.pool.query('update products set translations = $2 where id = $1', [lamp.id, translations])
    await isEverywhere(language)
  }
})

test('a page that is read while a language is added has texts in that language', async () => {
  for (let round = 0; round < 20; round++) {
    await translate({})
    await store.pool.query('update products set translations = $2 where id = $1', [lamp.id, { de: { name: NAMES.de } }])
    // The request mostly comes before the process has noticed the change.
    const path = `/products?ids=${lamp.id}&max_price=${1_000_000 + round}&lang=de`
    const names = [await get(path), await get(path)].map(({ text }) => JSON.parse(text).data[0].name)
    assert.deepEqual(names, [NAMES.de, NAMES.de], `round ${round}`)
  }
})

test('a redirect has no entity tag, and ignores conditions', async () => {
  const pen = await store.addProduct({ name: 'A pen' })
  const { slug } = JSON.parse((await get(`/products/${pen.id}`)).text)
  await store.pool.query('update product_slugs set retired_at = now() where slug = $1', [slug])
  await store.pool.query("insert into product_slugs (slug, product_id) values ('the-other-pen', $1)", [pen.id])
  await eventually(async () => (await get(`/products/by-slug/${slug}`)).status === 301)
  const answer = await get(`/products/by-slug/${slug}`, { 'if-none-match': '*' })
  assert.deepEqual([answer.status, answer.headers.etag], [301, undefined])
})
