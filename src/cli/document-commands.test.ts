import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeTestFolder } from '../../test/test-folder.ts'
import { LANGUAGES } from '../language.ts'
import { UsageError } from './command.ts'
import { writeMailTemplates } from './document-commands.ts'

test('mail templates writes every built-in template of the languages, and overwrites no file', async (t) => {
  const parent = makeTestFolder(t, 'storefront-templates-')
  const folder = join(parent, 'new', 'templates')
  const lines: string[] = []
  const terminal = { out: (line: string) => void lines.push(line), err: assert.fail, exit: () => assert.fail('exits') }
  const files = () => readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.mustache'))

  assert.equal(await writeMailTemplates(terminal, folder, ['fr']), 0)
  const count = files().length
  assert.deepEqual(lines, [`wrote ${count} mail templates; keep those that you change, the others come from the store`])
  assert.ok(count > 50 && files().every((name) => name.startsWith('fr/')))
  const changed = join(folder, 'fr/shipped.txt.mustache')
  assert.match(readFileSync(changed, 'utf8'), /^Votre commande \{\{number\}\} est en route\n/)

  writeFileSync(changed, 'Changed\n\n')
  await assert.rejects(writeMailTemplates(terminal, folder, LANGUAGES), UsageError)
  assert.equal(readFileSync(changed, 'utf8'), 'Changed\n\n')
  assert.ok(!existsSync(join(folder, 'en')))
  assert.equal(await writeMailTemplates(terminal, folder, ['de']), 0)
  assert.equal(files().length, 2 * count)
})
