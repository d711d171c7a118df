import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { registerOperator } from '../../../test/register-operator.ts'
import { type CallOptions, startStore } from '../../../test/store.ts'

// A word list of a product in PostgreSQL (tsvector) has at most 1 MiB. No text that a product may have is above that.
const store = await startStore({ after })
const { token } = await registerOperator(store)
const call = (method: string, path: string, options: CallOptions = {}) => store.call(method, path, { token, ...options })
const PRODUCT = { category: 'lamps', price: { amount: 1_999, currency: 'EUR' } }
const { id } = (await call('POST', '/admin/products', { body: { ...PRODUCT, sku: 'LONG', name: 'Own' } })).json
const patch = (body: object) => call('PATCH', `/admin/products/${id}`, { body, headers: { 'if-match': '*' } })
const LANGUAGES = ['da', 'de', 'el', 'es', 'fi', 'fr', 'he', 'hu', 'it', 'ja', 'ko', 'nl', 'no', 'pl', 'pt', 'ru', 'sv', 'tr', 'uk', 'zh']

/** 100,000 characters: `texts(from, length)` of each language has no words of another one. */
function translate(languages: readonly string[], texts: (from: number, length: number) => string) {
  const length = Math.min(10_000, Math.floor(100_000 / languages.length) - 300)
  return Object.fromEntries(
    languages.map((language, index) => [
      language,
      { name: texts(1_000_000 + index * length, 300).trim(), description: texts(index * length, length) },
    ]),
  )
}

/** Different words of `prefix` and a number. */
const words = (prefix: string) => (from: number, length: number) => {
  let text = ''
  for (let number = from; text.length < length; number++) text += `${prefix}${number.toString(36)} `
  return text.slice(0, length)
}
/**
 * Different words of one character of three bytes, as far as there are any, which need most room beside their
 * letters.
 */
const han = (from: number, length: number) =>
  Array.from({ length }, (_, index) => (index % 2 === 1 ? ' ' : String.fromCodePoint(0x4e00 + ((from + index) % 20_000)))).join('')
const rare = (from: number, length: number) =>
  Array.from({ length: length / 2 }, (_, index) => String.fromCodePoint(0x20000 + ((from + index) % 40_000))).join('')

// U+FDFA is one character that is 18 in the search.
for (const [name, texts] of [
  ['one character that becomes 18', (_: number, length: number) => '\ufdfa'.repeat(length)],
  ['such characters in different words', words('\ufdfa')],
  ['different short words', words('')],
  ['different words of Han characters', han],
  ['characters of four bytes without a blank', rare],
  ['one symbol', (_: number, length: number) => '😀'.repeat(length / 2)],
] as const) {
  test(`accepts texts of every permitted length in 10 and 20 languages: ${name}`, async () => {
    for (const languages of [LANGUAGES.slice(0, 10), LANGUAGES]) {
      const translations = translate(languages, texts)
      const own = { name: texts(2_000_000, 300).trim(), description: texts(3_000_000, 16_384) }
      const answer = await patch({ ...own, translations })
      assert.equal(answer.status, 200, answer.text.slice(0, 300))
      assert.deepEqual((await call('GET', `/admin/products/${id}`)).json.translations, translations)
    }
  })
}

test('accepts all texts at full length with each character escaped', async () => {
  const escaped = (value: unknown) =>
    JSON.stringify(value).replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
  const translations = Object.fromEntries(LANGUAGES.slice(0, 10).map((language) => [language, { description: 'ж'.repeat(10_000) }]))
  const images = Array.from({ length: 20 }, (_, index) => ({ url: `https://images.example/${index}.jpg`, alt: 'ж'.repeat(500) }))
  const raw = escaped({ name: 'ж'.repeat(300), description: '🙂'.repeat(16_384), images, translations })
  assert.ok(raw.length > 750_000)
  const answer = await call('PATCH', `/admin/products/${id}`, { raw, headers: { 'if-match': '*', 'content-type': 'application/json' } })
  assert.equal(answer.status, 200, answer.text.slice(0, 300))
  assert.deepEqual(answer.json.translations, translations)
})

test('accepts them from files, too', async () => {
  const lines = [words('\ufdfa'), han].map((texts, index) =>
    JSON.stringify({ ...PRODUCT, sku: `FILE-${index}`, name: 'Long', translations: translate(LANGUAGES, texts) }),
  )
  const headers = { 'content-type': 'application/x-ndjson' }
  const { text } = await store.call('POST', '/admin/products/import', { token, raw: lines.join('\n'), headers })
  assert.match(text, /"created":2,"updated":0,"unchanged":0,"failed":0/)
})

test('finds every word of an ordinary text of the greatest length', async () => {
  const text = `${words('licht')(0, 9_900).replace(/\S*$/, '')}letztes`
  const translations = Object.fromEntries(LANGUAGES.slice(0, 10).map((language) => [language, { description: `${text}${language}` }]))
  assert.equal((await patch({ name: 'Own', description: `${text}own`, translations })).status, 200)
  for (const q of ['letztesown', 'letztesda', 'letztesnl']) {
    const found = (await store.call('GET', `/products?q=${q}`)).json.data.map((product: { sku: string }) => product.sku)
    assert.deepEqual(found, ['LONG'], q)
  }
})
