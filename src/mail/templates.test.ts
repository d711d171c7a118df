import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { makeOrderEvent } from '../../test/order-event-factory.ts'
import { createMailRenderer, toMailContent } from './render-mail.ts'
import { createTemplateReader, TemplateError } from './templates.ts'

function makeFolder(t: TestContext, files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'storefront-templates-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
  return folder
}

const renderer = (folder: string) => createMailRenderer(createTemplateReader(folder), 'de')
const content = toMailContent(makeOrderEvent())

test('a file in the folder stands in for the built-in template of its name, all others stay', (t) => {
  const render = renderer(
    makeFolder(t, {
      'created.txt.mustache': '\uFEFFIhre Bestellung {{number}}\r\n\r\nGuten Tag {{customer}}\r\n{{> order}}',
      'footer.html.mustache': '<p>Die Filiale</p>',
      'notes.md': 'not a template',
    }),
  )
  const mail = render(content, 'Ada')
  assert.equal(mail.subject, 'Ihre Bestellung SF-1001')
  assert.match(mail.text, /^Guten Tag Ada\n2 × Mug: 25,00\u00a0€\n\nTotal: 25,00\u00a0€\n$/)
  assert.match(mail.html, /Thank you for your order[\s\S]*<p>Die Filiale<\/p>$/)
  assert.equal(render({ ...content, kind: 'shipped' }, null).subject, 'Your order SF-1001 is on its way')
})

test('a template that cannot be used is refused at once, in one line that names it', (t) => {
  const cases: Record<string, { name: string; text: string; reason: RegExp }> = {
    unclosed: { name: 'shipped.html.mustache', text: '{{#items}}{{name}}', reason: /Unclosed section "items"/ },
    misspelt: {
      name: 'shipped.txt.mustache',
      text: 'Subject\n{{nunber}}',
      reason: /\{\{nunber\}\} is not known; there are customer, number/,
    },
    nested: { name: 'order.html.mustache', text: '{{#items}}{{price}}{{/items}}', reason: /\{\{price\}\} is not known/ },
    partial: {
      name: 'created.html.mustache',
      text: '{{> heading}}',
      reason: /\{\{>heading\}\} is not known; there are header, order, footer/,
    },
    subjectless: { name: 'created.txt.mustache', text: '\nHello', reason: /the first line must be the subject/ },
    bodiless: { name: 'created.txt.mustache', text: 'Only a subject', reason: /the first line must be the subject/ },
    unknown: { name: 'create.txt.mustache', text: 'Subject\n', reason: /is no mail template; they are / },
  }
  for (const [what, { name, text, reason }] of Object.entries(cases)) {
    assert.throws(
      () => renderer(makeFolder(t, { [name]: text })),
      (error) => {
        assert.ok(error instanceof TemplateError, what)
        assert.match(error.message, reason)
        assert.ok(error.message.includes(name) && !error.message.includes('\n'), what)
        return true
      },
    )
  }
  assert.throws(() => renderer('/nowhere/at/all'), /\/nowhere\/at\/all is not a folder/)
})

test('no built-in template, of orders or of accounts, would make a mail program load something', () => {
  const folder = fileURLToPath(new URL('templates', import.meta.url))
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.html.mustache'))
  assert.ok(names.length >= 14, String(names.length))
  for (const name of names) {
    const text = readFileSync(join(folder, name), 'utf8')
    assert.doesNotMatch(text, /<(img|script|link|iframe|object|video|audio|source|style|base)\b|\bsrc(set)?=|url\(|@import|https?:/i, name)
    // A link to the shop or, of a shipped order, to its parcel is the only address there is; the customer follows it or not.
    const allowed = name === 'shipped.html.mustache' ? '{{tracking_url}}' : '{{link}}'
    for (const [, target] of text.matchAll(/href="([^"]*)"/g)) assert.equal(target, allowed, name)
  }
})
