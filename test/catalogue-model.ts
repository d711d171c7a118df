import { randomUUID } from 'node:crypto'
import fc from 'fast-check'

/** Words that a search treats as one, each in several spellings. */
const WORDS: Record<string, readonly string[]> = {
  lamp: ['lamp', 'LAMP', 'Ｌａｍｐ', 'la\u00admp'],
  lampion: ['lampion', 'Lampión'],
  cafe: ['cafe', 'Café', 'CAFE\u0301'],
  strasse: ['Straße', 'STRASSE', 'strasse'],
  οδοσ: ['ΟΔΟΣ', 'οδός', 'οδος'],
  елочка: ['Ёлочка', 'ЕЛОЧКА'],
  istanbul: ['İSTANBUL', 'ıstanbul', 'Istanbul'],
  傘: ['傘'],
  '🎈': ['🎈'],
  '3e1x': ['3e1x', '3E1X'],
  42: ['42', '４２', '④②'],
  o: ['o', 'Ø'],
}
const SEPARATORS = [' ', '\u00a0', '\u3000', ' – ', '“', '” „', '/', '-', '.', "'", '’', '™ ', ' & ', '\\', '%', '…', '\u200b']
const CATEGORIES: Record<string, readonly string[]> = { tools: ['tools'], 'lamp & co': ['lamp', 'co'], кафе: ['кафе'] }
/** The id of the catalogue's first product, and a group. */
export const FIRST_ID = '00000000-0000-4000-8000-000000000001'
const GROUPS = ['g1', 'g2', FIRST_ID]
const DAYS = ['2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.001Z', '2026-01-02T00:00:00.000Z', '2026-03-01T12:00:00.000Z']
export const KEY_SORTS = ['name', '-name', 'price', '-price', 'created_at', '-created_at'] as const

interface Text {
  text: string
  words: readonly string[]
}

export interface ProductSpec {
  name: Text
  description: Text
  option: Text | null
  category: string
  amount: number
  group: string | null
  isInStock: boolean
  isArchived: boolean
  day: string
}

export interface ModelProduct extends ProductSpec {
  id: string
  sku: string
}

export interface ModelQuery {
  /** The search; null for none. */
  search: { required: readonly Typed[]; excluded: readonly Typed[]; blank: string } | null
  category: string | null
  minPrice: number | null
  maxPrice: number | null
  isInStock: boolean | null
  group: string | null
  /** The sort order; null for the default. */
  sort: (typeof KEY_SORTS)[number] | null
  isCollapsed: boolean
  limit: number
}

interface Typed {
  typed: string
  meant: string
}

// One is frequent.
const meanings = fc.oneof({ weight: 1, arbitrary: fc.constant('lamp') }, { weight: 3, arbitrary: fc.constantFrom(...Object.keys(WORDS)) })
const word = meanings.chain((meant) => fc.constantFrom(...(WORDS[meant] ?? [])).map((typed) => ({ typed, meant })))

function texts(minLength: number, maxLength: number): fc.Arbitrary<Text> {
  return fc.array(fc.tuple(word, fc.constantFrom(...SEPARATORS)), { minLength, maxLength }).map((parts) => ({
    text: parts
      .map(([{ typed }, separator]) => typed + separator)
      .join('')
      .trim(),
    words: parts.map(([{ meant }]) => meant),
  }))
}

export const productSpec: fc.Arbitrary<ProductSpec> = fc.record({
  name: texts(1, 4),
  description: texts(0, 4),
  option: fc.option(texts(1, 2)),
  category: fc.constantFrom(...Object.keys(CATEGORIES)),
  amount: fc.nat(4),
  group: fc.option(fc.constantFrom(...GROUPS), { freq: 2 }),
  isInStock: fc.boolean(),
  isArchived: fc.nat(9).map((number) => number === 0),
  day: fc.constantFrom(...DAYS),
})

function seldom<T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | null> {
  return fc.oneof({ weight: 5, arbitrary: fc.constant(null) }, { weight: 1, arbitrary })
}

const beginning = word.chain(({ meant }) =>
  fc.integer({ min: 1, max: [...meant].length }).map((length) => {
    const prefix = [...meant].slice(0, length).join('')
    return { typed: prefix.toUpperCase(), meant: prefix }
  }),
)

const anyQuery: fc.Arbitrary<ModelQuery> = fc.record({
  search: fc.option(
    fc.record({
      required: fc.array(fc.oneof(word, beginning), { minLength: 1, maxLength: 2 }),
      excluded: fc.array(word, { maxLength: 1 }),
      blank: fc.constantFrom(' ', '\u3000', '\t'),
    }),
  ),
  category: seldom(fc.constantFrom(...Object.keys(CATEGORIES))),
  minPrice: seldom(fc.nat(2)),
  maxPrice: seldom(fc.integer({ min: 2, max: 4 })),
  isInStock: seldom(fc.boolean()),
  group: seldom(fc.constantFrom(...GROUPS)),
  sort: fc.option(fc.constantFrom(...KEY_SORTS), { freq: 2 }),
  isCollapsed: fc.boolean(),
  limit: fc.integer({ min: 3, max: 60 }),
})

