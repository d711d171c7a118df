import type { Translations } from './translations.ts'

/** A row of `product_events` in the change stream, with columns parsed by `pg`'s default parsers. */
export interface ProductEventRecord {
  product_id: string
  stream: 'product' | 'stock'
  version: string
  type: RecordedType
  occurred_at: Date
  traceparent: string | null
  data: CatalogueEventData
}

export const PRODUCT_EVENT_COLUMNS = Object.keys({
  product_id: true,
  stream: true,
  version: true,
  type: true,
  occurred_at: true,
  traceparent: true,
  data: true,
} satisfies Record<keyof ProductEventRecord, true>) as (keyof ProductEventRecord)[]

/** The recorded types by their version stream. */
export const RECORDED_TYPES = {
  product: ['product.created', 'product.updated', 'product.archived', 'product.restored', 'price.changed'],
  stock: ['stock.depleted', 'stock.replenished', 'stock.level_changed'],
} as const

type RecordedType = (typeof RECORDED_TYPES)[keyof typeof RECORDED_TYPES][number]
export type CatalogueEventType = `storefront.${RecordedType}`

export const CATALOGUE_EVENT_TYPES: readonly CatalogueEventType[] = [...RECORDED_TYPES.product, ...RECORDED_TYPES.stock].map(
  (type) => `storefront.${type}` as const,
)

interface Money {
  amount: number
  currency: string
}

/** A whole product, like its page, without parts that change with stock. */
export interface ProductSnapshot {
  id: string
  slug: string | null
  sku: string
  name: string
  description: string
  category: string
  /** The first one is `category`. The list is empty while the product is archived. */
  categories: { id: string; slug: string; name: string }[]
  brand: string | null
  image_url: string | null
  group: string | null
  options: Record<string, string>
  attributes: Record<string, unknown>
  price: Money
  compare_at_price: Money | null
  images: { url: string; alt: string; width: number | null; height: number | null }[]
  seo: { title: string | null; description: string | null }
  availability_text: string | null
  translations: Translations
  /** Prices in other currencies than that of `price`. */
  prices: (Money & { compare_at: number | null })[]
  /** Past, current and future sales. `price` and `prices` are the amounts that apply now. */
  sale_prices: (Money & { from: string | null; until: string | null })[]
  /** It is null for an active product. */
  status: 'draft' | null
  published_at: string | null
  unpublished_at: string | null
  created_at: string
  /** It is null while it is sold. Set for archived products and drafts, and outside the publication time. */
  archived_at: string | null
}

export interface ProductData {
  product: ProductSnapshot
}

/** The data of a price event, which concerns one currency. */
export interface PriceData {
  product_id: string
  sku: string
  /** It is null if the product is no longer sold in the currency. */
  price: Money | null
  /** It is null if the product was not sold in the currency before. */
  previous_price: Money | null
  compare_at_price: Money | null
  previous_compare_at_price: Money | null
}

export interface StockData {
  product_id: string
  sku: string
  /** It is null if stock is not tracked. */
  available: number | null
  /** It is null if it was not tracked or is unknown. */
  previous_available: number | null
}

export type CatalogueEventData = ProductData | PriceData | StockData

/**
 * A catalogue change: CloudEvents 1.0, JSON format, with the extensions sequence, partitioning and distributed tracing.
 */
export interface CatalogueEvent {
  specversion: '1.0'
  /**
   * `<product id>.<version>` or, for stock, `<product id>.stock.<version>`. It is the same at each delivery;
   * subscribers dedupe by it.
   */
  id: string
  source: '/products'
  type: CatalogueEventType
  /** The product's id. */
  subject: string
  /** The time of the change, RFC 3339 in UTC. */
  time: string
  datacontenttype: 'application/json'
  /** The version as ten digits with leading zeros, so it sorts as text. Stock events count their own versions. */
  sequence: string
  /** The product's id, so one product's events stay in order. */
  partitionkey: string
  /** W3C Trace Context of the request that made the change. */
  traceparent?: string
  data: CatalogueEventData
}

/** An advisory lock. The removal of old events holds it exclusively, and publishers of stored events share it. */
export const OLD_EVENTS_LOCK = 'storefront old product events'

/** The event id of a row. Pure. */
export function catalogueEventId({ product_id, stream, version }: Pick<ProductEventRecord, 'product_id' | 'stream' | 'version'>): string {
  return stream === 'stock' ? `${product_id}.stock.${version}` : `${product_id}.${version}`
}

/** The event of a row that `findRecordDefect` accepts. Pure. */
export function toCatalogueEvent(record: ProductEventRecord): CatalogueEvent {
  return {
    specversion: '1.0',
    id: catalogueEventId(record),
    source: '/products',
    type: `storefront.${record.type}`,
    subject: record.product_id,
    time: record.occurred_at.toISOString(),
    datacontenttype: 'application/json',
    sequence: record.version.padStart(10, '0'),
    partitionkey: record.product_id,
    ...(record.traceparent === null ? {} : { traceparent: record.traceparent }),
    data: record.data,
  }
}
