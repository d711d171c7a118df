import { MAX_LENGTHS } from '../../src/catalogue/product-rules.ts'
import type { Schemas } from '../kit/api.ts'
import { field } from '../kit/form.ts'
import { type Content, html, nothing, ref } from '../kit/html.ts'
import { t } from '../kit/language.ts'
import { cell } from '../kit/rows.ts'
import { languageName } from './parts.ts'

type Product = Schemas['EditedProduct']
type Texts = Product['translations'][string]
type TextName = keyof Texts

const TEXTS = [
  { name: 'name', label: t`Name`, maxLength: MAX_LENGTHS.name },
  { name: 'description', label: t`Description`, maxLength: MAX_LENGTHS.description, rows: 6 },
  { name: 'availability_text', label: t`Availability`, maxLength: MAX_LENGTHS.availability_text, hint: t`Such as: Ships in 3 days.` },
  { name: 'seo_title', label: t`SEO title`, maxLength: MAX_LENGTHS['seo.title'] },
  { name: 'seo_description', label: t`SEO text`, maxLength: MAX_LENGTHS['seo.description'] },
] as const
const LANGUAGE = /^[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?$/
/** The tab for the product's own language. */
const OWN = ''

export function ownTexts({ name, description, availability_text, seo }: Omit<Stored, 'translations'>): Required<Record<TextName, string>> {
  const [seo_title, seo_description] = [seo.title ?? '', seo.description ?? '']
  return { name, description, availability_text: availability_text ?? '', seo_title, seo_description }
}

type Stored = Pick<Product, 'name' | 'description' | 'availability_text' | 'seo' | 'translations'>

/** A tab for each language. The form has the fields of all languages and shows one. */
export function productTexts(stored: () => Stored, update: () => void, { isNameOptional = false } = {}) {
  let shown = OWN
  let tag = ''
  let added: readonly string[] = []
  let panels: HTMLElement | undefined

  const languages = () => [...new Set([...Object.keys(stored().translations), ...added])].sort()
  const show = (language: string) => {
    shown = language
    update()
  }
  const add = () => {
    const language = tag.trim()
    if (!LANGUAGE.test(language)) return
    added = [...added, language]
    tag = ''
    show(language)
  }
  const clear = (language: string) => {
    for (const control of panels?.querySelectorAll<HTMLInputElement>(`[name$=":${language}"]`) ?? []) {
      control.value = ''
      control.dispatchEvent(new Event('input', { bubbles: true }))
    }
    added = added.filter((one) => one !== language)
    show(OWN)
  }
  /** Opens the tab of an invalid field, so the browser's message is visible. */
  const showInvalid = {
    handleEvent: ({ target }: Event) => {
      const [, language = OWN] = (target as HTMLInputElement).name.split(':')
      if (language !== shown) show(language)
    },
    capture: true,
  }
  const control = (language: string, { name, label, maxLength, ...more }: (typeof TEXTS)[number]) => {
    const text = language === OWN ? ownTexts(stored())[name] : (stored().translations[language]?.[name] ?? '')
    const named = language === OWN ? name : `${name}:${language}`
    const lang = language === OWN ? nothing : language
    const element =
      'rows' in more
        ? html`<textarea name=${named} lang=${lang} maxlength=${maxLength} rows=${more.rows} .defaultValue=${text}></textarea>`
        : html`<input name=${named} lang=${lang} maxlength=${maxLength} autocomplete="off" ?required=${named === 'name' && !isNameOptional} .defaultValue=${text}>`
    return field(language === OWN ? label : `${label} (${languageName(language)})`, element, 'hint' in more ? more.hint : nothing)
  }
  const panel = (language: string) => html`<div class="fields" ?hidden=${language !== shown}>
    ${TEXTS.map((text) => control(language, text))}
    ${
      language === OWN
        ? nothing
        : html`<p class="muted">An empty text is shown in the language of the shop.</p>
      <div><button type="button" @click=${() => clear(language)}>Remove ${languageName(language)}</button></div>`
    }
  </div>`
  const tab = (language: string) => html`<button type="button" class="tab" aria-pressed=${language === shown ? 'true' : 'false'}
    @click=${() => show(language)}>${language === OWN ? t`Shop's language` : languageName(language)}</button>`
  const view = (): Content => html`
    <div class="tabs" role="group" aria-label="Languages">${[OWN, ...languages()].map(tab)}
      <details class="menu"><summary>Add a language</summary><div @keydown=${(event: KeyboardEvent) => {
        if (event.key !== 'Enter') return
        event.preventDefault()
        add()
      }}>${field(
        t`Language`,
        cell({ label: t`Language`, value: tag, maxLength: 11 }, (text) => {
          tag = text
          update()
        }),
        t`Such as de, pt-BR or zh-Hant.`,
      )}
      <button type="button" ?disabled=${!LANGUAGE.test(tag.trim())} @click=${add}>Add</button></div></details>
    </div>
    <div ${ref((element) => {
      panels = element as HTMLElement | undefined
    })} @invalid=${showInvalid}>${[OWN, ...languages()].map(panel)}</div>`
  return {
    view,
    /** The changed texts in the form that the API takes. */
    read(data: FormData, changed: ReadonlySet<string>): Schemas['ProductChange'] {
      const text = (name: string) => String(data.get(name) ?? '')
      const orNull = (name: string) => text(name).trim() || null
      const isSeo = changed.has('seo_title') || changed.has('seo_description')
      const isTranslated = [...changed].some((name) => name.includes(':'))
      return {
        ...(changed.has('name') ? { name: text('name') } : {}),
        ...(changed.has('description') ? { description: text('description') } : {}),
        ...(changed.has('availability_text') ? { availability_text: orNull('availability_text') } : {}),
        ...(isSeo ? { seo: { title: orNull('seo_title'), description: orNull('seo_description') } } : {}),
        ...(isTranslated ? { translations: Object.fromEntries(languages().flatMap((language) => readLanguage(language, text))) } : {}),
      }
    },
    discard() {
      added = []
      if (!languages().includes(shown)) shown = OWN
    },
  }
}

/** Leaves out empty texts, and languages without any text. */
function readLanguage(language: string, text: (name: string) => string): [string, Texts][] {
  const texts = TEXTS.flatMap(({ name }) => {
    const given = text(`${name}:${language}`)
    return given.trim() === '' ? [] : [[name, given] as const]
  })
  return texts.length === 0 ? [] : [[language, Object.fromEntries(texts)]]
}
