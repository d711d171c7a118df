import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import {
  findDeadAnchors,
  findDeadDecisions,
  findDecisionsWithoutSentence,
  findDocuments,
  findIndexErrors,
  findMissingFiles,
  findPastedComments,
} from './documents.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

test('every file that a document names or links to exists', () => {
  assert.ok(findDocuments(ROOT).length > 90, 'the documents were read')
  assert.deepEqual(findMissingFiles(ROOT), [])
})

test('every link to a heading leads to one', () => {
  assert.deepEqual(findDeadAnchors(ROOT), [])
})

test('commands in documents survive a paste into a shell that knows no comments', (t) => {
  assert.deepEqual(findPastedComments(ROOT), [])
  const block = "```sh\nls # a list\n# It's a list.\n# A list\n```\n"
  assert.deepEqual(findPastedComments(makeRepository(t, { 'a.md': block })), ['a.md: ls # a list', "a.md: # It's a list."])
})

test('every reference to a decision leads to a page, and to a section where it names one', () => {
  // A test below has references that lead nowhere.
  assert.deepEqual(
    findDeadDecisions(ROOT).filter((found) => !found.startsWith('checks/documents.test.ts:')),
    [],
  )
})

test('the index of the decisions lists each of them with its title', () => {
  assert.deepEqual(findIndexErrors(ROOT), [])
})

test('every decision begins with a sentence that says what we do', () => {
  assert.deepEqual(findDecisionsWithoutSentence(ROOT), [])
})

function makeRepository(t: TestContext, files: Readonly<Record<string, string>>): string {
  const root = mkdtempSync(join(tmpdir(), 'storefront-checks-'))
  t.after(() => rmSync(root, { recursive: true }))
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(root, path, '..'), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  return root
}

test('reports dead links and anchors, also in the documents of client and examples', (t) => {
  const link = '[a](b.md) [c](../../README.md#the-shop) [d](../../README.md#no-such-heading) [e](#here)\n\n```sh\n# here\n```\n'
  const root = makeRepository(t, { 'README.md': '# The *shop*\n', 'client/README.md': '[x](y.md)\n', 'examples/shop/README.md': link })
  assert.deepEqual(findMissingFiles(root), ['client/README.md:1 ./y.md', 'examples/shop/README.md:1 ./b.md'])
  assert.deepEqual(findDeadAnchors(root), ['examples/shop/README.md:1 ../../README.md#no-such-heading', 'examples/shop/README.md:1 #here'])
})

test('reports references to decisions that lead nowhere, in sources and documents', (t) => {
  const source = [
    '// See docs/decisions/room-subject.md#what-we-do and docs/decisions/ for all.',
    '// See docs/decisions/room-subject.md#nothing.',
    '// See docs/decisions/0080, and decision 0081.',
  ]
  const root = makeRepository(t, {
    'docs/decisions/room-subject.md': '# Subject\n\n## What we do\n',
    'src/room.ts': source.join('\n'),
    'CHANGELOG.md': '([why](docs/decisions/room-gone.md))\n',
  })
  assert.deepEqual(findDeadDecisions(root), [
    'CHANGELOG.md:1 docs/decisions/room-gone.md',
    'src/room.ts:2 docs/decisions/room-subject.md#nothing',
    'src/room.ts:3 docs/decisions/0080',
    'src/room.ts:3 decision 0081',
  ])
})

test('reports decisions that the index lacks, and lines of the index without a decision', (t) => {
  const root = makeRepository(t, {
    'docs/decisions/README.md': '# Decisions\n\n- [Old](room-old.md)\n',
    'docs/decisions/room-new.md': '# New\n',
  })
  assert.deepEqual(findIndexErrors(root), ['+ - [New](room-new.md)', '- - [Old](room-old.md)'])
})
