import { nothing, type TemplateResult } from 'lit-html'

/** JSON inside a script element, in which HTML escapes have no effect. */
export class JsonText {
  readonly text: string

  constructor(data: unknown) {
    this.text = JSON.stringify(data).replaceAll('<', '\\u003c')
  }
}

const ESCAPES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }
export const escapeHtml = (text: string) => text.replace(/[&<>"']/g, (character) => ESCAPES[character] ?? '')

/** The HTML of a lit-html template, made without a browser. Values are text, and each is escaped. */
export function toText(value: unknown): string {
  if (value === nothing || value === null || value === undefined) return ''
  if (Array.isArray(value)) return value.map(toText).join('')
  if (value instanceof JsonText) return value.text
  return isTemplate(value) ? templateText(value) : escapeHtml(String(value))
}

function isTemplate(value: unknown): value is TemplateResult {
  return typeof value === 'object' && value !== null && '_$litType$' in value
}

function templateText({ strings, values }: TemplateResult): string {
  let [text = ''] = strings
  let isInTag = endsInTag(text, false)
  for (const [index, value] of values.entries()) {
    const attribute = isInTag ? /\s([?@.]?)([\w-]+)=$/.exec(text) : null
    text = attribute === null ? text + toText(value) : text.slice(0, attribute.index) + attributeText(attribute, value)
    const next = strings[index + 1] ?? ''
    isInTag = endsInTag(next, isInTag)
    text += next
  }
  return text
}

/** Whether a value after these static characters is inside a tag. */
function endsInTag(text: string, wasInTag: boolean): boolean {
  const [open, close] = [text.lastIndexOf('<'), text.lastIndexOf('>')]
  return open === close ? wasInTag : open > close
}

function attributeText([, kind, name = '']: RegExpExecArray, value: unknown): string {
  if (kind === '?') return value ? ` ${name}` : ''
  if (kind !== '') throw new Error(`${kind}${name} needs a browser`)
  return value === nothing || value === null || value === undefined ? '' : ` ${name}="${toText(value)}"`
}
