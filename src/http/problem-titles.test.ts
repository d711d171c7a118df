import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { assertProblem } from '../../test/problem.ts'
import { startStore } from '../../test/store.ts'
import type { ErrorCode } from '../errors.ts'
import { LANGUAGES } from '../language.ts'
import { PROBLEMS, titleOf } from './problem.ts'
import { TRANSLATED_TITLES } from './problem-titles.ts'

const store = await startStore({ after }, { corsOrigins: ['https://shop.example'] })
const codes = Object.keys(PROBLEMS) as ErrorCode[]

test('every code has a title of its own in every language, and no title is left of a code that is gone', () => {
  for (const titles of Object.values(TRANSLATED_TITLES)) assert.deepEqual(Object.keys(titles).toSorted(), codes.toSorted())
  assert.deepEqual(['en', ...Object.keys(TRANSLATED_TITLES)], [...LANGUAGES])
  for (const language of LANGUAGES) {
    const titles = codes.map((code) => titleOf(code, language))
    for (const title of titles) assert.match(title, /^\p{Lu}[^.!?]{3,}$/u)
    assert.equal(new Set(titles).size, codes.length, language)
  }
  for (const code of codes) assert.equal(new Set(LANGUAGES.map((language) => titleOf(code, language))).size, LANGUAGES.length, code)
})

test('a problem has its title in the language of Accept-Language, and tells caches; its code and detail stay', async () => {
  const ask = (headers: Record<string, string>) => store.call('GET', '/me', { headers })
  const plain = assertProblem(await ask({}), 401, 'unauthenticated')
  for (const [header, language, title] of [
    ['de-AT,de;q=0.9,en;q=0.8', 'de', 'Eine Anmeldung ist erforderlich'],
    ['fr', 'fr', 'Une authentification est nécessaire'],
    ['it, es;q=0.5', 'es', 'Es necesario identificarse'],
    ['it', 'en', 'Authentication is required'],
  ] as const) {
    const answer = await ask({ 'accept-language': header })
    const problem = assertProblem(answer, 401, 'unauthenticated', header)
    assert.equal(problem.title, title)
    assert.deepEqual([answer.headers['content-language'], answer.headers.vary], [language, 'Origin, Accept-Language'])
    assert.deepEqual([problem.detail, problem.type], [plain.detail, plain.type])
  }
})

test('a header that is long or no list of languages gets the English title', async () => {
  for (const header of ['de-'.repeat(341), ';;;===,,,', '<script>', 'a'.repeat(1_024), '*']) {
    const answer = await store.call('GET', '/nothing/here', { headers: { 'accept-language': header } })
    assert.equal(assertProblem(answer, 404, 'not_found').title, 'Not found')
    assert.equal(answer.headers['content-language'], 'en')
  }
})

test('pages of products are the same for every language, so that a cache keeps one of each', async () => {
  await store.addProduct()
  const answers = []
  for (const language of ['de', 'fr']) answers.push(await store.call('GET', '/products', { headers: { 'accept-language': language } }))
  for (const { headers, text } of answers) {
    assert.deepEqual([headers.vary, headers['content-language'], headers.etag], ['Accept-Encoding', undefined, answers[0]?.headers.etag])
    assert.equal(text, answers[0]?.text)
  }
})
