import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { findIn, findInName, findRetiredWords, findStraySlashes, findStraySlashesIn } from './words.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

test('the repository uses no word that the project has retired', () => {
  assert.deepEqual(findRetiredWords(ROOT), [])
})

test('no line of a comment ends in a stray slash', () => {
  assert.deepEqual(findStraySlashes(ROOT), [])
})

test('finds a stray slash at the end of a comment line, but not the end of a comment', () => {
  assert.deepEqual(findStraySlashesIn('src/a.ts', '/**\n * A line. /\n * Another.\n */\n * src/\n'), ['src/a.ts:2'])
})

test('finds retired words in file names', () => {
  assert.deepEqual(findInName('docs/decisions-of-messages-under-way.md').length, 1)
  assert.deepEqual(findInName('docs/decisions-of-messages-in-flight.md'), [])
})

test('reports the file, the line, the word and its replacement', () => {
  assert.deepEqual(findIn('docs/a.md', '# Slots\n\nA lost slot is made anew.\n'), ['docs/a.md:3 "anew": write recreated, retries, again'])
})

test('finds phrases of any case across line breaks of text and comments, and names only as written', () => {
  const found = (text: string) => findIn('src/orders/x.ts', text).length
  assert.equal(found('// what a batch has in\n// hand waits'), 1)
  assert.equal(found('/**\n * The batch goes\n * on.\n */'), 1)
  assert.equal(found('-- it is tried\n-- again'), 1)
  assert.equal(found('Whoever asks'), 1)
  assert.equal(found('20 3 * * * cd /srv/shop && npx storefront lake maintain'), 1)
  assert.equal(found('npx --yes storefront verify, npm exec -- storefront verify'), 2)
  assert.equal(found("import { Checkout } from './checkout.ts'"), 2)
  assert.equal(found('const { insist } = helpers'), 1)
})

test('accepts the good uses of the same words', () => {
  for (const line of [
    './storefront works in a checkout of the repository, npx --no -- storefront where it is installed',
    'a blank line follows, and the rules that follow',
    'await Promise.allSettled(pending)',
    'a well-known address, as is well known',
    'the key in hand-written SQL',
    'refused for good reason',
    'the file before which the comment stands',
    'try again in a minute',
  ])
    assert.deepEqual(findIn('src/topic/x.ts', line), [], line)
})
