import { call, pathOf, type Schemas, withQuery } from './api.ts'
import { badge, create, facts, replaceChildren, table } from './dom.ts'
import { choice } from './form.ts'
import { renderedMail } from './mail-view.ts'
import type { ScreenContext } from './screen.ts'

const LANGUAGES: readonly Schemas['MailTemplate']['language'][] = ['en', 'de', 'fr', 'es']
/** Suggestions: any tag of a language can be typed. */
const LOCALES = ['en', 'en-GB', 'de', 'de-AT', 'de-CH', 'fr', 'es', 'it', 'nl', 'pl', 'pt-BR', 'sv', 'tr', 'ja', 'zh', 'hi', 'ar']

/** Shows the templates, and the mail that one of them makes of an invented order. */
export function showTemplates(root: HTMLElement, name: string, { parameters, signal, report }: ScreenContext): void {
  const shown = { language: parameters.get('language') ?? '', locale: parameters.get('locale') ?? '' }
  const list = create('div')
  const preview = create('article', { class: 'card' })
  root.append(list, languageForm(name, shown), preview)
  call<Schemas['MailTemplateList']>('GET', '/admin/mail-templates', { signal })
    .then(({ data }) => replaceChildren(list, templateTable(data, name, shown)))
    .catch(report)
  const path = withQuery(pathOf`/admin/mail-templates/${name}`, shown)
  const show = (mail: Schemas['MailTemplatePreview']) => {
    const amounts = mail.locale === null ? '' : `, amounts in ${languageOf(mail.locale)}`
    replaceChildren(
      preview,
      create('h3', {}, `Preview: ${mail.name} in ${languageOf(mail.language)}${amounts}`),
      facts(['Subject', mail.rendered.subject]),
      create('div', { class: 'mail-view' }, ...renderedMail(mail.rendered)),
    )
  }
  call<Schemas['MailTemplatePreview']>('GET', path, { signal }).then(show).catch(report)
}

function templateTable(templates: readonly Schemas['MailTemplate'][], current: string, shown: Shown): HTMLElement {
  const rows = templates.map(({ name, kind, source, own_files }) => {
    const attributes: Record<string, string> = name === current ? { 'aria-current': 'true' } : {}
    return [
      create('a', { href: withQuery('#mails', { template: name, ...shown }), attributes }, name),
      kind,
      source === 'shop' ? badge("the shop's own", 'good') : badge('built in'),
      own_files.join(', '),
    ]
  })
  return table('Templates', ['Template', 'About', 'Text', 'Own files'], rows)
}

interface Shown {
  language: string
  locale: string
}

function languageForm(name: string, { language, locale }: Shown): HTMLElement {
  const languages = choice(
    { name: 'language' },
    [['', "the store's"], ...LANGUAGES.map((tag) => [tag, languageOf(tag)] as const)],
    language,
  )
  const options = create('datalist', { id: 'locales' }, ...LOCALES.map((tag) => create('option', { value: tag }, languageOf(tag))))
  const input = create('input', {
    name: 'locale',
    value: locale,
    placeholder: 'as usual in it',
    maxLength: 35,
    attributes: { list: 'locales' },
  })
  const form = create(
    'form',
    { class: 'filters' },
    create('label', {}, 'Language ', languages),
    create('label', {}, 'Amounts as in ', input),
    options,
    create('button', { type: 'submit' }, 'Preview'),
  )
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    location.hash = withQuery('#mails', { template: name, language: languages.value, locale: input.value.trim() })
  })
  return form
}

/** `DisplayNames` refuses extensions of a tag, such as `-u-nu-arab`. */
function languageOf(tag: string): string {
  return `${new Intl.DisplayNames(undefined, { type: 'language' }).of(new Intl.Locale(tag).baseName)} (${tag})`
}
