import { type Static, Type } from 'typebox'
import type { Pool } from '../db/pool.ts'
import { Cursor, DEFAULT_LIMIT, decodeCursor, encodeCursor, Limit, type Page, toPage } from '../http/pagination.ts'
import { PRODUCT_COLUMNS, type Product, type ProductRow, toProduct } from './products.ts'

// Each key is a column with a type; with the id behind it the order is total and has an index.
const SORT_KEYS = {
  name: { column: 'name collate "C"', type: 'text', of: (row: ProductRow) => row.name },
  price: { column: 'price_amount', type: 'bigint', of: (row: ProductRow) => row.price_amount },
  created_at: { column: 'created_at', type: 'timestamptz', of: (row: ProductRow) => row.created_at.toISOString() },
} as const
const SORTS = ['name', '-name', 'price', '-price', 'created_at', '-created_at'] as const
const DEFAULT_SORT = '-created_at'

export const ProductQuery = Type.Object(
  {
    limit: Type.Optional(Limit),
    cursor: Type.Optional(Cursor),
    sort: Type.Optional(Type.Enum([...SORTS], { default: DEFAULT_SORT, description: 'With `-` in front: descending.' })),
    q: Type.Optional(Type.String({ minLength: 1, maxLength: 200, description: 'Words to find in name, sku, category or description.' })),
    category: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
  },
  { additionalProperties: false },
)

const Uuid = Type.String({ pattern: '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' })
const Instant = Type.String({ format: 'date-time', pattern: '^[12]\\d{3}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z$' })
// Whatever passes here PostgreSQL can cast: a forged cursor is refused, not an error.
const POSITIONS = {
  text: Type.Tuple([Type.String({ pattern: '^[^\\x00]*$' }), Uuid]),
  bigint: Type.Tuple([Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }), Uuid]),
  timestamptz: Type.Tuple([Instant, Uuid]),
}

/** A page of the catalogue. Keyset paging: any page costs what the first one costs. Throws `invalid_cursor`. */
export async function listProducts(pool: Pool, query: Static<typeof ProductQuery>): Promise<Page<Product>> {
  const { limit = DEFAULT_LIMIT, sort = DEFAULT_SORT, q, category, cursor } = query
  const key = SORT_KEYS[sort.replace('-', '') as keyof typeof SORT_KEYS]
  const descending = sort.startsWith('-')
  const scope = ['products', sort, q ?? null, category ?? null]
  const values: unknown[] = [limit + 1]
  const conditions: string[] = []
  const parameter = (value: unknown) => `$${values.push(value)}`

  if (q !== undefined) conditions.push(`search @@ websearch_to_tsquery('simple', ${parameter(q)})`)
  if (category !== undefined) conditions.push(`category = ${parameter(category)}`)
  if (cursor !== undefined) {
    const [value, id] = decodeCursor(scope, cursor, POSITIONS[key.type])
    const after = `(${parameter(value)}::${key.type}, ${parameter(id)}::uuid)`
    conditions.push(`(${key.column}, id) ${descending ? '<' : '>'} ${after}`)
  }
  const direction = descending ? 'desc' : 'asc'
  const { rows } = await pool.query<ProductRow>(
    `select ${PRODUCT_COLUMNS}
    from products
    ${conditions.length > 0 ? `where ${conditions.join(' and ')}` : ''}
    order by ${key.column} ${direction}, id ${direction}
    limit $1`,
    values,
  )
  return toPage(rows, limit, toProduct, (row) => encodeCursor(scope, [key.of(row), row.id]))
}
