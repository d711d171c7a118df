import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AppError } from '../errors.ts'
import { readIfMatch } from './if-match.ts'

test('reads the entity tags of a list, and keeps a comma between quotes as part of its tag', () => {
  for (const [header, tags] of [
    ['"1"', ['1']],
    ['1', ['1']],
    ['"1", "2"', ['1', '2']],
    ['"1",2 , W/"3"', ['1', '2']],
    ['"9,1"', ['9,1']],
    ['W/"9,1"', []],
    ['""', ['']],
  ] as [string, string[]][]) {
    assert.deepEqual([...(readIfMatch(header) ?? [])], tags, header)
  }
  assert.equal(readIfMatch(undefined), null)
  assert.equal(readIfMatch(' * '), null)
})

test('ignores empty elements of a list', () => {
  for (const header of ['"1",,"2"', ',"1","2"', '"1","2",', ' , ,"1" , ,\t, "2" , ,', ',1,,2,']) {
    assert.deepEqual([...(readIfMatch(header) ?? [])], ['1', '2'], header)
  }
})

test('refuses a header that is not a list of entity tags', () => {
  for (const header of ['', '"', '"1', '1"', '"1" "2"', ',', ' , ', '*, "1"', '"1", *', '*,', '"1",,"', '"1",,W/']) {
    assert.throws(
      () => readIfMatch(header),
      (error) => error instanceof AppError && error.code === 'invalid_header',
      header,
    )
  }
})

test('accepts the tag of any encoding of a resource that is also sent compressed', () => {
  for (const header of ['"a"', 'W/"a"', '"a-gz"', '"a-br"', 'W/"a-gzip"']) {
    assert.ok(readIfMatch(header, { isSentCompressed: true })?.has('a'), header)
  }
  assert.ok(readIfMatch('"a-br"', { isSentCompressed: true })?.has('a-br'), 'a tag may end like that by chance')
  assert.deepEqual([...(readIfMatch('"a-br", W/"a"') ?? [])], ['a-br'])
})
