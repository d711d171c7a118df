import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { readEnvironment } from '../src/config.ts'

test('docs/operate/settings.md explains every setting that the store reads, and no other', () => {
  const ofProvider = { OIDC_PROVIDERS: 'name', OIDC_NAME_ISSUER: 'https://id.example', OIDC_NAME_CLIENT_ID: 'shop' }
  const { settings, problems } = readEnvironment(ofProvider)
  assert.deepEqual(problems, [])
  const text = readFileSync(new URL('../docs/operate/settings.md', import.meta.url), 'utf8')
  const rows = [...text.matchAll(/^\| ((?:`[A-Z0-9_]+`(?:, )?)+) \| (.{10,}) \|$/gm)]
  const documented = rows.flatMap(([, names = '']) => [...names.matchAll(/`([A-Z0-9_]+)`/g)].map(([, name = '']) => name))
  assert.deepEqual(documented.toSorted(), settings.map(({ name }) => name).toSorted())
})
