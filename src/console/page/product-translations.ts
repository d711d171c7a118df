import { MAX_LENGTHS } from '#product-rules'
import type { components } from '../../../client/src/schema.ts'
import { actions, button, create, replaceChildren } from './dom.ts'
import { field } from './form.ts'

type Texts = components['schemas']['TranslatedTexts']
type Translations = Record<string, Texts>

const CONTROLS = [
  { name: 'name', label: 'Name', maxLength: MAX_LENGTHS.name },
  { name: 'description', label: 'Description', maxLength: MAX_LENGTHS.description },
  { name: 'availability_text', label: 'Availability', maxLength: MAX_LENGTHS.availability_text },
  { name: 'seo_title', label: 'SEO title', maxLength: MAX_LENGTHS['seo.title'] },
  { name: 'seo_description', label: 'SEO text', maxLength: MAX_LENGTHS['seo.description'] },
] as const

/** Translations as one text that is equal for equal ones: empty for none. */
export function formatTranslations(translations: Translations = {}): string {
  const sorted = Object.keys(translations)
    .sort()
    .map((language) => [language, sortTexts(translations[language] ?? {})] as const)
    .filter(([, texts]) => Object.keys(texts).length > 0)
  return sorted.length === 0 ? '' : JSON.stringify(Object.fromEntries(sorted))
}

export function readTranslations(text: string): Translations {
  return text === '' ? {} : JSON.parse(text)
}

function sortTexts(texts: Texts): Texts {
  return Object.fromEntries(CONTROLS.flatMap(({ name }) => (texts[name]?.trim() ? [[name, texts[name]]] : [])))
}

/** A collapsible section for each language, and a control that adds a language. `value` is that of `formatTranslations`. */
export function translationsControl(text: string): { element: HTMLElement; value: string } {
  const list = create('div')
  const tag = create('input', {
    maxLength: 11,
    autocomplete: 'off',
    placeholder: 'de',
    pattern: '[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?',
  })
  const sections = new Map<string, () => Texts>()

  function addSection(language: string, texts: Texts, isOpen: boolean): void {
    const controls = CONTROLS.map(({ name, label, maxLength }) => {
      const properties = { name: `${name}:${language}`, maxLength, value: texts[name] ?? '' }
      const control = name === 'description' ? create('textarea', { ...properties, rows: 4 }) : create('input', properties)
      return { name, control, element: field(`${label} (${language})`, Object.assign(control, { lang: language })) }
    })
    sections.set(language, () => Object.fromEntries(controls.map(({ name, control }) => [name, control.value])))
    const section = create('details', { open: isOpen }, create('summary', {}, language), ...controls.map(({ element }) => element))
    list.append(section)
    if (isOpen) controls[0]?.control.focus()
  }
  const add = button('Add language', () => {
    const language = tag.value.trim()
    if (language === '' || !tag.reportValidity()) return tag.focus()
    if (!sections.has(language)) addSection(language, {}, true)
    tag.value = ''
  })
  const element = create(
    'fieldset',
    {},
    create('legend', {}, 'Translations'),
    list,
    field('Language', tag, 'Such as de, pt-BR or zh-Hant. A text that is empty is shown as above; a language without texts is removed.'),
    actions(add),
  )
  const control = {
    element,
    get value() {
      return formatTranslations(Object.fromEntries([...sections].map(([language, read]) => [language, read()])))
    },
    set value(next: string) {
      sections.clear()
      replaceChildren(list)
      for (const [language, texts] of Object.entries(readTranslations(next))) addSection(language, texts, false)
    },
  }
  control.value = text
  return control
}
