import type { TSchema } from 'typebox'

/**
 * `x-input` of a schema. `text` (default): NFC, trimmed. `pasted`: also without an address book's marks. `verbatim`: as
 * sent. `code`: no blanks, ASCII digits. `identifier`: `code` in capitals without punctuation. `email_filter`:
 * `pasted`, and a blank is an unencoded plus.
 */
type Kind = 'text' | 'pasted' | 'verbatim' | 'code' | 'identifier' | 'email_filter'

interface Rule {
  kind?: Kind
  /** An empty text stays where the schema allows it or wants a list or an object. */
  empty: 'kept' | 'null' | 'absent'
  members?: ReadonlyMap<string, { rule: Rule; isOptional: boolean }>
  items?: Rule
}

type Node = Partial<Record<'type' | 'x-input' | 'pattern' | 'format', string>> & {
  anyOf?: Node[]
  properties?: Record<string, Node>
  required?: string[]
  items?: Node
  minLength?: number
  enum?: unknown[]
  const?: unknown
}

const BLANK = String.raw`\s\p{Z}`
// Zero-width blanks and direction marks are invisible too.
const MARKS = String.raw`\u180e\u2800\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069`
const BLANKS_AROUND = new RegExp(`^[${BLANK}]+|[${BLANK}]+$`, 'gu')
const MARKS_AROUND = new RegExp(`^[${BLANK}${MARKS}]+|[${BLANK}${MARKS}]+$`, 'gu')
const BLANKS = new RegExp(`[${BLANK}${MARKS}]+`, 'gu')
const ONLY_BLANKS = new RegExp(`^[${BLANK}${MARKS}]*$`, 'u')
/** The kinds that change ASCII text even without surrounding blanks. */
const RESPELLED: ReadonlySet<Kind> = new Set(['code', 'identifier', 'email_filter'])
const PLAIN = /^(?:[!-~]|[!-~][ -~]*[!-~])$/

/** With `fills`, an empty optional scalar becomes null or absent, because HTML forms send each field. */
export function compileNormalizer(schema: TSchema, { fills }: { fills: boolean }): (value: unknown) => unknown {
  const rule = ruleOf([schema as Node], fills)
  return (value) => normalize(value, rule)
}

/** Turns `de 123.456-789` into DE123456789. */
export function toIdentifier(text: string): string {
  return text
    .normalize('NFKC')
    .replace(BLANKS, '')
    .replace(/[\p{Pd}./]/gu, '')
    .toUpperCase()
}

export function trimBlanks(text: string): string {
  return PLAIN.test(text) ? text : text.replace(BLANKS_AROUND, '')
}

function ruleOf(nodes: readonly Node[], fills: boolean): Rule {
  const branches = nodes.flatMap(branchesOf)
  const texts = branches.filter(({ type }) => type === 'string')
  const kind = texts.map((node) => node['x-input'] as Kind | undefined).find((choice) => choice !== undefined)
  const objects = branches.filter(({ properties }) => properties !== undefined)
  const lists = branches.flatMap(({ items }) => (items === undefined ? [] : [items]))
  return {
    ...(texts.length === 0 ? {} : { kind: kind ?? 'text' }),
    empty: !fills || texts.some(allowsEmpty) || branches.some(isComposed) ? 'kept' : branches.some(isNull) ? 'null' : 'absent',
    ...(objects.length === 0 ? {} : { members: membersOf(objects, fills) }),
    ...(lists.length === 0 ? {} : { items: ruleOf(lists, fills) }),
  }
}

function isComposed({ type }: Node): boolean {
  return type === 'object' || type === 'array'
}

function isNull({ type }: Node): boolean {
  return type === 'null'
}

function branchesOf(node: Node): Node[] {
  return node.anyOf === undefined ? [node] : [node, ...node.anyOf.flatMap(branchesOf)]
}

function membersOf(objects: readonly Node[], fills: boolean): NonNullable<Rule['members']> {
  const names = new Set(objects.flatMap(({ properties }) => Object.keys(properties ?? {})))
  return new Map(
    [...names].map((name) => {
      const having = objects.filter(({ properties = {} }) => Object.hasOwn(properties, name))
      const isOptional = having.every(({ required = [] }) => !required.includes(name))
      return [
        name,
        {
          rule: ruleOf(
            having.flatMap(({ properties }) => properties?.[name] ?? []),
            fills,
          ),
          isOptional,
        },
      ]
    }),
  )
}

function allowsEmpty({ minLength = 0, pattern, format, enum: values, const: only }: Node): boolean {
  if (values !== undefined) return values.includes('')
  if (only !== undefined) return only === ''
  return minLength === 0 && format === undefined && (pattern === undefined || new RegExp(pattern, 'u').test(''))
}

function normalize(value: unknown, rule: Rule): unknown {
  if (typeof value === 'string') return rule.kind === undefined ? value : normalizeText(value, rule.kind)
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return rule.items === undefined ? value : normalizeItems(value, rule.items)
  return rule.members === undefined ? value : normalizeMembers(value as Record<string, unknown>, rule.members)
}

function normalizeItems(items: unknown[], rule: Rule): unknown[] {
  for (const [index, item] of items.entries()) items[index] = normalize(item, rule)
  return items
}

function normalizeMembers(value: Record<string, unknown>, members: NonNullable<Rule['members']>): Record<string, unknown> {
  for (const [name, { rule, isOptional }] of members) {
    const member = Object.hasOwn(value, name) ? value[name] : undefined
    if (member === undefined) continue
    const normal = normalize(member, rule)
    if (rule.empty === 'kept' || !isBlank(normal)) value[name] = normal
    else if (rule.empty === 'null') value[name] = null
    else if (isOptional) delete value[name]
    else value[name] = ''
  }
  return value
}

/** Whether the text is blank. An HTML form also sends one for an empty number field. */
function isBlank(value: unknown): boolean {
  return typeof value === 'string' && ONLY_BLANKS.test(value)
}

function normalizeText(text: string, kind: Kind): string {
  if (kind === 'verbatim' || !text.isWellFormed() || (!RESPELLED.has(kind) && PLAIN.test(text))) return text
  if (ONLY_BLANKS.test(text)) return ''
  if (kind === 'code') return text.normalize('NFKC').replace(BLANKS, '')
  if (kind === 'identifier') return toIdentifier(text)
  const composed = text.normalize('NFC')
  if (kind === 'text') return trimBlanks(composed)
  const pasted = composed.replace(MARKS_AROUND, '')
  return kind === 'email_filter' ? pasted.replaceAll(' ', '+') : pasted
}
