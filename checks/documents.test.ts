import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { findDecisionsWithoutSentence, findDocuments, findMissingFiles } from './documents.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

test('every file that a document names or links to exists', () => {
  assert.ok(findDocuments(ROOT).length > 100, 'the documents were read')
  assert.deepEqual(findMissingFiles(ROOT), [])
})

test('every decision begins with one line that says what we do', () => {
  assert.deepEqual(findDecisionsWithoutSentence(ROOT), [])
})
