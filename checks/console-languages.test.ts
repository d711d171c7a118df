import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { mapTexts } from '../console/kit/template.ts'
import { ENGLISH, readTexts, textsOf } from './console-texts.ts'
import { wordsOfStore } from './console-words.ts'

const ROOT = new URL('..', import.meta.url)
const PATHS = globSync('console/{*,kit/*,screens/*}.ts', { cwd: ROOT }).map((path) => path.replaceAll('\\', '/'))

const TEXTS = PATHS.map((path) => readTexts(ROOT, path))

const placeholders = (text: string) => (text.match(/\{\d+\}/g) ?? []).toSorted()
const braces = (strings: readonly string[]) => strings.join('').match(/\{[^}]*\}/g)
const edges = (text: string) => [/^\s*/.exec(text)?.[0], /\s*$/.exec(text)?.[0]]

for (const language of ['de', 'fr', 'es']) {
  test(`the table ${language} has each text of the console with its values, and no others`, () => {
    const table: Record<string, string> = JSON.parse(readFileSync(new URL(`console/languages/${language}.json`, ROOT), 'utf8'))
    const keys = new Set([...TEXTS.flatMap(({ keys }) => keys), ...wordsOfStore(ROOT)])
    assert.deepEqual(
      [...keys].filter((key) => table[key] === undefined),
      [],
      'lacks',
    )
    assert.deepEqual(
      Object.keys(table).filter((key) => !keys.has(key)),
      [],
      'does not need',
    )
    for (const [key, text] of Object.entries(table)) {
      assert.deepEqual(placeholders(text), placeholders(key), `other values: ${key}`)
      assert.deepEqual(edges(text), edges(key), `other blanks around: ${key}`)
      // The texts of templates become markup.
      assert.doesNotMatch(text, /[<&\n]|^$/, key)
    }
    for (const template of TEXTS.flatMap(({ templates }) => templates)) {
      const { strings, order } = mapTexts(template, (key) => table[key] ?? key)
      assert.deepEqual(
        order.toSorted((a, b) => a - b),
        [...order.keys()],
        `each value once: ${template.join('…')}`,
      )
      assert.deepEqual(braces(strings), braces(template), `braces that are no values: ${template.join('…')}`)
    }
  })
}

test('the console shows no text only in English', () => {
  assert.deepEqual(
    TEXTS.flatMap(({ untranslated }) => untranslated),
    [],
  )
  assert.deepEqual(
    TEXTS.flatMap(({ translatedNames }) => translatedNames),
    [],
  )
  for (const path of PATHS.filter((path) => path !== 'console/kit/language.ts')) {
    const takesOriginal = /import \{[^}]*\bhtml\b[^}]*\} from 'lit-html'/.test(readFileSync(new URL(path, ROOT), 'utf8'))
    assert.equal(takesOriginal, Object.hasOwn(ENGLISH, path), path)
  }
})

test('finds each way to show English, and accepts names for the program', () => {
  const shown = [
    "tell('Saved.')",
    "badge('paid', kind)",
    "note(isNew ? t`New` : 'None yet')",
    "const hint = 'Choose a file'",
    "const tab = { title: 'orders' }",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text.
    'const text = `${count} orders`',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text.
    "html`<p>${isNew ? 'New order' : nothing}</p>`",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text.
    "html`<input aria-label=${isNew ? 'New order' : t`Old`}>`",
  ]
  for (const source of shown) assert.equal(textsOf('x.ts', source).untranslated.length, 1, source)
  const names = [
    't`Saved.`',
    "form.querySelector('input, select')",
    "api.GET('/admin/orders')",
    "status === 'Not Found'",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text.
    "html`<p class=${isWide ? 'card wide' : 'card'}></p>`",
    "const field = { name: 'Name of it' }",
  ]
  for (const source of names) assert.deepEqual(textsOf('x.ts', source).untranslated, [], source)
})

test('a name for the program is not translated', () => {
  for (const source of ['text(t`price`)', 'data.get(t`price`)', 'form.querySelector(t`input`)'])
    assert.equal(textsOf('x.ts', source).translatedNames.length, 1, source)
  assert.deepEqual(textsOf('x.ts', 'readAmount(text("price"), t`price`)').translatedNames, [])
})

test("keys have their own text's values, and contain neither markup nor code", () => {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is source text.
  const source = 'html`<p class="wide">\n  ${a} of ${b}\n  <code>npm start</code></p>\n ${c}\n <input placeholder="Find ${d}">`'
  assert.deepEqual(textsOf('x.ts', source).keys, ['{0} of {1}', 'Find {0}'])
})
