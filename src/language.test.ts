import assert from 'node:assert/strict'
import { test } from 'node:test'
import { languageOf, preferredLanguage } from './language.ts'

test('takes the shipped language with the highest weight, by the first part of its tag', () => {
  const cases: [string | undefined, string | null][] = [
    [undefined, null],
    ['de', 'de'],
    ['DE-at', 'de'],
    ['fr-CH, fr;q=0.9, en;q=0.8, de;q=0.7, *;q=0.5', 'fr'],
    ['en;q=0.5, es;q=0.9', 'es'],
    ['it, pt-BR;q=0.9, es;q=0.1', 'es'],
    ['it, pt;q=0.9', null],
    ['*', null],
    ['de, en', 'de'],
    ['de;q=0', null],
    ['de-AT, de;q=0, fr;q=0.2', 'fr'],
    ['de-AT;q=0, de', 'de'],
    ['zh-Hant-TW, es-419;q=0.3', 'es'],
    ['de ; q=0.3 , fr ; Q=0.4', 'fr'],
  ]
  for (const [header, language] of cases) assert.equal(preferredLanguage(header), language, String(header))
})

test('skips invalid languages, and reads at most 500 characters', () => {
  for (const header of [
    '',
    ',,,;;;===',
    'q=1',
    'de_AT',
    'de;q=2',
    'de;q=-1',
    'de;q=1e9',
    'de;q=',
    'de;level=1',
    '-de',
    'de-',
    'constructor',
    '__proto__',
    'german',
    '\u0000de',
    'd'.repeat(1_024),
    'de-'.repeat(400),
    `${' '.repeat(600)}de`,
    `${'x,'.repeat(250)}de`,
  ]) {
    assert.equal(preferredLanguage(header), null, header)
  }
  assert.equal(preferredLanguage(`;;q,${'x,'.repeat(100)}fr${',de'.repeat(400)}`), 'fr')
  assert.deepEqual([languageOf('es-419'), languageOf('it'), languageOf('')], ['es', null, null])
})
