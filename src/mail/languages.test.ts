import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LANGUAGES, type Language } from '../language.ts'
import { buildTemplates, MAIL_TEXTS } from './built-in-templates.ts'
import type { MailTexts } from './mail-kinds.ts'
import { mailLanguages } from './mail-languages.ts'
import { readMailTemplates } from './mail-templates.ts'
import { UNBRANDED } from './templates.ts'

const TRANSLATIONS = LANGUAGES.filter((language) => language !== 'en')
const PAGES = { accountUrl: null, orderUrl: 'https://shop.example/order', consoleUrl: 'http://localhost:3000/console', shop: UNBRANDED }
const builtIn = readMailTemplates({ directory: null, languages: mailLanguages('en', null), currency: 'EUR', ...PAGES })

/** Every text of a language by its path, such as `orders.created.subject`. */
function textsOf(language: Language): Map<string, string> {
  const collect = (value: object, path: string): [string, string][] =>
    Object.entries(value).flatMap(([key, inner]) =>
      typeof inner === 'string' ? [[`${path}${key}`, inner]] : collect(inner, `${path}${key}.`),
    )
  return new Map(collect(MAIL_TEXTS[language], ''))
}

test('a language does not compile if a text is missing, or if a text belongs to no mail', () => {
  const { created, ...orders } = MAIL_TEXTS.en.orders
  const { body, ...bodiless } = created
  // @ts-expect-error The mail of a new order is missing.
  const withoutMail: MailTexts['orders'] = orders
  // @ts-expect-error Its text is missing.
  const withoutText: MailTexts['orders'] = { ...orders, created: bodiless }
  // @ts-expect-error The mail of a new order has no such text.
  const withStranger: MailTexts['orders'] = { ...orders, created: { ...created, now: body } }
  // @ts-expect-error French is missing.
  const withoutLanguage: typeof MAIL_TEXTS = { en: MAIL_TEXTS.en, de: MAIL_TEXTS.de, es: MAIL_TEXTS.es }
  assert.ok([withoutMail, withoutText, withStranger, withoutLanguage].every((texts) => Object.keys(texts).length > 0))
})

test('each translation has the same template values as the English text, different words, and no markup', () => {
  const english = textsOf('en')
  assert.ok(english.size > 80, String(english.size))
  const tags = (text = '') => (text.match(/\{\{.*?\}\}/g) ?? []).toSorted()
  for (const language of TRANSLATIONS) {
    for (const [name, text] of textsOf(language)) {
      const original = english.get(name)
      assert.deepEqual(tags(text), tags(original), `${language} ${name}`)
      assert.ok(text.trim() !== '' && !/[<>]/.test(text), `${language} ${name}`)
      if (/\p{L}{4,}.* .*\p{L}{4,}/u.test(text.replace(/\{\{.*?\}\}/g, ''))) assert.notEqual(text, original, `${language} ${name}`)
    }
  }
})

