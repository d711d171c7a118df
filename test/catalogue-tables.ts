import type { Pool } from '../src/db/pool.ts'

export type CatalogueTable = 'catalogue_events' | 'products' | 'prices' | 'stock_events'
type Row = Record<string, unknown>

const list = (...values: unknown[]) => JSON.stringify(values.map((value) => (value === null || value === undefined ? null : String(value))))

/** A row of a table of the catalogue as one text, but its times. */
export const CATALOGUE_KEYS: Record<CatalogueTable, (row: Row) => string> = {
  catalogue_events: (row) => list(row.event_id),
  products: (row) => list(row.product_id, row.version, row.sku, row.name, row.currency, row.price_amount, row.is_current),
  prices: (row) => list(row.product_id, row.currency, row.version, row.price_amount, row.compare_at_amount, row.is_current),
  stock_events: (row) => list(row.event_id, row.available, row.previous_available),
}

interface Money {
  amount: number
  currency: string
}

interface Product extends Row {
  price: Money
  compare_at_price: Money | null
  prices: (Money & { compare_at: number | null })[]
}

/**
 * What the tables of the catalogue must have, computed from the events of PostgreSQL without the SQL of their views.
 */
export async function catalogueOf(pool: Pool): Promise<Record<CatalogueTable, string[]>> {
  const { rows: events } = await pool.query<{
    event_id: string
    product_id: string
    stream: string
    version: number
    type: string
    data: Row
  }>(
    `select product_id || case stream when 'stock' then '.stock.' else '.' end || version as event_id, product_id, stream, version::integer, type, data
    from product_events
    order by product_id, version`,
  )
  const states = events.filter(({ type }) => type.startsWith('product.'))
  const products: Row[] = []
  const prices: Row[] = []
  for (const [product_id, ofProduct] of Map.groupBy(states, (event) => event.product_id)) {
    const valid = new Map<string, Row>()
    for (const [index, { version, data }] of ofProduct.entries()) {
      const { sku, name, price, compare_at_price, prices: others } = data.product as Product
      const is_current = index === ofProduct.length - 1
      products.push({ product_id, version, sku, name, currency: price.currency, price_amount: price.amount, is_current })
      const offers = [{ ...price, compare_at: compare_at_price?.amount ?? null }, ...others]
      for (const currency of valid.keys()) if (!offers.some((offer) => offer.currency === currency)) valid.delete(currency)
      for (const { currency, amount, compare_at } of offers) {
        const before = valid.get(currency)
        if (before?.price_amount !== amount || before.compare_at_amount !== compare_at) {
          const row = { product_id, currency, version, price_amount: amount, compare_at_amount: compare_at, is_current: false }
          valid.set(currency, row)
          prices.push(row)
        }
      }
    }
    for (const row of valid.values()) row.is_current = true
  }
  return {
    catalogue_events: events.map(CATALOGUE_KEYS.catalogue_events),
    products: products.map(CATALOGUE_KEYS.products),
    prices: prices.map(CATALOGUE_KEYS.prices),
    stock_events: events
      .filter(({ stream }) => stream === 'stock')
      .map(({ event_id, data }) => CATALOGUE_KEYS.stock_events({ ...data, event_id })),
  }
}
