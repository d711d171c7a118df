import { readFileSync } from 'node:fs'
import { type Node, parseSync } from 'oxc-parser'
import { keyOf, mapTexts } from '../console/kit/template.ts'

/** Files that take `html` from lit-html, so everybody sees them in English, each with the reason. */
export const ENGLISH: Readonly<Record<string, string>> = {
  'console/screens/order-slips.ts': 'a packing slip is for the customer, whose language the order does not have',
}

export interface Texts {
  /** The texts that the languages' tables translate. */
  keys: string[]
  /** Strings that an operator would see in English, because neither `t` nor `html` contains them. */
  untranslated: string[]
  /** The texts between the values of each `html` template. */
  templates: string[][]
  /** Translated texts in places of names. The program would look for another name in each language. */
  translatedNames: string[]
}

/** Calls whose strings are names for the program. */
const TECHNICAL_CALL =
  /(?:^|\.)(?:addEventListener|changeOrder|closest|createElement|createRows|get|getAll|getAttribute|getElementById|getResponseHeader|has|matchMedia|querySelector|querySelectorAll|readAll|removeEventListener|reportValidity|set|setItem|setRequestHeader|test|toggle|toLocale\w+|DELETE|DOMException|Event|GET|PATCH|POST|PUT|RegExp)$/
const TECHNICAL_PROPERTY = /^(?:accept|content-?type|font|format|key|kind|name|path|pattern|sql|type)$/i
/** Calls that show strings. Here even a single small word is a text. */
const TEXT_CALL = /^(?:(?:context\.)?(?:tell|title)|badge|card|Error|facts|field|menu|note|stage|table)$/
const TEXT_PROPERTY = /^(?:about|action|emptyText|fault|heading|hint|label|noMatch|none|search|submit|title)$/
const TEXT_ATTRIBUTE = /^(?:alt|aria-label|placeholder|title)$/

/** Text that looks like words: with blanks between words or beside a value, or with a capital letter. */
const WORDS = /\p{L}[\p{L}’']*[,.:…]? +[“(]?\p{L}|0 \p{L}{2}|\p{L}{2} 0|^[^\p{L}/#.<-]*\p{Lu}\p{Ll}/u
/** Markup and SQL. */
const CODE = /^<|\bat time zone\b|\bcreated_at >=/

/** The texts of a file of the console. */
export function textsOf(path: string, source: string): Texts {
  const { program, errors } = parseSync(path, source, { preserveParens: false })
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message}`)
  const keys: string[] = []
  const untranslated: string[] = []
  const templates: string[][] = []
  const translatedNames: string[] = []
  const add = (key: string) => {
    keys.push(key)
    return key
  }
  walk([program], (chain) => {
    const node = chain.at(-1) as Node
    if (node.type === 'TaggedTemplateExpression' && node.tag.type === 'Identifier') {
      const strings = node.quasi.quasis.map(({ value }) => value.cooked ?? '')
      if (node.tag.name === 't') add(keyOf(strings))
      if (node.tag.name === 'html' && !Object.hasOwn(ENGLISH, path)) {
        mapTexts(strings, add)
        templates.push(strings)
      }
      const call = chain.at(-2)
      const callee = call?.type === 'CallExpression' ? source.slice(call.callee.start, call.callee.end) : ''
      if (node.tag.name === 't' && (callee === 'text' || TECHNICAL_CALL.test(callee)))
        translatedNames.push(`${path}: ${callee}(${source.slice(node.start, node.end)})`)
    }
    const text = stringOf(node, chain.at(-2))
    if (text !== null && /\p{L}{2}/u.test(text) && isShown(text, chain)) untranslated.push(`${path}: ${source.slice(node.start, node.end)}`)
  })
  return { keys, untranslated, templates, translatedNames }
}

export function readTexts(root: URL, path: string): Texts {
  return textsOf(path, readFileSync(new URL(path, root), 'utf8'))
}

/** Calls `visit` with each node after its ancestors, except for types and imports. */
function walk(chain: readonly Node[], visit: (chain: readonly Node[]) => void): void {
  const node = chain.at(-1) as Node
  if (/^TS(?!AsE|SatisfiesE|NonNullE)|^Import|^ExportAll/.test(node.type)) return
  visit(chain)
  for (const value of Object.values(node))
    for (const child of Array.isArray(value) ? value : [value]) if (typeof child?.type === 'string') walk([...chain, child], visit)
}

/** A string with a 0 for each of its values. Null if a function reads it as a template. */
function stringOf(node: Node, parent: Node | undefined): string | null {
  if (node.type === 'Literal') return typeof node.value === 'string' ? node.value : null
  if (node.type !== 'TemplateLiteral' || parent?.type === 'TaggedTemplateExpression') return null
  return node.quasis.map(({ value }) => value.cooked ?? '').join('0')
}

/**
 * Whether a string is shown. The innermost node that determines its purpose decides; without one, its resemblance to
 * words.
 */
function isShown(text: string, chain: readonly Node[]): boolean {
  const looksSo = WORDS.test(text) && !CODE.test(text)
  for (let at = chain.length - 2; at >= 0; at--) {
    const [node, child] = [chain[at] as Node, chain[at + 1] as Node]
    if (node.type === 'BinaryExpression' || node.type === 'SwitchCase') return false
    if (node.type === 'MemberExpression' && child === node.property) return false
    if (node.type === 'TaggedTemplateExpression') return looksSo && isText(attributeBefore(node.quasi, chain[at + 2]))
    if (node.type === 'Property') {
      if (child === node.key) return false
      const name = node.key.type === 'Identifier' ? node.key.name : ''
      return TEXT_PROPERTY.test(name) || (looksSo && !TECHNICAL_PROPERTY.test(name))
    }
    if (node.type === 'CallExpression' || node.type === 'NewExpression') {
      const name = nameOf(node.callee)
      const isFirst = child === node.arguments[0]
      return TEXT_CALL.test(name) ? isFirst || looksSo || name === 'facts' : looksSo && !TECHNICAL_CALL.test(name)
    }
  }
  return looksSo
}

/** The attribute whose value an expression of a template is. Null for an element's content. */
function attributeBefore(template: Node, expression: Node | undefined): string | null {
  if (template.type !== 'TemplateLiteral') return null
  const before = template.quasis[template.expressions.indexOf(expression as never)]?.value.cooked ?? ''
  return /\s([^\s"'=<>]+)=["']?[^"'<>]*$/.exec(before)?.[1] ?? null
}

function isText(attribute: string | null): boolean {
  return attribute === null || TEXT_ATTRIBUTE.test(attribute)
}

function nameOf(callee: Node): string {
  if (callee.type === 'Identifier') return callee.name
  if (callee.type !== 'MemberExpression' || callee.property.type !== 'Identifier') return ''
  return `${nameOf(callee.object)}.${callee.property.name}`
}
