import { type Static, Type } from 'typebox'
import { ATTRIBUTE_NAME } from '../attributes.ts'
import { AppError } from '../errors.ts'
import { Cursor, DEFAULT_LIMIT, Limit } from '../http/pagination.ts'
import { Currency, readCurrency } from './offered-prices.ts'
import { MAX_WORDS, normalizeSearch, parseSearch, type SearchWords } from './search/search-words.ts'

export const SORTS = ['name', '-name', 'price', '-price', 'created_at', '-created_at'] as const
export type KeySort = (typeof SORTS)[number]
/** Sorts that list the products of a ranking first, and then the others, newest first. */
export const RANKED_SORTS = ['best_selling', 'position'] as const
export type RankedSort = (typeof RANKED_SORTS)[number]
const MAX_IDS = 100
const UUID = '[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}'
const Price = Type.Integer({
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  description: "A price in minor units of `currency`, or by default of each product's own currency.",
})

/** A name with a value, or with the bound of a number. */
const ATTRIBUTE_CONDITION = `^${ATTRIBUTE_NAME}(?:=[^]{0,500}|[<>]=-?(?:0|[1-9][0-9]{0,15})(?:\\.[0-9]{1,10})?)$`

/** Product ids, separated by commas. */
export const ProductIds = Type.String({
  maxLength: MAX_IDS * 37,
  pattern: `^${UUID}(,${UUID}){0,${MAX_IDS - 1}}$`,
  'x-input': 'code',
  'x-must': `be at most ${MAX_IDS} product ids, separated by commas`,
  description: `Up to ${MAX_IDS} product ids, separated by commas.`,
})

export const Lang = Type.String({
  pattern: '^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,3}$',
  examples: ['de', 'de-AT'],
  description:
    "The language of the texts (BCP 47), instead of `Accept-Language`: for pages that are built ahead of requests, and for caches that ignore `Vary`. `de-AT` gets the texts of `de`. A language that the catalogue lacks, and `und`, get the products' own texts.",
})

const MAX_SEARCH = 200
/** The search in links is in its normal form, in which a ligature can become 18 letters. */
const MAX_NORMAL_SEARCH = 4_000

const filters = {
  lang: Type.Optional(Lang),
  q: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: MAX_NORMAL_SEARCH,
      'x-input': 'verbatim',
      description:
        'Words to find in name, description, sku, category, brand or options. A `-` in front of a word excludes it. The last words may be incomplete: the last one needs two letters, the four before it three. Case and accents do not matter. Letters and digits, and the parts of a hyphenated word, may be written as one word or apart. At most 200 characters, except in a `Link` of the store.',
    }),
  ),
  category: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 100,
      description:
        'Only products of this category and of those below it. Give its slug or its name. If several categories have the name, all of them count.',
    }),
  ),
  brand: Type.Optional(
    Type.String({ minLength: 1, maxLength: 100, description: 'Only products of this brand, written exactly as in the products.' }),
  ),
  currency: Type.Optional(Currency),
  min_price: Type.Optional(Price),
  max_price: Type.Optional(Price),
  in_stock: Type.Optional(Type.Boolean({ description: '`true`: only products that are in stock. `false`: only products that are not.' })),
  ids: Type.Optional(ProductIds),
  group: Type.Optional(Type.String({ minLength: 1, maxLength: 64, description: 'Only products of this group of variants.' })),
  attr: Type.Optional(
    Type.Array(Type.String({ pattern: ATTRIBUTE_CONDITION, 'x-input': 'verbatim', examples: ['material=wool', 'weight_g>=100'] }), {
      maxItems: 20,
      description:
        'Only products with these attributes, such as `attr=material=wool`, or `attr=weight_g>=100` for numbers. A product must meet every condition, but only one of ' +
        'several values of the same attribute. Any value of a list counts.',
    }),
  ),
}

export const FacetsQuery = Type.Object(
  {
    ...filters,
    include: Type.Optional(Type.Enum(['attributes'], { description: '`attributes` adds the numbers of products by attribute.' })),
  },
  { additionalProperties: false },
)
export const ProductQuery = Type.Object(
  {
    ...filters,
    limit: Type.Optional(Limit),
    cursor: Type.Optional(Cursor),
    sort: Type.Optional(
      Type.Enum([...SORTS, ...RANKED_SORTS, 'relevance'], {
        description:
          'A `-` in front means descending. The default is `relevance` if `q` is given, otherwise `-created_at`. `relevance` needs `q`, and begins with products whose whole name is the search. Names are sorted by their bytes (UTF-8). ' +
          '`best_selling` begins with the 200 products of which most units were ordered in the last 30 days and not cancelled, in the category or in the whole shop. ' +
          '`position` needs `category`, and begins with the products that the shop has placed in this category. Both continue with the other products, newest first. ' +
          'The variants of a group share one place, and their sales count together.',
      }),
    ),
    collapse: Type.Optional(Type.Enum(['group'], { description: '`group` lists each group of variants once.' })),
    include: Type.Optional(Type.Enum(['count'], { description: '`count` adds the number of products.' })),
  },
  { additionalProperties: false },
)