/** Any search; half of them match more products than are ranked. */
export const modelQuery: fc.Arbitrary<ModelQuery> = fc.oneof(
  anyQuery,
  fc.record({ isCollapsed: fc.boolean(), limit: fc.integer({ min: 10, max: 60 }) }).map((given) => ({
    ...{ search: { required: [{ typed: 'Lamp', meant: 'lamp' }], excluded: [], blank: ' ' }, sort: null },
    ...{ category: null, minPrice: null, maxPrice: null, isInStock: null, group: null, ...given },
  })),
)

export function toModelProduct(spec: ProductSpec, id: string = randomUUID()): ModelProduct {
  // The sku has no digit, so that no search means it.
  const sku = id.replace(/[\da-f]/g, (digit) => 'ghjkmnpqrtuvwxyz'.charAt(Number.parseInt(digit, 16)))
  return { ...spec, id, sku: `zz${sku.replaceAll('-', '')}` }
}

export function toQueryString(query: ModelQuery, more: Record<string, string> = {}): string {
  const { search, category, minPrice, maxPrice, isInStock, group, sort, isCollapsed } = query
  const words = search === null ? [] : [...search.required.map(({ typed }) => typed), ...search.excluded.map(({ typed }) => `-${typed}`)]
  const parameters = {
    q: search === null ? null : words.join(search.blank),
    category,
    min_price: minPrice,
    max_price: maxPrice,
    in_stock: isInStock,
    group,
    sort,
    collapse: isCollapsed ? 'group' : null,
  }
  const given = Object.entries(parameters).filter(([, value]) => value !== null)
  return new URLSearchParams({ ...Object.fromEntries(given.map(([name, value]) => [name, String(value)])), ...more }).toString()
}

function wordsOf({ name, description, option, category }: ModelProduct): string[] {
  return [...name.words, ...description.words, ...(option?.words ?? []), ...(CATEGORIES[category] ?? [])]
}

function hasWords(product: ModelProduct, search: NonNullable<ModelQuery['search']>): boolean {
  const words = wordsOf(product)
  const required = [...new Set(search.required.map(({ meant }) => meant))]
  // The last word may still be typed: it begins others from two letters on, a word before it from three.
  const has = (meant: string, place: number) => {
    const isPrefix = [...meant].length >= (place === required.length - 1 ? 2 : 3)
    return words.some((one) => one === meant || (isPrefix && one.startsWith(meant)))
  }
  return required.every(has) && !search.excluded.some(({ meant }) => words.includes(meant))
}

/**
 * Whether some product has the words of the search. Otherwise the store searches for similar words, which the model
 * does not know.
 */
export function isKnown(products: readonly ModelProduct[], { search }: ModelQuery): boolean {
  return search === null || products.some((product) => !product.isArchived && hasWords(product, search))
}

export function matches(product: ModelProduct, query: ModelQuery): boolean {
  const { search, category, minPrice, maxPrice, isInStock, group } = query
  if (product.isArchived || (search !== null && !hasWords(product, search))) return false
  if (category !== null && product.category !== category) return false
  if (minPrice !== null && product.amount < minPrice) return false
  if (maxPrice !== null && product.amount > maxPrice) return false
  if (isInStock !== null && product.isInStock !== isInStock) return false
  return group === null || product.group === group
}

/** The entry of a product in a list: the product itself, or with `isCollapsed` its group. */
export function entryOf({ id, group }: { id: string; group: string | null }, { isCollapsed }: ModelQuery): string {
  return isCollapsed && group !== null ? `group ${group}` : `product ${id}`
}

/** Products in the order of a sort; names by their code points. */
export function inOrder(products: readonly ModelProduct[], sort: (typeof KEY_SORTS)[number]): ModelProduct[] {
  const byKey = {
    name: (a: ModelProduct, b: ModelProduct) => Buffer.compare(Buffer.from(a.name.text), Buffer.from(b.name.text)),
    price: (a: ModelProduct, b: ModelProduct) => a.amount - b.amount,
    created_at: (a: ModelProduct, b: ModelProduct) => Date.parse(a.day) - Date.parse(b.day),
  }[sort.replace('-', '') as 'name' | 'price' | 'created_at']
  const ascending = products.toSorted((a, b) => byKey(a, b) || (a.id < b.id ? -1 : 1))
  return sort.startsWith('-') ? ascending.reverse() : ascending
}

/** Each entry once, at its first position. */
export function firstOfEach(products: readonly ModelProduct[], query: ModelQuery): ModelProduct[] {
  const seen = new Set<string>()
  return products.filter((product) => {
    const entry = entryOf(product, query)
    if (seen.has(entry)) return false
    seen.add(entry)
    return true
  })
}
