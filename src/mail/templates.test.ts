import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { makeOrderEvent } from '../../test/order-event-factory.ts'
import { makeTestFolder } from '../../test/test-folder.ts'
import { LANGUAGES } from '../language.ts'
import { buildTemplates, MAIL_TEXTS } from './built-in-templates.ts'
import { mailLanguages } from './mail-languages.ts'
import { readMailTemplates } from './mail-templates.ts'
import { createMailRenderer, toMailContent } from './render-mail.ts'
import { builtInFiles, createTemplateReader, type ShopInMails, TemplateError, UNBRANDED } from './templates.ts'

function makeFolder(t: TestContext, files: Record<string, string>): string {
  const folder = makeTestFolder(t, 'storefront-templates-')
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
  return folder
}

const renderer = (folder: string) =>
  createMailRenderer({ orderUrl: 'https://shop.example/order' }, createTemplateReader(folder), mailLanguages('de', null))
const content = toMailContent(makeOrderEvent())
const SHOP = { name: 'Tea & House', logoUrl: 'https://shop.example/logo.png?a=1&b=2', color: '#ffd400', contact: '+43 1 23456' }

test('a file in the folder replaces the built-in template of its name, and all others stay', (t) => {
  const render = renderer(
    makeFolder(t, {
      'created.txt.mustache': '\uFEFFIhre Bestellung {{number}}\r\n\r\nGuten Tag {{customer}}\r\n{{> order}}',
      'footer.html.mustache': '<p>Die Filiale</p>',
      'notes.md': 'not a template',
    }),
  )
  const mail = render(content, 'Ada')
  assert.equal(mail.subject, 'Ihre Bestellung SF-1001')
  assert.match(mail.text, /^Guten Tag Ada\n2 × Mug \(je 12,50\u00a0€\): 25,00\u00a0€\n\nSumme: 25,00\u00a0€\n$/)
  assert.match(mail.html, /Vielen Dank für Ihre Bestellung[\s\S]*<p>Die Filiale<\/p>$/)
  assert.equal(render({ ...content, kind: 'shipped' }, null).subject, 'Ihre Bestellung SF-1001 ist unterwegs')
  assert.equal(render(content, 'Ada', 'fr').subject, 'Ihre Bestellung SF-1001')
})

test("a file in a language's folder replaces the template in that language only, and precedes the file for all languages", (t) => {
  const render = renderer(
    makeFolder(t, {
      'created.txt.mustache': 'For all {{number}}\n\n{{> order}}',
      'fr/created.txt.mustache': 'Merci, {{number}}\n\n{{> order}}',
      'es/order.txt.mustache': 'Suma {{total}}',
      'en/shipped.txt.mustache': 'Off it goes\n\n{{> order}}',
    }),
  )
  const subjects = (['en', 'de', 'fr', 'es'] as const).map((language) => render(content, null, language).subject)
  assert.deepEqual(subjects, ['For all SF-1001', 'For all SF-1001', 'Merci, SF-1001', 'For all SF-1001'])
  assert.equal(render(content, null, 'es').text, 'Suma 25,00\u00a0€\n')
  const shipped = { ...content, kind: 'shipped' }
  assert.deepEqual(
    [render(shipped, null, 'en').subject, render(shipped, null).subject],
    ['Off it goes', 'Ihre Bestellung SF-1001 ist unterwegs'],
  )
})

test('files are read through links, as in a Kubernetes volume, and hidden files are not read', (t) => {
  const folder = makeFolder(t, {
    '..2026_11_27/created.txt.mustache': 'Ihr Auftrag\n\nDanke',
    '..2026_11_27/fr/shipped.txt.mustache': 'Partie\n\nMerci',
  })
  symlinkSync('..2026_11_27', join(folder, '..data'))
  symlinkSync('..data/created.txt.mustache', join(folder, 'created.txt.mustache'))
  symlinkSync('..data/fr', join(folder, 'fr'))
  symlinkSync('.', join(folder, 'loop'))
  assert.throws(() => createTemplateReader(folder), /loop\/created.txt.mustache is no mail template/)
  rmSync(join(folder, 'loop'))
  const render = renderer(folder)
  assert.equal(render(content, null).subject, 'Ihr Auftrag')
  assert.equal(render({ ...content, kind: 'shipped' }, null, 'fr').subject, 'Partie')
  writeFileSync(join(folder, '..data/fr/shippped.txt.mustache'), '')
  assert.throws(() => createTemplateReader(folder), /fr\/shippped.txt.mustache is no mail template/)
})

test('an unusable template is refused at once, in one line that names it', (t) => {
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
      reason: /\{\{>heading\}\} is not known; there are header, lines, order, link, footer/,
    },
    subjectless: { name: 'created.txt.mustache', text: '\nHello', reason: /the first line must be the subject/ },
    bodiless: { name: 'created.txt.mustache', text: 'Only a subject', reason: /the first line must be the subject/ },
    foreign: {
      name: 'it/created.txt.mustache',
      text: 'Subject\n\nText',
      reason: /is no mail template; storefront mail templates FOLDER writes all .* in the folders en, de, fr, es$/,
    },
    translated: { name: 'fr/created.txt.mustache', text: 'Sujet\n{{nombre}}', reason: /\{\{nombre\}\} is not known/ },
    unknown: {
      name: 'create.txt.mustache',
      text: 'Subject\n',
      reason: /is no mail template; storefront mail templates FOLDER writes all /,
    },
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
  assert.throws(() => renderer('/nowhere/at/all'), /: MAIL_TEMPLATES: \/nowhere\/at\/all is not a folder$/)
})

