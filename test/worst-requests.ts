import type { Operation, Parameter } from '../fuzz/contract.ts'
import { AMENDED, customerId, LARGE_SHOP } from './large-shop.ts'

const { category, brand, word, attribute, currency, group, customers_with } = LARGE_SHOP
const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString()
const emailOf = (number: number) => `customer${number}@example.com`

/**
 * Values by parameter: ones that nearly everything has, that a few have, and that nothing has. Enumerations have all of
 * theirs, these first.
 */
const WORST: Record<string, readonly string[]> = {
  q: [
    word.most,
    'common lamp product shop',
    word.few,
    word.none,
    `lamp -${word.most}`,
    'comon',
    'co',
    'SKU-500-7',
    'comman',
    'customer',
    'customar',
    `${word.few} cart`,
    '+44 20 70000123',
  ],
  category: [category.most, category.few, 'none'],
  brand: [brand.most, brand.few, 'None'],
  attr: [attribute.most, attribute.few, attribute.number, 'material=none'],
  currency: ['GBP', 'CHF', ...currency.most, ...currency.few, currency.none],
  group: [group, 'none'],
  sku: ['SKU-500', 'none'],
  ids: [],
  lang: ['de', 'fr'],
  min_price: ['0', '9900'],
  max_price: ['110', '9007199254740991'],
  sort: ['price', 'name', 'best_selling', 'position'],
  status: ['shipped', 'delivered', 'failed', 'sent'],
  limit: [],
  cursor: [],
  user_id: [customers_with.few, customers_with.most, customers_with.none],
  email: [emailOf(7), emailOf(0), 'none@example.com', AMENDED, 'customer', 'cust*'],
  number: ['100500', '9007199254740991', '1'],
  id: Object.values(customers_with),
  from: [daysAgo(1), daysAgo(3650)],
  to: [daysAgo(100), daysAgo(1), daysAgo(3650)],
  actor: ['system', customerId(7)],
  action: ['changeProduct', 'createOperator', 'none'],
  subject_id: ['none'],
  order: ['100500', '9007199254740991'],
  // Their routes read no table of the shop.
  ...Object.fromEntries(['return_to', 'code_challenge', 'locale', 'warehouse', 'parent'].map((name) => [name, []])),
}

type Pair = readonly [name: string, value: string]

/** The ids that paths and parameters may name, by what is in front of them in the path. */
export interface WorstIds {
  products: readonly string[]
  slugs: readonly string[]
  categories: readonly string[]
  groups: readonly string[]
  orders: readonly string[]
  mails: readonly string[]
  webhooks: readonly string[]
  sessions: readonly string[]
  addresses: readonly string[]
  operators: readonly string[]
  'api-keys': readonly string[]
}

/** Values of a parameter beside those of another one: the first ones. */
const IN_PAIRS = 2
/** Lists by a ranking have statements of their own. */
const SORTS_IN_PAIRS = 4

/**
 * Paths of an operation with each worst value of each parameter alone, and the first ones of each two parameters
 * together.
 */
export function worstPaths(operation: Operation, ids: WorstIds): string[] {
  const values = operation.queryParameters.flatMap((parameter) => worstOf(parameter, ids).map((value): Pair => [parameter.name, value]))
  const representative = operation.queryParameters.flatMap((parameter) =>
    worstOf(parameter, ids)
      .slice(0, parameter.name === 'sort' ? SORTS_IN_PAIRS : IN_PAIRS)
      .map((value): Pair => [parameter.name, value]),
  )
  const page = operation.queryParameters.find(({ name }) => name === 'limit')
  const limit: Pair[] = page === undefined ? [] : [['limit', String(page.schema.maximum)]]
  const queries: Pair[][] = [[], ...values.map((value) => [value])]
  for (const [index, one] of representative.entries())
    for (const other of representative.slice(index + 1)) if (one[0] !== other[0]) queries.push([one, other])
  return pathsOf(operation, ids).flatMap((path) =>
    queries.map((query) => {
      const all = [...query, ...limit]
      return all.length === 0 ? path : `${path}?${all.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&')}`
    }),
  )
}

function worstOf({ name, schema }: Parameter, ids: WorstIds): readonly string[] {
  if (schema.enum !== undefined)
    return [...new Set([...(WORST[name] ?? []), ...schema.enum])].map(String).filter((value) => schema.enum?.includes(value))
  if (schema.type === 'boolean') return ['true', 'false']
  if (name === 'ids') return [ids.products.join(',')]
  if (name === 'product_id') return ids.products
  const worst = WORST[name]
  if (worst === undefined) throw new Error(`test/worst-requests.ts lacks the worst values of the parameter ${name}`)
  return worst
}

export function pathsOf({ path }: Operation, ids: WorstIds): string[] {
  const [, kind = '', , parameter] = /\/([\w-]+)\/(by-slug\/)?\{(\w+)\}/.exec(path) ?? []
  if (parameter === undefined) return [path]
  const known = parameter === 'slug' ? ids.slugs : kind === 'customers' ? Object.values(customers_with) : ids[kind as keyof WorstIds]
  return (known ?? ['00000000-0000-4000-8000-0000000fffff']).map((id) => path.replace(/\{\w+\}/, id).replace(/\{\w+\}/, '1'))
}
