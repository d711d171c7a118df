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

const DECISIONS = 'docs/decisions'
const ROOT = fileURLToPath(new URL('..', import.meta.url))

test('every file that a document names or links to exists', () => {
  assert.ok(findDocuments(ROOT).length > 90, 'the documents were read')
  assert.deepEqual(findMissingFiles(ROOT), [])
})

test('every link to a heading leads to one', () => {
  assert.deepEqual(findDeadAnchors(ROOT), [])
})

test('commands in documents can be pasted into a shell that does not support comments', (t) => {
  assert.deepEqual(findPastedComments(ROOT), [])
  const block = "```sh\nls # a list\n# It's a list.\n# A list\n```\n"
  assert.deepEqual(findPastedComments(makeRepository(t, { 'a.md': block })), ['a.md: ls # a list', "a.md: # It's a list."])
})

test('every reference to a decision leads to a page, and to a section if it names one', () => {
  assert.deepEqual(findDeadDecisions(ROOT), [])
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

test("reports dead links and anchors, including those in the client's and examples' documents", (t) => {
  const link = '[a](b.md) [c](../../README.md#the-shop) [d](../../README.md#no-such-heading) [e](#here)\n\n```sh\n# here\n```\n'
  const root = makeRepository(t, { 'README.md': '# The *shop*\n', 'client/README.md': '[x](y.md)\n', 'examples/shop/README.md': link })
  assert.deepEqual(findMissingFiles(root), ['client/README.md:1 ./y.md', 'examples/shop/README.md:1 ./b.md'])
  assert.deepEqual(findDeadAnchors(root), ['examples/shop/README.md:1 ../../README.md#no-such-heading', 'examples/shop/README.md:1 #here'])
})

test('reports references to missing decisions', (t) => {
  const page = `${DECISIONS}/room`
  const root = makeRepository(t, {
    [`${page}.md`]: '# Room\n\n## Why\n',
    'a.ts': `// ${page}.md#why docs/decisions/\n// ${page}.md#no ${page} decision ${80}`,
    'CHANGELOG.md': `[b](${page}s.md)`,
  })
  assert.deepEqual(findDeadDecisions(root), [
    `CHANGELOG.md:1 ${page}s.md`,
    `a.ts:2 ${page}.md#no`,
    `a.ts:2 ${page}`,
    `a.ts:2 decision ${80}`,
  ])
})

test('reports decisions that the index lacks, and index lines without a decision', (t) => {
  const root = makeRepository(t, {
    'docs/decisions/README.md': '# Decisions\n\n- [Old](room-old.md)\n',
    [`${DECISIONS}/room-new.md`]: '# New\n',
  })
  assert.deepEqual(findIndexErrors(root), ['+ - [New](room-new.md)', '- - [Old](room-old.md)'])
})
