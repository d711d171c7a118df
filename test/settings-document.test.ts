import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { readEnvironment } from '../src/config.ts'

/** Rows of the table of settings in docs/operate/settings.md, by name, without the marks of code. */
function documentedSettings() {
  const text = readFileSync(new URL('../docs/operate/settings.md', import.meta.url), 'utf8')
  const [, table = ''] = /^\| Name \| Must be \| Default \| Meaning \|\n\|---\|---\|---\|---\|\n((?:\|.*\n)+)/m.exec(text) ?? []
  return table
    .trim()
    .split('\n')
    .map((row) => {
      const [, name = '', mustBe = '', fallback = '', meaning = ''] = row.replaceAll('`', '').split(/(?<!\\)\|/)
      return { name: name.trim(), mustBe: mustBe.trim(), documented: fallback.trim(), meaning: meaning.trim() }
    })
}

test('the document lists every setting that the store reads, and no other, with values, default and meaning', () => {
  const ofProvider = { OIDC_PROVIDERS: 'name', OIDC_NAME_ISSUER: 'https://id.example', OIDC_NAME_CLIENT_ID: 'shop' }
  const { settings, problems } = readEnvironment(ofProvider)
  assert.deepEqual(problems, [])
  const rows = documentedSettings()
  const byName = <T extends { name: string }>(list: readonly T[]) => list.toSorted((a, b) => (a.name < b.name ? -1 : 1))
  assert.deepEqual(
    byName(rows).map(({ name, mustBe, documented }) => ({ name, mustBe, documented })),
    byName(settings).map(({ name, mustBe, documented }) => ({ name, mustBe, documented })),
  )
  for (const { name, meaning } of rows) assert.ok(meaning.length > 10, `${name} has no meaning`)
})
