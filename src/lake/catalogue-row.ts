import type { CatalogueEvent } from '../catalogue/catalogue-event.ts'
import { isCurrency, minorDigits } from '../currency.ts'
import type { TopicMessage } from '../topic/topic.ts'
import { BIGINT, INTEGER, type LakeColumn, rowMaker, TIMESTAMPTZ, toText, typesOf, VARCHAR } from './lake-columns.ts'

interface Source {
  sequence: number
  event: CatalogueEvent
  data: Record<string, unknown>
  product: Record<string, unknown> | null
  /** What has the price: the product, or the data of an event of a price. */
  priced: Record<string, unknown>
  currency: string | null
  ingestedAt: string
}

const PRODUCT = 'of the product after the change; null in events of price and stock'
const JSON_OBJECT = 'a JSON object of the product'
const PRICE =
  'the price after the change, in minor units; of `storefront.price.changed` null where the product is not sold in `currency` any more'
const EARLIER = 'of `storefront.price.changed`'
const LEVEL = 'of events of stock'

/** The row of a catalogue event. Amounts are minor units of `currency`. Only ever added to. */
export const CATALOGUE_EVENT_COLUMNS = {
  sequence: { id: 1, type: BIGINT, about: 'position in the partition of the catalogue', value: ({ sequence }) => sequence },
  event_id: { id: 2, type: VARCHAR, about: 'the `id` of the event', value: ({ event }) => event.id },
  event_type: { id: 3, type: VARCHAR, about: 'the `type` of the event', value: ({ event }) => event.type },
  event_time: { id: 4, type: TIMESTAMPTZ, about: 'when the change was made', value: ({ event }) => event.time },
  product_id: { id: 47, type: VARCHAR, about: 'the product', value: ({ event }) => event.subject },
  version: { id: 7, type: BIGINT, about: 'versions of stock are counted by themselves', value: ({ event }) => Number(event.sequence) },
  sku: { id: 48, type: VARCHAR, about: 'of the product after the change', value: ({ product, data }) => toText((product ?? data).sku) },
  slug: { id: 57, type: VARCHAR, about: PRODUCT, value: ({ product }) => toText(product?.slug) },
  name: { id: 49, type: VARCHAR, about: PRODUCT, value: ({ product }) => toText(product?.name) },
  description: { id: 58, type: VARCHAR, about: PRODUCT, value: ({ product }) => toText(product?.description) },
  category: { id: 52, type: VARCHAR, about: PRODUCT, value: ({ product }) => toText(product?.category) },
  brand: { id: 59, type: VARCHAR, about: PRODUCT, value: ({ product }) => toText(product?.brand) },
  variant_group: { id: 60, type: VARCHAR, about: PRODUCT, value: ({ product }) => toText(product?.group) },
  options: { id: 61, type: VARCHAR, about: JSON_OBJECT, value: ({ product }) => toJson(product?.options) },
  attributes: { id: 24, type: VARCHAR, about: JSON_OBJECT, value: ({ product }) => toJson(product?.attributes) },
  currency: { id: 11, type: VARCHAR, about: 'ISO 4217', value: ({ currency }) => currency },
  currency_exponent: {
    ...{ id: 12, type: INTEGER },
    about: 'decimals of the currency: 2 for EUR, 0 for JPY, 3 for KWD',
    value: ({ currency }) => (currency !== null && isCurrency(currency) ? minorDigits(currency) : null),
  },
  price_amount: { id: 62, type: BIGINT, about: PRICE, value: ({ priced }) => amountOf(priced.price) },
  compare_at_amount: { id: 63, type: BIGINT, about: PRICE, value: ({ priced }) => amountOf(priced.compare_at_price) },
  previous_price_amount: { id: 64, type: BIGINT, about: EARLIER, value: ({ data }) => amountOf(data.previous_price) },
  previous_compare_at_amount: { id: 65, type: BIGINT, about: EARLIER, value: ({ data }) => amountOf(data.previous_compare_at_price) },
  image_url: { id: 66, type: VARCHAR, about: PRODUCT, value: ({ product }) => toText(product?.image_url) },
  created_at: { id: 22, type: TIMESTAMPTZ, about: 'when the product was created', value: ({ product }) => toText(product?.created_at) },
  archived_at: { id: 67, type: TIMESTAMPTZ, about: 'null while the product is sold', value: ({ product }) => toText(product?.archived_at) },
  available: { id: 68, type: BIGINT, about: LEVEL, value: ({ data }) => toWhole(data.available) },
  previous_available: { id: 69, type: BIGINT, about: LEVEL, value: ({ data }) => toWhole(data.previous_available) },
  product: {
    ...{ id: 70, type: VARCHAR },
    about: "the whole product as JSON, also what has no column: `product ->> '$.seo.title'`",
    value: ({ product }) => toJson(product),
  },
  ingested_at: { id: 31, type: TIMESTAMPTZ, about: 'when the lake took the event', value: ({ ingestedAt }) => ingestedAt },
} as const satisfies Readonly<Record<string, LakeColumn<Source>>>

export const CATALOGUE_COLUMNS = typesOf(CATALOGUE_EVENT_COLUMNS)

const toRow = rowMaker<Source, keyof typeof CATALOGUE_EVENT_COLUMNS>(CATALOGUE_EVENT_COLUMNS)

/** The row of an event. What the lake cannot store is null: `findCatalogueEventDefect` checks only what subscribers need. Pure. */
export function toCatalogueRow({ sequence, event }: TopicMessage<CatalogueEvent>, ingestedAt: string) {
  const data = event.data as object as Record<string, unknown>
  const product = isObject(data.product) ? data.product : null
  const priced = product ?? data
  const money = priced.price ?? data.previous_price
  const currency = isObject(money) ? toText(money.currency) : null
  return toRow({ sequence, event, data, product, priced, currency, ingestedAt })
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

/** As JSON. Its escape of a lone surrogate would make DuckDB refuse the text. */
function toJson(value: unknown): string | null {
  return isObject(value) ? JSON.stringify(value).replaceAll(LONE_SURROGATE, '$1\\ufffd') : null
}

/** As `JSON.stringify` escapes it, after an even number of backslashes. */
const LONE_SURROGATE = /(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g

function amountOf(money: unknown): number | null {
  return isObject(money) ? toWhole(money.amount) : null
}

function toWhole(value: unknown): number | null {
  return Number.isSafeInteger(value) ? Number(value) : null
}
