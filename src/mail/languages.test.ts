import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import mustache from 'mustache'
import { LANGUAGES } from '../language.ts'
import { mailLanguages } from './mail-languages.ts'
import { readMailTemplates } from './mail-templates.ts'

const FOLDER = fileURLToPath(new URL('templates', import.meta.url))
/** Without a word of any language. */
const WORDLESS = ['account/action.html.mustache', 'account/header.html.mustache', 'lines.html.mustache', 'lines.txt.mustache']
const TRANSLATIONS = LANGUAGES.filter((language) => language !== 'en')

function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.mustache'))
    .toSorted()
}

const english = filesIn(FOLDER).filter((name) => !TRANSLATIONS.some((language) => name.startsWith(`${language}/`)))
const textOf = (...path: string[]) => readFileSync(join(FOLDER, ...path), 'utf8')

test('every template that has words is there in every language, and no other', () => {
  const worded = english.filter((name) => !WORDLESS.includes(name))
  assert.ok(worded.length >= 25, String(worded.length))
  for (const language of TRANSLATIONS) assert.deepEqual(filesIn(join(FOLDER, language)), worded, language)
  for (const name of WORDLESS) {
    const words = textOf(name).replace(/<title>.*<\/title>|<[^>]*>|\{\{[^}]*\}\}/g, '')
    assert.doesNotMatch(words, /\p{L}/u, name)
  }
})

test('a translation has the same variables, sections and markup as the English template, and other words', () => {
  const tags = (text: string) => tagsOf(new mustache.Writer().parse(text)).toSorted()
  const markup = (text: string) => text.match(/<[^>]*>/g) ?? []
  for (const language of TRANSLATIONS) {
    for (const name of filesIn(join(FOLDER, language))) {
      const [translated, original] = [textOf(language, name), textOf(name)]
      assert.deepEqual(tags(translated), tags(original), `${language}/${name}`)
      assert.deepEqual(markup(translated), markup(original), `${language}/${name}`)
      const isOnlyPunctuated = name === 'header.html.mustache'
      const englishLines = original
        .split('\n')
        .filter((line) => /\p{L}{4,}.* .*\p{L}{4,}/u.test(line.replace(/<[^>]*>|\{\{[^}]*\}\}/g, '')))
      const kept = isOnlyPunctuated ? [] : englishLines.filter((line) => translated.includes(line))
      assert.deepEqual(kept, [], `${language}/${name}`)
    }
  }
})

test('every template renders in every language: a subject of its own, the values, the language of its HTML', () => {
  const { list, preview } = readMailTemplates({
    ...{ directory: null, accountUrl: null, consoleUrl: 'http://localhost:3000/console', shop: null, currency: 'EUR' },
    languages: mailLanguages('en', null),
  })
  for (const { name, hasAmounts } of list) {
    const mails = LANGUAGES.map((language) => ({ language, mail: preview(name, language) }))
    assert.equal(new Set(mails.map(({ mail }) => mail?.subject)).size, LANGUAGES.length, name)
    for (const { language, mail } of mails) {
      assert.ok(mail !== null)
      assert.match(mail.html, new RegExp(`^<!doctype html>\\n<html lang="${language}">`), name)
      const expected = hasAmounts ? ['100042', 'Blue mug', language === 'en' ? '€1,260.30' : /1[.\u202f]?260,30\u00a0€/] : []
      for (const text of [mail.text, mail.html]) {
        assert.doesNotMatch(text, /\{\{|\}\}|undefined|null/, `${language} ${name}`)
        for (const part of expected)
          assert.ok(typeof part === 'string' ? text.includes(part) : part.test(text), `${language} ${name}: ${part}`)
      }
    }
  }
})

test('French has its spaces before colons and its apostrophes, Spanish its opening marks, and all are polite', () => {
  const wordsOf = (language: string) =>
    filesIn(join(FOLDER, language)).map((name) => [name, textOf(language, name).replace(/<[^>]*>|\{\{[^}]*\}\}/g, '')] as const)
  for (const [name, words] of wordsOf('fr')) {
    assert.doesNotMatch(words, /[^\u00a0]:|[^\u202f\u00a0][!?;]|\p{L}'\p{L}|\b(tu|ton|ta|tes|toi)\b/iu, name)
  }
  for (const [name, words] of wordsOf('es')) {
    assert.equal((words.match(/!/g) ?? []).length, (words.match(/¡/g) ?? []).length, name)
    assert.doesNotMatch(words, /\b(tu|tus|tú|te|ti|vosotros)\b/iu, name)
  }
  for (const [name, words] of wordsOf('de')) assert.doesNotMatch(words, /\b(du|dein\w*|dich|dir)\b/iu, name)
})

test('amounts are written as in MAIL_LOCALE in mails of its language, and in those of the default one if the store does not have it', () => {
  const localesOf = (defaultLanguage: 'en' | 'de', locale: string | null) => LANGUAGES.map(mailLanguages(defaultLanguage, locale).localeOf)
  assert.deepEqual(localesOf('en', null), ['en', 'de', 'fr', 'es'])
  assert.deepEqual(localesOf('de', 'de-AT'), ['en', 'de-AT', 'fr', 'es'])
  assert.deepEqual(localesOf('de', 'en-GB'), ['en-GB', 'de', 'fr', 'es'])
  assert.deepEqual(localesOf('en', 'pt-BR'), ['pt-BR', 'de', 'fr', 'es'])
})

function tagsOf(spans: mustache.TemplateSpans): string[] {
  return spans.flatMap(([kind, name, , , inner]) => [
    ...(kind === 'text' ? [] : [`${kind}${name}`]),
    ...(Array.isArray(inner) ? tagsOf(inner as mustache.TemplateSpans) : []),
  ])
}