test("the built-in templates are accepted as a shop's own files, and make the same mails", (t) => {
  const directory = makeFolder(t, Object.fromEntries(LANGUAGES.flatMap(builtInFiles)))
  const pages = {
    accountUrl: 'https://shop.example/account',
    orderUrl: 'https://shop.example/order',
    consoleUrl: 'https://shop.example/console',
  }
  const options = { shop: SHOP, languages: mailLanguages('en', null), currency: 'EUR', ...pages }
  const [own, builtIn] = [readMailTemplates({ ...options, directory }), readMailTemplates({ ...options, directory: null })]
  for (const { name, ownFiles } of own.list) {
    for (const language of LANGUAGES) {
      assert.ok(
        ['txt', 'html'].every((format) => ownFiles.some((file) => file.endsWith(`${name}.${format}.mustache`))),
        name,
      )
      assert.deepEqual(own.preview(name, language), builtIn.preview(name, language))
    }
  }
  const broken = join(directory, 'de/account/verify_email.txt.mustache')
  writeFileSync(broken, readFileSync(broken, 'utf8').replace('{{>', '{{> un'))
  assert.throws(() => readMailTemplates({ ...options, directory }), TemplateError)
})

test("every mail shows the shop's picture or name, its colour with a readable text on it, and its contact", () => {
  const pages = { accountUrl: 'https://a.example/', orderUrl: 'https://a.example/order', consoleUrl: 'https://a.example/console' }
  const read = (shop: ShopInMails) =>
    readMailTemplates({ directory: null, shop, languages: mailLanguages('en', null), currency: 'EUR', ...pages })
  const [pictured, named, plain] = [read(SHOP), read({ ...SHOP, logoUrl: null, color: '#7a0000' }), read(UNBRANDED)]
  for (const { name } of pictured.list) {
    const [a, b, c] = [pictured, named, plain].map(({ preview }) => preview(name, 'en') ?? assert.fail(name))
    const logo = a?.html.replaceAll('&#x2F;', '/').replaceAll('&#x3D;', '=') ?? ''
    assert.ok(logo.includes('<img src="https://shop.example/logo.png?a=1&amp;b=2" alt="Tea &amp; House" height="40"'), name)
    assert.match(b?.html ?? '', /font-weight:bold">Tea &amp; House<\/p>/, name)
    assert.doesNotMatch(`${b?.html}${c?.html}`, /<img/, name)
    for (const mail of [a, b]) {
      assert.ok(mail?.text.includes('\n+43 1 23456\n') && mail.html.includes('+43 1 23456</p>'), name)
    }
    assert.doesNotMatch(c?.text ?? '', /\n\n\n/, name)
    for (const [mail, background, color] of [
      [a, '#ffd400', '#000000'],
      [b, '#7a0000', '#ffffff'],
      [c, '#0b5394', '#ffffff'],
    ] as const) {
      assert.ok(mail?.html.includes(`border-top:4px solid ${background};`), name)
      for (const [, onButton] of (mail?.html ?? '').matchAll(/background:#\w{6};color:(#\w{6});font-weight/g))
        assert.equal(onButton, color, name)
    }
  }
})

test('the text of an account mail can include parts from files, too', (t) => {
  const directory = makeFolder(t, {
    'account/footer.txt.mustache': '\nYour shop\n',
    'de/account/verify_email.txt.mustache': 'Betreff\n\nHallo\n\n{{> action}}\n{{> footer}}\n',
  })
  const pages = { accountUrl: null, orderUrl: 'https://shop.example/order', consoleUrl: 'https://shop.example/console' }
  const { preview, list } = readMailTemplates({ directory, shop: SHOP, languages: mailLanguages('en', null), currency: 'EUR', ...pages })
  assert.equal(preview('verify_email', 'de')?.text, 'Hallo\n\none-time-token-of-an-example\n\nYour shop\n')
  assert.match(preview('email_changed', 'fr')?.text ?? '', /ne faites rien ici\.\n\nYour shop\n$/)
  assert.deepEqual(list.find(({ name }) => name === 'email_changed')?.ownFiles, ['account/footer.txt.mustache'])
})

test('no built-in template makes a mail program load anything, neither for orders nor for accounts', () => {
  const templates = [...buildTemplates(MAIL_TEXTS.en)].filter(([name]) => name.endsWith('.html'))
  assert.ok(templates.length >= 32, String(templates.length))
  for (const [name, text] of templates) {
    // The shop's picture is loaded, where it has set one.
    const withoutLogo = text.replace(/<img src="\{\{logo_url\}\}"/, '')
    assert.doesNotMatch(withoutLogo, /<(img|script|link|iframe|object|video|audio|source|base)\b|\bsrc(set)?=|url\(|@import|https?:/i, name)
    // The only addresses are links to the shop, to the order, to a parcel and to the console. They are followed only if
    // the reader clicks them.
    const ofOrder = name === 'link.html' ? '{{order_url}}' : name.startsWith('account/staff_') ? '{{url}}' : '{{link}}'
    const allowed = /(shipped|amended)\.html$/.test(name) ? '{{tracking_url}}' : ofOrder
    for (const [, target] of text.matchAll(/href="([^"]*)"/g)) assert.equal(target, allowed, name)
  }
})