test('the text and the HTML of a mail say the same, in every language', () => {
  const entities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'", '#x2F': '/', '#x3D': '=' }
  const words = (text: string) => text.replaceAll(/\s+/g, ' ').trim()
  const fromHtml = (html: string) =>
    words(html.replace(/<[^>]*>/g, ' ').replaceAll(/&(\w+|#\w+);/g, (entity, name) => entities[name] ?? entity))
  for (const { name, kind } of builtIn.list) {
    for (const language of LANGUAGES) {
      const mail = builtIn.preview(name, language)
      assert.ok(mail !== null)
      const [html, text] = [fromHtml(mail.html), words(mail.text)]
      // Where the text has a colon, the HTML has two table cells. The address of a link is an attribute in the HTML.
      const lines = mail.text.split('\n').flatMap((line) => (/[\d€]$/.test(line) ? line.split(/\u00a0?: /) : [line]))
      for (const line of lines.map(words).filter((line) => !/^https?:/.test(line)))
        assert.ok(html.includes(line), `${language} ${name}: ${line}`)
      const pieces = [...mail.html.matchAll(/<(p|li|td)\b[^>]*>([\s\S]*?)<\/\1>/g)].map(([, , inner = '']) => fromHtml(inner))
      // The number of the order above the heading is in the subject of the text.
      for (const piece of pieces.slice(kind === 'order' ? 1 : 0)) assert.ok(text.includes(piece), `${language} ${name}: ${piece}`)
    }
  }
})

test('texts are written as they are read, and only the HTML escapes reserved characters', () => {
  const { created } = MAIL_TEXTS.en.orders
  const orders = { ...MAIL_TEXTS.en.orders, created: { ...created, heading: 'Q&A <1>', body: 'Tea & co, {{number}}' } }
  const templates = buildTemplates({ ...MAIL_TEXTS.en, orders, orderFooter: 'R&D' })
  assert.match(templates.get('created.txt') ?? '', /\nTea & co, \{\{number\}\}\n/)
  assert.match(templates.get('created.html') ?? '', />Q&amp;A &lt;1&gt;<\/h1>[\s\S]*>Tea &amp; co, \{\{number\}\}<\/p>/)
  assert.match(templates.get('footer.html') ?? '', />R&amp;D<\/p>/)
})

test("every template renders in every language with its own subject, its values and the HTML's language", () => {
  const { list, preview } = builtIn
  for (const { name, kind, hasAmounts } of list) {
    const mails = LANGUAGES.map((language) => ({ language, mail: preview(name, language) }))
    assert.equal(new Set(mails.map(({ mail }) => mail?.subject)).size, LANGUAGES.length, name)
    for (const { language, mail } of mails) {
      assert.ok(mail !== null)
      assert.match(mail.html, new RegExp(`^<!doctype html>\\n<html lang="${language}">`), name)
      const expected = hasAmounts
        ? ['100042', ...(kind === 'order' ? ['Blue mug'] : []), language === 'en' ? '€1,260.30' : /1[.\u202f]?260,30\u00a0€/]
        : []
      for (const text of [mail.text, mail.html]) {
        assert.doesNotMatch(text, /\{\{|\}\}|undefined|null/, `${language} ${name}`)
        for (const part of expected)
          assert.ok(typeof part === 'string' ? text.includes(part) : part.test(text), `${language} ${name}: ${part}`)
      }
    }
  }
})

test('French has its spaces before colons and its apostrophes, Spanish has its opening marks, and all languages use the polite form', () => {
  const wordsOf = (language: Language) => [...textsOf(language)].map(([name, text]) => [name, text.replace(/\{\{.*?\}\}/g, '')] as const)
  for (const [name, words] of wordsOf('fr')) {
    assert.doesNotMatch(words, /[^\u00a0]:|[^\u202f\u00a0][!?;]|\p{L}'\p{L}|\b(tu|ton|ta|tes|toi)\b/iu, name)
  }
  for (const [name, words] of wordsOf('es')) {
    assert.equal((words.match(/!/g) ?? []).length, (words.match(/¡/g) ?? []).length, name)
    assert.doesNotMatch(words, /\b(tu|tus|tú|te|ti|vosotros)\b/iu, name)
  }
  for (const [name, words] of wordsOf('de')) assert.doesNotMatch(words, /\b(du|dein\w*|dich|dir)\b/iu, name)
})

test('MAIL_LOCALE formats amounts in mails of its language, or of the default language if the store does not have that language', () => {
  const localesOf = (defaultLanguage: 'en' | 'de', locale: string | null) => LANGUAGES.map(mailLanguages(defaultLanguage, locale).localeOf)
  assert.deepEqual(localesOf('en', null), ['en', 'de', 'fr', 'es'])
  assert.deepEqual(localesOf('de', 'de-AT'), ['en', 'de-AT', 'fr', 'es'])
  assert.deepEqual(localesOf('de', 'en-GB'), ['en-GB', 'de', 'fr', 'es'])
  assert.deepEqual(localesOf('en', 'pt-BR'), ['pt-BR', 'de', 'fr', 'es'])
})