/** A query's filters in canonical form, so queries that select the same products have equal filters. */
export interface Filters {
  search: SearchWords | null
  category: string | null
  brand: string | null
  /** ISO 4217. Null stands for the products' own prices. */
  currency: string | null
  minPrice: number | null
  maxPrice: number | null
  inStock: boolean | null
  ids: readonly string[] | null
  group: string | null
  /** The query's attributes, sorted. */
  attributes: readonly string[] | null
}

/** Filters with the results of `locateFilters`. */
export type LocatedFilters<T = Filters> = T & {
  /** The category and its descendants. Null if the query has no category filter. */
  categoryIds: readonly string[] | null
  /** The products sold in the currency and price range. Null if there are more than a few. */
  soldIds: readonly string[] | null
}

export interface Listing extends Filters {
  sort: KeySort | RankedSort | 'relevance'
  limit: number
  cursor: string | null
  isCollapsed: boolean
  hasCount: boolean
  /** The languages of the texts, the preferred one first. Empty for the products' own texts. */
  languages: readonly string[]
}

/** Throws `invalid_query`. */
export function readFilters(query: Omit<Static<typeof FacetsQuery>, 'include'>): Filters {
  const { q, category = null, brand = null, currency, min_price = null, max_price = null, in_stock = null, ids, group = null, attr } = query
  if (min_price !== null && max_price !== null && min_price > max_price) throw invalid('min_price', 'must not be above max_price')
  const search = q === undefined ? null : parseSearch(q)
  if (search !== null && q !== undefined && [...q].length > MAX_SEARCH && normalizeSearch(search) !== q) {
    throw invalid('q', `must have at most ${MAX_SEARCH} characters`)
  }
  if (search !== null && new Set(search.required).size + search.excluded.length > MAX_WORDS) {
    throw invalid('q', `must have at most ${MAX_WORDS} words`)
  }
  const wanted = ids === undefined ? null : [...new Set(ids.toLowerCase().split(','))].sort()
  const attributes = attr === undefined ? null : [...new Set(attr)].sort()
  return {
    search,
    category,
    brand,
    currency: readCurrency(currency),
    minPrice: min_price,
    maxPrice: max_price,
    inStock: in_stock,
    ids: wanted,
    group,
    attributes,
  }
}

/** Reads the query of a list with the products' own texts. Throws `invalid_query`. */
export function readListing(query: Static<typeof ProductQuery>): Listing {
  const filtered = readFilters(query)
  const { sort = filtered.search === null ? '-created_at' : 'relevance', limit = DEFAULT_LIMIT, cursor = null } = query
  if (sort === 'relevance' && filtered.search === null) throw invalid('sort', 'relevance needs q')
  if (sort === 'position' && filtered.category === null) throw invalid('sort', 'position needs category')
  return {
    ...filtered,
    sort,
    limit,
    cursor,
    isCollapsed: query.collapse !== undefined,
    hasCount: query.include !== undefined,
    languages: [],
  }
}

/** A query's parameters in canonical order and spelling, without default values. */
export function toParameters(listing: Omit<Listing, 'languages'>): Record<string, string | readonly string[]> {
  const {
    search,
    category,
    brand,
    currency,
    minPrice,
    maxPrice,
    inStock,
    ids,
    group,
    attributes,
    sort,
    limit,
    isCollapsed,
    hasCount,
    cursor,
  } = listing
  const parameters = {
    // A search without words stays a search that matches nothing.
    q: search === null ? null : normalizeSearch(search) || '-',
    category,
    brand,
    currency,
    min_price: minPrice,
    max_price: maxPrice,
    in_stock: inStock,
    ids: ids?.join(',') ?? null,
    group,
    attr: attributes,
    sort: sort === (search === null ? '-created_at' : 'relevance') ? null : sort,
    limit: limit === DEFAULT_LIMIT ? null : limit,
    collapse: isCollapsed ? 'group' : null,
    include: hasCount ? 'count' : null,
    cursor,
  }
  const given = Object.entries(parameters).filter(([, value]) => value !== null)
  return Object.fromEntries(given.map(([name, value]) => [name, Array.isArray(value) ? value : String(value)]))
}

/** The list that a cursor belongs to. The number is the cursor version: raise it if their form or order changes. */
export function cursorScope(listing: Omit<Listing, 'languages'>): readonly unknown[] {
  const { limit: _, cursor: __, include: ___, ...rest } = toParameters(listing)
  return ['products', 4, rest]
}

export function isRankedSort(sort: unknown): sort is RankedSort {
  return (RANKED_SORTS as readonly unknown[]).includes(sort)
}

function invalid(parameter: string, detail: string): AppError {
  return new AppError('invalid_query', 'A query parameter is not valid.', { errors: [{ parameter, detail }] })
}
