import { addressOf } from '../kit/address.ts'
import { api, read, type Schemas } from '../kit/api.ts'
import { choice, createForm, entered, field } from '../kit/form.ts'
import { badge, type Content, html, loading, note, nothing } from '../kit/html.ts'
import { locale, t } from '../kit/language.ts'
import type { ScreenContext } from '../kit/screen.ts'
import { mailContent } from './mail-content.ts'

type Template = Schemas['MailTemplate']

const LANGUAGES: readonly Template['language'][] = ['en', 'de', 'fr', 'es']
/** Suggested language tags. Any other tag can be typed. */
const LOCALES = ['en', 'en-GB', 'de', 'de-AT', 'de-CH', 'fr', 'es', 'it', 'nl', 'pl', 'pt-BR', 'sv', 'tr', 'ja', 'zh', 'hi', 'ar']

/** The templates, which stay visible from one preview to the next. */
let known: readonly Template[] = []

/** The mail templates, and beside them the mail that one of them makes for an invented order. */
export function mailTemplates(context: ScreenContext): () => Content {
  const { parameters, signal, report, update, title } = context
  const name = parameters.get('template') ?? 'created'
  const language = parameters.get('language') ?? ''
  const locale = parameters.get('locale') ?? ''
  const hrefOf = (template: string) => addressOf('settings', { section: 'templates', template, language, locale })
  let preview: Schemas['MailTemplatePreview'] | null = null
  read(api.GET('/admin/mail-templates', { signal }))
    .then(({ data }) => {
      known = data
      update()
    })
    .catch(report)
  const query = { ...(language === '' ? {} : { language: language as Template['language'] }), ...(locale === '' ? {} : { locale }) }
  read(api.GET('/admin/mail-templates/{name}', { params: { path: { name }, query }, signal }))
    .then((shown) => {
      preview = shown
      title(t`Mail template ${name}`)
      update()
    })
    .catch(report)
  const form = createForm(context, {
    submit: t`Preview`,
    onSubmit: async (data) => {
      location.hash = addressOf('settings', { section: 'templates', template: name, ...entered(data) })
    },
  })
  const languages = [['', t`the store's`], ...LANGUAGES.map((tag) => [tag, languageOf(tag)] as const)] as const
  const controls = () =>
    form(html`${field(t`Language`, choice({ name: 'language' }, languages, language))}
      ${field(t`Amounts as in`, html`<input name="locale" maxlength="35" placeholder="as usual in it" list="locales" .value=${locale}>`)}
      <datalist id="locales">${LOCALES.map((tag) => html`<option value=${tag}>${languageOf(tag)}</option>`)}</datalist>`)
  const group = (heading: string, kind: Template['kind']) => html`<h3>${heading}</h3>
    <ul>${known
      .filter((template) => template.kind === kind)
      .map(
        (
          template,
        ) => html`<li><a translate="no" href=${hrefOf(template.name)} aria-current=${template.name === name ? 'true' : nothing}>${template.name.replaceAll('_', ' ')}</a>
          ${template.source === 'shop' ? badge(t`the shop's own`, 'good') : nothing}</li>`,
      )}</ul>`
  const mail = ({ rendered, own_files: files, ...shown }: Schemas['MailTemplatePreview']) => {
    const amounts = shown.locale === null ? '' : t`, amounts in ${languageOf(shown.locale)}`
    return html`<h3><span translate="no">${shown.name.replaceAll('_', ' ')}</span> in ${languageOf(shown.language)}${amounts}</h3>
      <p><strong>${rendered.subject}</strong></p>
      ${files.length === 0 ? nothing : note(t`The shop's own files: ${files.join(', ')}`)}
      ${mailContent(rendered)}`
  }

  return () => html`<div class="title"><h2>Mail templates</h2></div>
    ${note(t`The text that customers and operators get. Files in the directory of MAIL_TEMPLATES replace those that are built in.`)}
    <div class="templates">
      <nav class="card" aria-label="Templates">${known.length === 0 ? loading() : html`${group(t`About orders`, 'order')}${group(t`About accounts`, 'account')}`}</nav>
      <section class="card" aria-label="Preview">${controls()}${preview === null ? loading() : mail(preview)}</section>
    </div>`
}

/** `DisplayNames` refuses extensions of a tag, such as `-u-nu-arab`, so they are removed. */
function languageOf(tag: string): string {
  return `${new Intl.DisplayNames(locale, { type: 'language' }).of(new Intl.Locale(tag).baseName)} (${tag})`
}
